"""Hooks that a file names: guardrails with their parameters, and code."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from retinue import Agent, PromptModel, StopReason, UsageError
from retinue.config.agent_snapshot import rebuild, take_snapshot
from retinue.core.hooks import Block, Hook
from retinue.errors import AgentChanged, DataError
from retinue.guardrails import PersonalData, Secrets

CODE = '''
from retinue import Block, Hook, hook

@hook("before_run")
def gate(started, context):
    return Block("not today") if "secret" in started.question else None

class Both:
    """Two hooks."""

    def hooks(self):
        return [Hook("before_run", gate.function, "one"), Hook("after_run", gate.function, "two")]
'''
FILE = """
components:
  - name: private
    type: PersonalData
    params: {kinds: [email], answer: block}
agents:
  - name: clerk
    params:
      script: [{finish: "ann@example.org"}]
      hooks: [private, "judges:gate", "judges:Both"]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "judges.py").write_text(CODE, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("judges", None)


def load(folder: Path, text: str = FILE) -> Agent:
    (folder / "agents.yml").write_text(text, "utf-8")
    return Agent.load_from_yaml(folder / "agents.yml")


def test_a_file_names_guardrails_and_code_in_order(folder: Path) -> None:
    agent = load(folder)
    names = list(dict.fromkeys(one.name for one in agent.hooks))
    assert names == ["PersonalData", "gate", "one", "two"]
    assert agent.run("What is the secret?").stop_reason is StopReason.BLOCKED
    assert agent.run("Who?").stop_reason is StopReason.BLOCKED  # the answer, by PersonalData


@pytest.mark.parametrize(
    ("hooks", "said"),
    [
        ("[privat]", "10.*guardrail 'privat'.*private"),
        ('["judges:gat"]', "judges.py defines no 'gat'.*gate"),
        ('["os:system"]', "'os:system' is not allowed"),
        ('["judges:_x"]', "is no name of code"),
        ("private", "list"),
    ],
)
def test_a_hook_that_is_not_there_is_one_error_at_its_line(folder: Path, hooks: str, said: str) -> None:
    with pytest.raises(DataError, match=rf"(?s){said}"):
        load(folder, FILE.replace('[private, "judges:gate", "judges:Both"]', hooks))


def test_an_agent_in_python_is_written_with_its_hooks_and_comes_back(folder: Path) -> None:
    gate: Any = import_module("judges").gate
    agent = Agent(PromptModel(script=[{"finish": "ok"}]), hooks=[gate, PersonalData(kinds=["email"]), Secrets()])
    agent.save_to_yaml(folder / "written.yml")
    text = (folder / "written.yml").read_text("utf-8")
    assert "judges:gate" in text
    again = Agent.load_from_yaml(folder / "written.yml")
    assert [(one.point, one.name) for one in again.hooks] == [(one.point, one.name) for one in agent.hooks]


def test_a_hook_without_a_name_in_a_file_is_refused(folder: Path) -> None:
    agent = Agent(PromptModel(script=["ok"]), hooks=[Hook("before_run", lambda e, c: None, "mine")])
    with pytest.raises(UsageError, match="hook mine: cannot be written"):
        agent.save_to_yaml(folder / "written.yml")


def test_a_run_that_began_with_other_hooks_is_noticed() -> None:
    def agent(*hooks: Any) -> Agent:
        return Agent(PromptModel(script=["ok"]), hooks=hooks)

    gate = Hook("before_run", lambda e, c: Block("no"), "gate")
    kept = take_snapshot(agent(gate, Secrets())).body
    assert rebuild(kept, agent(gate, Secrets())).hooks
    for other in ((gate,), (Secrets(), gate), (gate, Secrets(answer="block")), ()):
        with pytest.raises(AgentChanged, match="the hooks changed"):
            rebuild(kept, agent(*other))
    older = {key: one for key, one in take_snapshot(agent()).body.items() if key != "hooks"}
    assert rebuild(older, agent())
