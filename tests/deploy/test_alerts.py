"""The alert rules: of metrics and labels that there are, and one for each fault that a metric can show."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
_ROW = re.compile(r"\| `([a-z_]+)` \| (\w+) \| (\w*) ?\| ([\w, ]*?) ?\|")
_OF_PROMETHEUS = {"up": {"job", "instance"}}
_BY_SCRAPE = {"job", "instance", "pod"}


def rules() -> dict[str, Any]:
    (group,) = yaml.safe_load((ROOT / "deploy/alerts.yml").read_text())["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def page() -> dict[str, set[str]]:
    """The labels of each sample."""
    found = dict(_OF_PROMETHEUS)
    for name, kind, _, labels in _ROW.findall((ROOT / "docs/metrics.md").read_text()):
        its = {*filter(None, labels.split(", "))} | _BY_SCRAPE
        suffixes = ("_count", "_sum", "_bucket") if kind == "histogram" else ("",)
        found |= {f"{name}{suffix}": its for suffix in suffixes}
    return found


def test_rules_are_of_metrics_and_labels_on_the_page() -> None:
    known = page()
    for alert, rule in rules().items():
        used = re.findall(r"\b(up|retinue_\w+|process_\w+)\b(?:\{([^}]*)\})?", rule["expr"])
        assert used, alert
        for name, selected in used:
            assert name in known, f"{alert}: {name}"
            assert set(re.findall(r"(\w+)(?:=|!)", selected)) <= known[name], alert
        for names in re.findall(r"(?:by|without) \(([^)]*)\)", rule["expr"]):
            assert {*names.split(", ")} <= set().union(*(known[name] for name, _ in used)), alert


def test_each_fault_has_its_alerts_or_says_how_else_it_shows() -> None:
    text = (ROOT / "docs/operations.md").read_text()
    _, _, table = text.partition("| what happens | what clients see | what you do | alert |\n")
    rows = [line for line in table.partition("\n\n")[0].splitlines()[1:] if line]
    told = [row.rstrip(" |").rpartition("|")[2].strip() for row in rows]
    assert rows
    for row, said in zip(rows, told, strict=True):
        assert said.startswith("none: ") or {*said.split(", ")} <= set(rules()), row[:60]
    unnamed = [alert for alert in rules() if alert not in text]
    assert unnamed == []


_CASE = """
rule_files: [{rules}]
evaluation_interval: 15s
tests:
  - interval: 1m
    input_series:
      - {{series: '{series}', values: '1 0x10'}}
    alert_rule_test:
      - eval_time: 5m
        alertname: RetinueProcessDown
        exp_alerts:
          - exp_labels: {labels}
            exp_annotations: {{summary: "10.0.0.7 does not answer: it, its machine or the network is gone or frozen."}}
"""


def labels_of_chart() -> dict[str, str]:
    """The labels under which Prometheus' operator scrapes what the chart's ServiceMonitor selects."""
    whole = yaml.safe_load_all((ROOT / "tests/deploy/rendered/everything.yaml").read_text())
    parts = [one for one in whole if one]
    (monitor,) = [one["spec"] for one in parts if one["kind"] == "ServiceMonitor"]
    wanted = monitor["selector"]["matchLabels"].items()
    (service,) = [one for one in parts if one["kind"] == "Service" and wanted <= one["metadata"]["labels"].items()]
    (endpoint,) = monitor["endpoints"]
    assert endpoint["port"] in [one["name"] for one in service["spec"]["ports"]]
    name, given = service["metadata"]["name"], service["metadata"]["labels"]
    labels = {"job": given.get(monitor.get("jobLabel", ""), name), "service": name, "endpoint": endpoint["port"]}
    for rule in endpoint.get("relabelings", ()):
        assert set(rule) == {"targetLabel", "replacement"}, "others are not followed here"
        labels[rule["targetLabel"]] = rule["replacement"]
    return labels | {"instance": "10.0.0.7", "namespace": "agents", "pod": "agents-server-0"}


def test_the_alert_for_a_dead_process_fires_under_the_labels_of_the_chart(tmp_path: Path) -> None:
    labels = labels_of_chart()
    if shutil.which("promtool") is None:
        (selected,) = re.findall(r'job=~"(.*)"', rules()["RetinueProcessDown"]["expr"])
        assert re.fullmatch(selected, labels["job"])
        pytest.skip("needs promtool: make alerts")
    series = f"up{{{','.join(f'{name}={json.dumps(value)}' for name, value in labels.items())}}}"
    told = json.dumps({**labels, "severity": "critical"})
    case = tmp_path / "case.yml"
    case.write_text(_CASE.format(rules=ROOT / "deploy/alerts.yml", series=series, labels=told))
    done = subprocess.run(["promtool", "test", "rules", str(case)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_rule_is_tested_both_ways() -> None:
    cases = yaml.safe_load((ROOT / "deploy/alerts_test.yml").read_text())["tests"]
    fires = [(test["alertname"], bool(test["exp_alerts"])) for one in cases for test in one["alert_rule_test"]]
    assert sorted(fires) == sorted((alert, way) for alert in rules() for way in (True, False))


def test_rules_fire_when_they_should() -> None:
    if shutil.which("promtool") is None:
        pytest.skip("needs promtool: make alerts")
    for words in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
        done = subprocess.run(["promtool", *words], cwd=ROOT / "deploy", capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
