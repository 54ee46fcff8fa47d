"""The chart and the compose file start the same processes, with the same flags, as `retinue up` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from fakes.rendered_chart import container
from retinue.cli.serve import command as serve, worker
from retinue.cluster.local_cluster import Plan, commands

ROOT = Path(__file__).parents[2]

# what differs, and why
EVERYWHERE = {
    "db": "the cluster has its own PostgreSQL",
    "temporal": "and its own Temporal",
    "log_format": "a log is collected there, and read by a person here",
    "grace": "a process is replaced while others go on, so its runs may take longer to finish",
    "metrics_port": "probes and Prometheus ask it",
}
IN_PODS = EVERYWHERE | {
    "file": "it is in a ConfigMap",
    "metrics_host": "they ask from other pods",
    "hosted_tools": "file_search needs a folder that all processes share",
}
SERVER_IN_PODS = IN_PODS | {
    "host": "clients are on other machines",
    "hosts": "and use the Service's name",
    "connections": "and have the address of a proxy",
}


def options(words: list[str]) -> dict[str, Any]:
    """What the command would be told."""
    program: click.Command = {"serve": serve, "worker": worker}[words[0]]
    return dict(program.make_context(words[0], list(words[1:])).params)


def differing(one: dict[str, Any], other: dict[str, Any]) -> set[str]:
    assert one.keys() == other.keys()
    return {name for name in one if one[name] != other[name]}


def of_up() -> tuple[dict[str, Any], dict[str, Any]]:
    server, drives = commands(Plan(Path("agents.yml"), Path("data")), "postgresql://here/postgres", "127.0.0.1:7233")
    return options(server), options(drives)


def test_the_chart_starts_what_up_starts() -> None:
    server, drives = of_up()
    assert differing(server, options(container("temporal", "server")["args"])) == set(SERVER_IN_PODS)
    assert differing(drives, options(container("temporal", "worker")["args"])) == set(IN_PODS)


@pytest.mark.parametrize("values", ["minimal", "keda"])
def test_without_temporal_only_that_is_different(values: str) -> None:
    for component in ("server", "worker"):
        without = options(container(values, component)["args"])
        there = options(container("temporal", component)["args"])
        dispatch = {"dispatch"} if component == "server" else set()
        assert differing(without, there) - {"hosts"} == {"db", "temporal", "file"} | dispatch
        assert not without["temporal"]


def test_what_values_say_reaches_the_processes() -> None:
    said = options(container("everything", "server")["args"])
    assert (said["run_ttl"], said["human_ttl"], said["retention"]) == (1200, 604_800, 2_592_000)
    assert (said["tenant_runs"], said["grace"], said["strict"]) == (50, 60.0, True)
    assert dict(said["model_runs"]) == {"models.internal:8080": 20, "gpt-5": 40}
    assert {"agents", "agents.agents.svc", "agents.example", "retinue.internal"} <= set(said["hosts"])
    assert options(container("everything", "worker")["args"])["runs_at_once"] == 100


def test_the_compose_files_start_what_up_starts() -> None:
    server, drives = of_up()
    composed = yaml.safe_load((ROOT / "deploy" / "compose.temporal.yml").read_text("utf-8"))["services"]
    expected = {"file", *EVERYWHERE}
    assert differing(server, options(composed["server"]["command"])) == expected | {"host"}
    assert differing(drives, options(composed["worker"]["command"])) == expected
    plain = yaml.safe_load((ROOT / "deploy" / "compose.yml").read_text("utf-8"))["services"]
    without = differing(options(plain["server"]["command"]), options(composed["server"]["command"]))
    assert without == {"temporal", "dispatch"}
