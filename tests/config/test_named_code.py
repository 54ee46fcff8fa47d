"""Code of one's own that a file of agents names: what may be named, when it is imported, and what it may be."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from retinue import Agent, DataError
from retinue.config import check

PARTS = '''
import os
from pathlib import Path
from subprocess import Popen

from retinue.core.prompt import Ask
from retinue.core.protocols import Chunks, Flow, Task, act, ask
from retinue.core.values import AgentAction, AgentFinish, Message, Capabilities
from retinue.models import PromptModel

Path(__file__).with_name("canary").touch()
again = os.system
_HIDDEN = 1
number = 7


class Shouts:
    """A component."""

    def __init__(self, sign: str = "!") -> None:
        self.sign = sign

    def run(self, query: str) -> str:
        return query.upper() + self.sign


def scripted(answer: str) -> PromptModel:
    """A model."""
    return PromptModel(script=[answer])


class Forgetful:
    """A memory."""

    async def recall(self, question: str):
        from retinue.core.protocols import Recalled
        return Recalled()

    async def remember(self, question: str, answer: str) -> None:
        Path(__file__).with_name("remembered").write_text(answer)


class Blunt:
    """A strategy that asks its only tool, and answers what that says."""

    name = "blunt"

    def __call__(self, task: Task) -> Flow:
        (seen,) = yield from act(AgentAction(task.tools[0].name, task.question))
        return AgentFinish({"output": seen.text})


class Unwilling:
    def __init__(self) -> None:
        raise KeyError("nothing")
'''
FILE = """
components:
  - {name: loud, type: "acme.parts:Shouts", params: {sign: "?"}}
  - {name: engine, type: "acme.parts:scripted", params: {answer: "Hello."}}
  - {name: sieve, type: "acme.parts:Forgetful"}
agents:
  - name: shouter
    params:
      {model: engine, memory: sieve, strategy: "acme.parts:Blunt", tools: [{name: shout, pipeline_or_node: loud}]}
  - {name: talker, params: {model: engine}}
"""
# What nobody may name: of Python itself, of packages, by imports of the module, by attributes, by paths.
MODULES = (
    "os", "posix", "builtins", "sys", "subprocess", "importlib", "runpy", "code", "pickle", "marshal", "ctypes",
    "shutil", "socket", "pty", "platform", "webbrowser", "asyncio.subprocess", "multiprocessing", "threading", "timeit",
    "pdb", "cProfile", "doctest", "unittest", "site", "antigravity", "this", "retinue", "retinue.config.builder",
    "retinue.cli", "retinue.core", "retinue.components", "retinue.models", "yaml", "click", "pydantic", "numpy",
)  # fmt: skip
REFUSED = (
    *(f"{module}:{name}" for module in MODULES for name in ("system", "run")),
    "builtins:eval", "builtins:exec", "builtins:compile", "builtins:__import__", "os:popen", "subprocess:Popen",
    "importlib:import_module", "importlib.util:module_from_spec", "runpy:run_path", "pickle:loads", "sys:exit",
    "acme.parts:os", "acme.parts:Popen", "acme.parts:Path", "acme.parts:PromptModel", "acme.parts:Nothing",
    "acme.parts:_HIDDEN", "acme.parts:__name__", "acme.parts:__builtins__", "acme.parts:Shouts.run",
    "acme.parts:Shouts.__init__", "acme.parts:Shouts.__class__", "acme.parts:Shouts()", "acme.parts:again ",
    "acme.parts:", ":Shouts", "acme:parts:Shouts", "acme.parts:parts:Shouts", "acme..parts:Shouts",
    ".acme.parts:Shouts", "acme.parts.:Shouts", "acme/parts:Shouts", "/acme/parts.py:Shouts", "../outside:Shouts",
    "outside:Shouts", "acme.linked:Shouts", "file:///acme/parts.py:Shouts", "http://acme.test/parts:Shouts",
    "acme.parts:Shouts\\n", "acme.parts :Shouts",
    "acme._private:Shouts", "acme.__init__:Shouts", "acmé.parts:Shouts", "acme.parts:Ｓhouts",
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    root = tmp_path / "own"
    (root / "acme").mkdir(parents=True)
    (root / "acme" / "parts.py").write_text(PARTS)
    (root / "acme" / "_private.py").write_text(PARTS)
    (tmp_path / "outside.py").write_text(PARTS)
    (root / "acme" / "linked.py").symlink_to(tmp_path / "outside.py")
    (root / "agents.yml").write_text(FILE)
    yield root
    for name in [name for name in sys.modules if name.split(".")[0] == "acme"]:
        del sys.modules[name]


def test_components_models_memories_and_strategies_of_ones_own(folder: Path) -> None:
    assert check(folder / "agents.yml") == []
    assert not (folder / "acme" / "canary").exists()  # nothing was imported
    shouter = Agent.load_from_yaml(folder / "agents.yml", "shouter")
    assert shouter.run("hey").answer == "HEY?"
    assert (folder / "acme" / "remembered").read_text() == "HEY?"
    assert Agent.load_from_yaml(folder / "agents.yml", "talker").run("hey").answer == "Hello."


@pytest.mark.parametrize("where", ["type", "strategy"])
def test_nothing_else_can_be_named_and_nothing_is_imported_to_find_out(folder: Path, where: str) -> None:
    given = {
        "type": 'components: [{name: a, type: "%s"}]\nagents: [{name: b, params: {script: [hi]}}]\n',
        "strategy": 'agents: [{name: b, params: {script: [hi], strategy: "%s"}}]\n',
    }
    (folder / "named.yml").write_text("agents: [{name: b, params: {script: [hi]}}]")
    Agent.load_from_yaml(folder / "named.yml")  # imports what building needs
    before = set(sys.modules)
    for text in REFUSED:
        (folder / "named.yml").write_text(given[where] % text)
        assert any(not one.warning for one in check(folder / "named.yml")), text
        with pytest.raises(DataError):
            Agent.load_from_yaml(folder / "named.yml")
    assert len(REFUSED) >= 100
    assert set(sys.modules) == before
    assert not (folder / "acme" / "canary").exists()


def test_what_is_named_must_be_of_the_right_kind_and_its_own(folder: Path) -> None:
    wrong = {
        "acme.parts:again": "again is not defined in acme.parts",
        "acme.parts:number": "acme.parts:number is not a class, nor a function that makes a component",
        "acme.parts:Blunt": "acme.parts:Blunt made a Blunt, which has none of `run` (a component)",
        "acme.parts:Unwilling": "acme/parts.py:55: KeyError: 'nothing'",
    }
    for text, said in wrong.items():
        (folder / "named.yml").write_text(
            f'components: [{{name: a, type: "{text}"}}]\nagents: [{{name: b, params: {{model: a}}}}]\n'
        )
        with pytest.raises(DataError) as raised:
            Agent.load_from_yaml(folder / "named.yml")
        assert said in str(raised.value), text
        assert text == "acme.parts:Unwilling" or "named.yml:1:21: " in str(raised.value)
    (folder / "named.yml").write_text('agents: [{name: b, params: {script: [hi], strategy: "acme.parts:number"}}]\n')
    with pytest.raises(DataError, match=r"acme\.parts:number is not a strategy"):
        Agent.load_from_yaml(folder / "named.yml")


def test_a_model_must_be_one(folder: Path) -> None:
    (folder / "named.yml").write_text(FILE.replace("model: engine, memory", "model: loud, memory"))
    with pytest.raises(DataError, match="loud is not a model"):
        Agent.load_from_yaml(folder / "named.yml", "shouter")


def test_installed_code_is_named_under_the_roots_of_the_operator(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "installed"
    (folder / "acme").rename(folder / "gone")
    installed.mkdir()
    (folder / "gone").rename(installed / "acme")
    monkeypatch.syspath_prepend(str(installed))
    assert "nor is acme.parts under retinue.tools" in str(check(folder / "agents.yml")[0])
    monkeypatch.setenv("RETINUE_PYTHON_ROOTS", "other, acme")
    assert check(folder / "agents.yml") == []
    assert Agent.load_from_yaml(folder / "agents.yml", "shouter").run("hey").answer == "HEY?"


def test_another_module_of_that_name_is_not_taken_for_it(folder: Path) -> None:
    (folder / "json").mkdir()
    (folder / "json" / "parts.py").write_text(PARTS)
    (folder / "colorsys.py").write_text(PARTS)
    import colorsys  # noqa: F401 -- another module of the name is there already

    (folder / "named.yml").write_text(FILE.replace("acme.parts", "colorsys"))
    with pytest.raises(DataError, match="another module is called colorsys"):
        Agent.load_from_yaml(folder / "named.yml", "shouter")
