"""The harness of an agent in a file: its checks, its tools, export, and the snapshot of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.test_skills import FLAT, front
from retinue import Agent, PromptModel, UsageError
from retinue.config import check
from retinue.config.agent_snapshot import rebuild, take_snapshot
from retinue.errors import AgentChanged, DataError
from retinue.harness import Harness

FILE = """
agents:
  - name: clerk
    params:
      model: scripted
      script: [hello]
      tools: [calculator]
      harness: {}
"""
ALL = "{skills: skills}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for path, content in FLAT.items():
        file = tmp_path / "skills" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    (tmp_path / "out").mkdir()
    return tmp_path


def write(folder: Path, harness: str, **changed: str) -> Path:
    text = FILE.replace("harness: {}", f"harness: {harness}")
    for before, after in changed.items():
        text = text.replace(before, after)
    (folder / "agents.yml").write_text(text)
    return folder / "agents.yml"


def load(folder: Path, harness: str = ALL, **changed: str) -> Agent:
    return Agent.load_from_yaml(write(folder, harness, **changed))


def test_an_agent_has_the_pieces_that_its_file_says(folder: Path) -> None:
    agent = load(folder, "{skills: [skills/adding-up], agents_files: AGENTS.md}")
    harness = agent.spec.harness
    assert harness is not None
    assert ([one.name for one in harness.found_skills], harness.agents_files) == (["adding-up"], ("AGENTS.md",))
    assert [one.name for one in agent.tools] == ["calculator", *(one.name for one in harness.tools)]
    assert load(folder, "true").spec.harness == Harness(pins=folder / "retinue.pins.json")
    for off in ("false", "null"):
        assert load(folder, off).spec.harness is None
    assert "- adding-up: Adds numbers up." in str(agent.run("Hi").events[0])


@pytest.mark.parametrize(
    ("harness", "told"),
    [
        ("[skills]", "8:16: harness: want true or false or a mapping, not a list"),
        ("{skils: skills}", "8:17: unknown key 'skils'; did you mean 'skills'?"),
        ("{skills: {a: b}}", "8:25: skills: want a text or a list, not a mapping"),
        ("{skills: ../skills}", "8:25: skills: '../skills' leads out of this file's folder"),
        ("{skills: [skills, none]}", "8:34: skills: 'none' does not exist here"),
        ("{skills: out}", "8:25: skills: out: there is no skill here; a skill is a folder with a SKILL.md"),
        ("{workspace: /tmp}", "8:28: workspace: '/tmp' is not a path relative to this file's folder"),
        (
            "{workspace: false}",
            "8:16: harness: the shell runs commands in a workspace: give it one, or say shell=False",
        ),
        ("{workspace: false, shell: false, agents_files: [AGENTS.md]}", "8:49: 'agents_files' needs the workspace"),
        ("{shell: {network: pypi.org}}", "8:34: network: want a list, not 'pypi.org'"),
        ("{shell: {seconds: 0}}", "8:34: seconds: want more than 0, not 0"),
        ("{helpers: {most: 0}}", "8:33: most: want more than 0, not 0"),
        ("{todos: 7}", "8:24: todos: want true or false, not 7"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(folder: Path, harness: str, told: str) -> None:
    file = write(folder, harness)
    assert [str(one).removeprefix(f"{file}:") for one in check(file)] == [told]


def test_a_broken_skill_is_told_with_its_place_and_that_of_its_name(folder: Path) -> None:
    (folder / "skills/adding-up/SKILL.md").write_text(front("adding-up", more="name: x\n"))
    file = write(folder, ALL)
    said = "skills/adding-up/SKILL.md:4:1: the key 'name' appears twice here (first in line 2)"
    assert [str(one) for one in check(file)] == [f"{file}:8:25: skills: {said}"]
    with pytest.raises(DataError, match="the key 'name' appears twice"):
        Agent.load_from_yaml(file)


def test_people_approve_calls_of_its_tools_by_their_names(folder: Path) -> None:
    approved = {"model: scripted": "model: scripted\n      require_human_feedback: [read_skill]"}
    tools = {one.name: one.approval for one in load(folder, ALL, **approved).tools}
    assert (tools["read_skill"], tools["calculator"]) == (True, False)
    wrong = {"model: scripted": "model: scripted\n      require_human_feedback: [read_skil]"}
    assert "did you mean 'read_skill'?" in str(check(write(folder, ALL, **wrong))[0])


def test_an_executor_has_none_and_names_are_taken_once(folder: Path) -> None:
    executor = {"model: scripted": "role: executor", "      script: [hello]\n": ""}
    assert "an executor runs tools and has no 'harness'" in str(check(write(folder, ALL, **executor))[0])
    (folder / "read_skill.py").write_text('def read_skill(x: str) -> str:\n    """Reads."""\n    return x\n')
    twice = {"tools: [calculator]": "tools: {read_skill: {callable_api: 'read_skill.py:read_skill'}}"}
    assert "two tools are called 'read_skill'" in str(check(write(folder, ALL, **twice))[0])


def test_it_is_written_as_it_was_and_from_python(folder: Path, tmp_path: Path) -> None:
    loaded = load(folder, "{skills: [skills], agents_files: [AGENTS.md]}")
    loaded.save_to_yaml(folder / "again.yml")
    assert Agent.load_from_yaml(folder / "again.yml") == loaded
    assert "skills:\n      - skills" in (folder / "again.yml").read_text()
    with pytest.raises(UsageError, match="names files in"):
        loaded.save_to_yaml(tmp_path.parent / "elsewhere.yml")
    some = Harness(skills=folder / "skills/adding-up", agents_files="AGENTS.md", workspace=folder / "out")
    for harness in (True, some):
        agent = Agent(PromptModel("scripted", script=["x"]), harness=harness, name="a")
        agent.save_to_yaml(folder / "new.yml")
        again = Agent.load_from_yaml(folder / "new.yml")
        assert [one.name for one in again.tools] == [one.name for one in agent.tools]
        before, after = agent.spec.harness, again.spec.harness
        assert before is not None
        assert after is not None
        assert (after.found_skills, after.workspace) == (before.found_skills, before.workspace)
    with pytest.raises(UsageError, match=r"skills cannot be written: .* is not under"):
        Agent(PromptModel("scripted", script=["x"]), harness=Harness(skills=folder / "skills")).save_to_yaml(
            folder / "out/new.yml"
        )


def stored(agent: Agent) -> Any:
    return json.loads(json.dumps(take_snapshot(agent).body))


def test_a_run_keeps_the_harness_it_began_with(folder: Path) -> None:
    begun = load(folder, ALL, **{"tools: [calculator]": "tools: []"})
    kept = stored(begun)
    assert kept["skills"] == {one.name: one.sha256 for one in (begun.spec.harness or Harness()).found_skills}
    now = load(folder, "false")  # somebody took it away: the run goes on with what its file said
    made = rebuild(kept, now)
    assert [one.name for one in made.tools] == [one.name for one in begun.tools]
    assert made.spec.harness == begun.spec.harness
    assert take_snapshot(load(folder, ALL)).hash == take_snapshot(load(folder, ALL)).hash
    (folder / "skills/adding-up/SKILL.md").write_text(front("adding-up", "Adds other things up."))
    changed = load(folder, ALL)
    with pytest.raises(AgentChanged, match="the skill `adding-up` changed"):
        rebuild(kept, changed)
    assert take_snapshot(changed).hash != take_snapshot(begun).hash
    python = Agent(changed.model, harness=Harness(skills=folder / "skills"), strategy="react")
    kept = stored(python)
    (folder / "skills/adding-up/references/new.md").write_text("new")
    other = Agent(changed.model, harness=Harness(skills=folder / "skills"), strategy="react")
    with pytest.raises(AgentChanged, match="the skill `adding-up` changed"):
        rebuild(kept, other)
    assert "skills" not in stored(load(folder, "true"))
