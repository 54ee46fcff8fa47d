"""The commands for files of agents, as processes."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest

from fakes import command_line
from fakes.config_files import SEED

pytestmark = pytest.mark.usefixtures("full")  # with which each program has an interpreter of its own

QUESTION = "How many people live in Paris and Lyon?"


def retinue(*arguments: str | Path, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "RETINUE_DEBUG"))}
    return command_line.retinue(*arguments, env=kept, cwd=folder)


def printed(*arguments: str | Path, folder: Path | None = None, code: int = 0) -> str:
    done = retinue(*arguments, folder=folder)
    assert (done.returncode, done.stderr) == (code, ""), done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    shown = printed("init", "mine", folder=folder)
    assert shown.splitlines()[:2] == ["mine/README.md", "mine/agents.yml"]
    return folder / "mine"


def test_the_starter_is_right_and_answers_offline(project: Path) -> None:
    readme = (project / "README.md").read_text()
    commands = [line.strip() for line in readme.splitlines() if line.startswith("    retinue ")]
    assert len(commands) == 3
    for line in commands:
        printed(*shlex.split(line.split("  ")[0])[1:], folder=project)
    assert "Answer: 2,623,000 people live" in printed("run", "agents.yml", QUESTION, folder=project)
    events = [
        json.loads(line) for line in printed("run", "agents.yml", QUESTION, "--json", folder=project).splitlines()
    ]
    assert [event["kind"] for event in events][::10] == ["started", "observed"]
    assert events[-1]["kind"] == "finished"


def test_init_overwrites_nothing(project: Path) -> None:
    before = (project / "agents.yml").read_text()
    done = retinue("init", project)
    assert done.returncode == 2
    assert "already exists" in done.stderr
    assert (project / "agents.yml").read_text() == before


def test_check_says_everything_and_runs_nothing(project: Path, tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text("import pathlib; pathlib.Path(__file__).with_name('ran').touch()\n")
    path = tmp_path / "a.yml"
    path.write_text("agents:\n  - name: a\n    params: {model: m, tols: [x], tools: [evil.py], strategy: reakt}\n")
    lines = printed("check", path, code=1).splitlines()
    assert lines == [
        f"{path}:3:24: unknown key 'tols'; did you mean 'tools'?",
        f"{path}:3:63: unknown strategy 'reakt'; did you mean 'react'?",
    ]
    assert not (tmp_path / "ran").exists()
    assert printed("check", SEED) == f"{SEED}: no problems found\n"
    assert "there is no such file" in printed("check", tmp_path / "none.yml", code=1)
    assert retinue("run", path, "?").returncode == 2


def test_tools_shows_what_the_model_sees(project: Path, tmp_path: Path) -> None:
    shown = printed("tools", project / "agents.yml")
    functions = json.loads(shown[: shown.index("\n]\n") + 2])
    assert [one["function"]["name"] for one in functions] == ["population", "calculator"]
    assert functions[0]["function"]["parameters"]["properties"]["city"]["description"] == "the city's name"
    path = tmp_path / "a.yml"
    path.write_text("agents:\n  - {name: a, params: {model: 'openai:${NOT_SET}', tools: [calculator]}}\n")
    assert printed("tools", path).startswith("calculator: useful for when you need to answer questions about math")


def test_draw(tmp_path: Path) -> None:
    assert printed("draw", SEED, "--pipeline", "calculator_pipeline").split() == (
        "Query ↓ CalculatorInput (← Query) ↓ Calculator (← CalculatorInput)".split()
    )
    printed("draw", SEED, "--svg", tmp_path / "p.svg")
    assert (tmp_path / "p.svg").read_text().startswith("<svg")
    assert retinue("draw", SEED, "--pipeline", "calculator").returncode == 2


def test_the_schema_is_json() -> None:
    assert json.loads(printed("schema"))["title"] == "Retinue"
