"""Telemetry that is off, or cannot be switched on: nothing is imported, nothing fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fakes.fork_server import python

SCRIPT = """
retinue: 1
agents:
  - name: agent
    params: {model: scripted, script: [{finish: forty-two}]}
"""
RUN = """
import sys
from retinue import Agent, PromptModel
import retinue.telemetry
assert Agent(PromptModel(script=["Paris."])).run("Where?").answer == "Paris."
import retinue.runs, retinue.cli.main  # FastAPI imports it by itself
print(*[name for name in sys.modules if name.startswith("opentelemetry")])
"""
WITHOUT = """
import sys
sys.modules["opentelemetry"] = None
from retinue.cli.main import main
sys.exit(main(["run", sys.argv[1], "Why?"]))
"""


def test_nothing_of_opentelemetry_is_imported() -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", RUN], capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == ([], "")


def ran(folder: Path, *words: str, **env: str) -> tuple[int, str, str]:
    """What a program with these variables says."""
    file = folder / "agents.yml"
    file.write_text(SCRIPT, "utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = python([*words, str(file), "Why?"], env={**kept, **env})
    return done.returncode, done.stdout, done.stderr


def test_without_the_extra_a_line_says_so_and_the_run_goes_on(tmp_path: Path) -> None:
    status, out, told = ran(tmp_path, "-c", WITHOUT, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    assert status == 0
    assert "forty-two" in out
    line = "telemetry needs the extra 'telemetry': pip install 'retinue[telemetry]'"
    assert told == f"retinue: runs are not recorded: {line}\n"


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "collector"}, "is no address for telemetry; want one such as http://"),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc'; Retinue sends http/protobuf",
        ),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_BSP_SCHEDULE_DELAY": "soon"},
            "OTEL_BSP_SCHEDULE_DELAY is 'soon'; want a number above 0",
        ),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_TRACES_SAMPLER": "some"},
            "OTEL_TRACES_SAMPLER is 'some'; want always_on, always_off, traceidratio",
        ),
    ],
)
def test_variables_that_are_wrong_are_one_line(tmp_path: Path, env: dict[str, str], said: str) -> None:
    status, out, told = ran(tmp_path, "-m", "retinue", "run", **env)
    assert (status, told.count("\n")) == (0, 1)
    assert "forty-two" in out
    assert told.startswith("retinue: runs are not recorded: ")
    assert said in told


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": "nonsense", "OTEL_SDK_DISABLED": "true"}
    status, _, told = ran(tmp_path, "-m", "retinue", "run", **env)
    assert (status, told) == (0, "")
