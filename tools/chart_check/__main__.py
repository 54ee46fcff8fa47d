"""Check the Helm chart with Helm itself and with Kubernetes' schemas; `--update` keeps what is rendered now."""

from __future__ import annotations

import difflib
import json
import re
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml
from yamllint import linter
from yamllint.config import YamlLintConfig

from chart_check.helm import CHART, ROOT, helm, render
from chart_check.schema_walk import misspellings, names, value_at

_SETS = sorted((CHART / "ci").glob("*-values.yaml"))
_RENDERED = ROOT / "tests" / "deploy" / "rendered"
_VERSIONS = ("1.37", "1.27")  # the newest, and the oldest that Chart.yaml allows
_CUSTOM = {"ServiceMonitor", "ScaledObject"}  # which Kubernetes itself does not know
_STYLE = YamlLintConfig(
    "{extends: default, rules: {line-length: {max: 130}, document-start: disable, "
    "comments: {min-spaces-from-content: 2}, truthy: {allowed-values: ['true', 'false']}, "
    "indentation: {indent-sequences: true}}}"
)
# what can be wrong beyond a name: a value, and what is said
_WRONG = (
    ("database.url=", "database.url: say where PostgreSQL is"),
    ("database.url=postgresql://me:secret@db/retinue?sslmode=require", "database.url: leave the password out"),
    ("database.url=postgresql://me@db/retinue", "database.url: say how TLS is used"),
    (
        "database.url=postgresql://me@db/retinue?sslmode=verify-full",
        "database.url: sslmode=verify-… needs certificates",
    ),
    ("agents.files=null", "agents.files: give the text of the file of agents"),
    ("agents.existingConfigMap=mine", "agents: give either files or existingConfigMap"),
    ("agents.main=other.yml", 'agents.main: "other.yml" is not among agents.files, which has agents.yml'),
    ("temporal.address=temporal", "at '/temporal/address': 'temporal' does not match pattern"),
    ("worker.args={--grace=5}", "args: --grace=5 is said by the chart"),
    ("worker.autoscaling.minReplicas=30", "worker.autoscaling: minReplicas 30 is more than maxReplicas 20"),
    ("serviceMonitor.enabled=true", "networkPolicy.scrapers: say where Prometheus is"),
    ("server.replicas=two", "at '/server/replicas': got string, want integer"),
    ("image.digest=latest", "at '/image/digest': 'latest' does not match pattern"),
    ("environment.variables.A-B=a", "'A-B' does not match pattern"),
)


def the_version_is_retinues() -> str:
    version = re.search(r'^__version__ = "(.*)"', (ROOT / "src/retinue/__init__.py").read_text("utf-8"), re.MULTILINE)
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert version is not None
    assert chart["version"] == chart["appVersion"] == version[1], (chart["version"], chart["appVersion"], version[1])
    return version[1]


def yaml_is_in_style() -> str:
    files = [*CHART.glob("*.yaml"), *_SETS, *(ROOT / "deploy").glob("compose*.yml")]
    problems = [f"{file}:{one}" for file in files for one in linter.run(file.read_text("utf-8"), _STYLE)]
    assert not problems, "\n".join(problems)
    return f"{len(files)} files"


def helm_lints() -> str:
    for one in _SETS:
        done = helm("lint", "--strict", str(CHART), "-f", str(one))
        assert done.returncode == 0, done.stdout + done.stderr
    return f"{len(_SETS)} sets of values"


def renders_are_as_before() -> str:
    for one in _SETS:
        kept = _RENDERED / one.name.replace("-values", "")
        rendered = render(one.read_text("utf-8"))
        assert not re.search(r"[ \t]$", rendered, re.MULTILINE), f"{one.name}: spaces at the end of a line"
        if "--update" in sys.argv:
            kept.write_text(rendered, "utf-8")
        before = kept.read_text("utf-8") if kept.exists() else ""
        changed = difflib.unified_diff(before.splitlines(), rendered.splitlines(), str(kept), one.name, lineterm="")
        assert before == rendered, "\n".join([*changed, "make chart CHART=--update keeps this"])
    return f"{len(_SETS)} sets of values"


def renders_are_valid() -> str:
    count = 0
    for one in sorted(_RENDERED.glob("*.yaml")):
        for manifest in filter(None, yaml.safe_load_all(one.read_text("utf-8"))):
            if manifest["kind"] not in _CUSTOM:
                count += 1
                for version in _VERSIONS:
                    _validate(manifest, version, one)
    return f"{count} manifests against Kubernetes {' and '.join(_VERSIONS)}"


def _validate(manifest: dict[str, Any], version: str, file: Path) -> None:
    try:
        kubernetes_validate.validate(manifest, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        where = ".".join(map(str, error.path))
        name = f"{manifest['kind']} {manifest['metadata']['name']}"
        raise AssertionError(f"{file.name}: {name}: {where}: {error.message} (Kubernetes {version})") from error


def validation_finds_what_is_wrong() -> str:
    """The schemas are there, and strict."""
    manifests = list(yaml.safe_load_all((_RENDERED / "minimal.yaml").read_text("utf-8")))
    server = next(one for one in manifests if one["kind"] == "Deployment")
    server["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    for version in _VERSIONS:
        try:
            kubernetes_validate.validate(server, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            found = "readynessProbe" in error.message
        else:
            found = False
        assert found, f"Kubernetes {version}: readynessProbe is not found wrong"
    return "a misspelt probe"


def misspelt_values_are_refused() -> str:
    """Those of values.yaml each alone, so that none is refused only because of another; then all others."""
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    known = [path for path in names(schema) if path[0] != "global"]
    cases = [(path, wrong) for path in known for wrong in misspellings(path[-1])]
    alone = list({path: (path, wrong) for path, wrong in cases if "[]" not in path}.values())
    with ThreadPoolExecutor(2) as pool:
        said = [*pool.map(lambda case: _said_of([case]), alone)]
    for case, one in zip(alone, said, strict=True):
        _is_named(*case, one)
    together = _said_of(cases)
    for path, wrong in cases:
        _is_named(path, wrong, together)
    return f"{len(known)} names, {len(cases)} misspellings"


def _is_named(path: tuple[str, ...], wrong: str, said: str) -> None:
    at = "/".join(("", *path[:-1])).replace("[]", "0")
    (line,) = [one for one in said.splitlines() if one.startswith(f"- at '{at}': additional properties")] or [said]
    assert f"'{wrong}'" in line, f"{path}: {wrong}: {line}"


def _said_of(cases: list[tuple[tuple[str, ...], str]]) -> str:
    values = yaml.safe_load((CHART / "ci" / "minimal-values.yaml").read_text("utf-8"))
    for path, wrong in cases:
        _merge(values, value_at((*path[:-1], wrong), 1))
    try:
        render(yaml.safe_dump(values))
    except ValueError as error:
        return str(error)
    return "nothing"


def _merge(into: dict[str, Any], new: dict[str, Any]) -> None:
    for name, value in new.items():
        before = into.setdefault(name, value)
        if isinstance(value, list) and isinstance(value[0], dict):
            before, value = before[0], value[0]
        if isinstance(value, dict):
            _merge(before, value)


def wrong_values_are_named() -> str:
    minimal = str(CHART / "ci" / "minimal-values.yaml")
    for value, *expected in _WRONG:
        done = helm("template", "agents", str(CHART), "-f", minimal, "--set", value)
        assert done.returncode == 1, value
        assert all(words in done.stderr for words in expected), f"{value}: {done.stderr}"
    return f"{len(_WRONG)} kinds"


def it_can_be_packaged() -> str:
    done = helm("package", str(CHART), "--destination", str(ROOT / ".chart"))
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip().rpartition(" ")[2]).name


_CHECKS: tuple[Callable[[], str], ...] = (
    the_version_is_retinues,
    yaml_is_in_style,
    helm_lints,
    renders_are_as_before,
    renders_are_valid,
    validation_finds_what_is_wrong,
    wrong_values_are_named,
    misspelt_values_are_refused,
    it_can_be_packaged,
)


def main() -> int:
    """Run all checks; 1 if one fails."""
    failed = 0
    for check in _CHECKS:
        began = time.monotonic()
        name = check.__name__.replace("_", " ")
        try:
            print(f"{name}: {check()} ({time.monotonic() - began:.1f} s)")  # noqa: T201
        except AssertionError as error:
            failed += 1
            print(f"FAILED: {name}: {error}")  # noqa: T201
    print(f"{len(_CHECKS) - failed} passed, {failed} failed")  # noqa: T201
    return int(failed > 0)


sys.exit(main())
