"""The specification that is kept of an agent, and the agent that is rebuilt from it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from retinue import Agent, Budget, PromptModel, Tool, tool
from retinue.config.agent_snapshot import AgentSnapshot, describe_schema_changes, rebuild, take_snapshot, without_words
from retinue.core.protocols import Flow, Task
from retinue.errors import AgentChanged
from retinue.models.reply_limits import limit_replies
from retinue.strategies import React, ToolCalling

KEY = "sk-of-a-vendor-9876543210"


@tool(effects="read")
def look(town: str) -> str:
    """Looks."""
    return town


def made(**changed: Any) -> Agent:
    """An agent in code."""
    given: dict[str, Any] = {"model": PromptModel(engine="scripted", script=[{"say": "Hi"}]), "tools": [look]}
    return Agent(**{**given, "strategy": React(prompt="$tools $query"), "instructions": "Be kind.", **changed})


def stored(snapshot: AgentSnapshot) -> Any:
    """A snapshot's body as a database gives it back."""
    return json.loads(json.dumps(snapshot.body))


def loaded(folder: Path, text: str) -> Agent:
    (folder / "agents.yml").write_text(text)
    return Agent.load_from_yaml(folder / "agents.yml")


FILE = """
components:
  - {{name: vendor, type: PromptModel, params: {{engine: openai, model_name_or_path: m, api_key: {key}, {more}}}}}
  - {{name: Ask, type: PromptNode, params: {{model_name_or_path: vendor, default_prompt_template: words.txt}}}}
agents:
  - {{name: a, params: {{prompt_node: Ask, tools: [calculator], instructions: {said}, budget: {{steps: {steps}}}}}}}
"""


def test_an_edit_of_what_one_may_ask_changes_no_agent(tmp_path: Path) -> None:
    assert take_snapshot(made(questions=["How warm is it?"])).hash == take_snapshot(made()).hash
    text = "agents:\n  - {name: a, params: {model: scripted, script: [x]%s}}\n"
    before = take_snapshot(loaded(tmp_path, text % ""))
    asked = loaded(tmp_path, text % ", questions: [How warm is it?]")
    assert take_snapshot(asked) == before
    assert rebuild(stored(before), asked).model == asked.model


def test_it_says_what_makes_an_agent_answer_as_it_does() -> None:
    body = stored(take_snapshot(made(budget=Budget(steps=3), answer={"type": "object"}, name="clerk")))
    assert (body["name"], body["instructions"], body["budget"]["steps"]) == ("clerk", "Be kind.", 3)
    assert body["strategy"]["prompt"] == "$tools $query"
    assert body["strategy"]["template"].startswith("Answer the following questions")
    assert body["model"]["settings"]["script"] == [{"say": "Hi"}]
    assert body["answer"] == {"type": "object"}
    (told,) = body["tools"]
    assert (told["name"], told["description"], told["effects"], told["approval"]) == ("look", "Looks.", "read", False)
    assert told["input"]["properties"]["town"]["type"] == "string"


def test_equal_agents_have_equal_hashes_and_others_have_others() -> None:
    changes: Sequence[dict[str, Any]] = [
        {"instructions": "Be short."},
        {"strategy": "tool_calling"},
        {"strategy": React(prompt="$query")},
        {"budget": Budget(steps=3)},
        {"tools": []},
        {"tools": [replace(look, description="Looks again.")]},
        {"tools": [replace(look, approval=True)]},
        {"model": PromptModel(engine="scripted", script=[{"say": "Ho"}])},
        {"model": limit_replies(made().model, max_tokens=5)},
        {"answer": {"type": "object"}},
    ]
    hashes = [take_snapshot(made(**change)).hash for change in ({}, *changes)]
    assert len(set(hashes)) == len(hashes)
    assert hashes == [take_snapshot(made(**change)).hash for change in ({}, *changes)]


@pytest.mark.parametrize("place", ["api_key", "base_url", "query"])
def test_no_secret_is_in_it(place: str) -> None:
    given = {
        "api_key": {"api_key": KEY},
        "base_url": {"base_url": f"http://user:{KEY}@127.0.0.1:9/v1", "api_key": "x"},
        "query": {"base_url": f"http://127.0.0.1:9/v1?key={KEY}", "api_key": "x"},
    }[place]
    agent = made(model=PromptModel("m", engine="openai", **given), instructions=f"See http://me:{KEY}@host/")
    assert KEY not in json.dumps(take_snapshot(agent).body)


def test_an_agent_of_a_file_is_rebuilt_with_todays_secrets(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("You are a clerk. $query")
    old = loaded(tmp_path, FILE.format(key=KEY, more="temperature: 0.25", said="Be kind", steps=4))
    kept = stored(take_snapshot(old))
    assert KEY not in json.dumps(kept)
    (tmp_path / "words.txt").write_text("You are a pirate. $query")
    new = loaded(tmp_path, FILE.format(key=KEY, more="temperature: 0.75", said="Be rude", steps=9))
    again = rebuild(kept, new)
    assert stored(take_snapshot(again))["strategy"] == kept["strategy"]
    assert isinstance(again.strategy, React)
    assert again.strategy.prompt == "You are a clerk. $query"
    assert (again.instructions, again.budget.steps, again.name) == ("Be kind", 4, "a")
    assert getattr(again.model, "given", {})["temperature"] == 0.25
    assert getattr(again.model, "given", {})["api_key"] == KEY
    assert stored(take_snapshot(new))["strategy"] != kept["strategy"]  # which is left as it is


def test_what_a_file_takes_from_the_environment_is_not_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERE", f"http://127.0.0.1:9/{KEY}/v1")
    (tmp_path / "words.txt").write_text("$query")
    file = FILE.format(key="x", more="base_url: '${WHERE}'", said="Be kind", steps=4)
    kept = stored(take_snapshot(loaded(tmp_path, file)))
    assert (KEY in json.dumps(kept), "${WHERE}" in json.dumps(kept)) == (False, True)
    monkeypatch.setenv("WHERE", "http://127.0.0.1:8/v1")
    new = loaded(tmp_path, file.replace("Be kind", "Be rude"))
    again = rebuild(kept, new)
    assert (again.instructions, again.model is new.model) == ("Be kind", True)


def test_what_cannot_be_built_any_more_is_named(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("$query")
    file = FILE.format(key=KEY, more="temperature: 0.25", said="Be kind", steps=4)
    kept = stored(take_snapshot(loaded(tmp_path, file)))
    new = loaded(tmp_path, file.replace("vendor", "other").replace("0.25", "0.5"))
    with pytest.raises(AgentChanged, match="the environment variable VENDOR_PARAMS_API_KEY is not set") as told:
        rebuild(kept, new)
    assert KEY not in str(told.value)


def test_a_model_that_is_the_same_keeps_its_connections() -> None:
    old = made()
    new = made(instructions="Be short.", budget=Budget(steps=2), strategy=React(prompt="$query"), tools=[look])
    new.model = old.model
    again = rebuild(stored(take_snapshot(old)), new)
    assert again.model is old.model
    assert isinstance(again.strategy, React)
    assert (again.strategy.prompt, again.budget) == ("$tools $query", old.budget)


def looking(function: Callable[..., str]) -> Tool:
    return replace(look, something=function, takes=None)


def by_country(country: str) -> str:
    return country


def by_number(town: int) -> str:
    return str(town)


def with_radius(town: str, radius: int) -> str:
    return town


def in_other_words(town: str, radius: int = 5) -> str:
    return town


@dataclass(frozen=True)
class Own:
    """A strategy of a user's."""

    name: str = "own"

    def __call__(self, task: Task) -> Flow:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"tools": []}, "the tool `look` is gone"),
        ({"tools": [replace(look, name="see")]}, "the tool `look` is gone"),
        ({"tools": [looking(by_country)]}, "the input of `look` changed: `town` is gone, `country` is new"),
        ({"tools": [looking(by_number)]}, "the input of `look` changed: `town` is another"),
        ({"tools": [looking(with_radius)]}, "the input of `look` changed: `radius` is new"),
        ({"tools": [looking(in_other_words)]}, "the input of `look` changed: `radius` is new"),
        ({"strategy": Own()}, "the strategy was `react` and is `own`"),
        ({"strategy": ToolCalling()}, "the strategy was `react` and is `tool_calling`"),
        ({"model": PromptModel(engine="scripted", script=[{"say": "Ho"}])}, "changed: its settings"),
        ({"answer": {"type": "object"}}, "the answer changed"),
    ],
)
def test_what_is_in_the_way_is_named(changed: dict[str, Any], problem: str) -> None:
    with pytest.raises(AgentChanged) as told:
        rebuild(stored(take_snapshot(made())), made(**changed))
    assert problem in str(told.value)


def test_all_that_is_in_the_way_is_named_at_once() -> None:
    other = made(tools=[looking(by_country)])
    kept = stored(take_snapshot(made(tools=[look, replace(look, name="see")])))
    with pytest.raises(AgentChanged) as told:
        rebuild(kept, other)
    assert str(told.value).count(";") == 1


def test_new_tools_are_left_out_and_the_model_is_told_of_the_others_as_it_was() -> None:
    reworded = replace(look, description="Other words.", approval=True)
    again = rebuild(stored(take_snapshot(made())), made(tools=[replace(look, name="see"), reworded]))
    (told,) = again.tools
    assert (told.name, told.description, told.approval) == ("look", "Looks.", True)


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ({"properties": {"title": {"type": "string"}}}, {"properties": {}}, "`title` is gone"),
        ({"properties": {"a": {}}, "required": []}, {"properties": {"a": {}}, "required": ["a"]}, "`a` is required"),
        ({"properties": {"a": {}}, "required": ["a"]}, {"properties": {"a": {}}}, "`a` may be left out"),
        ({"additionalProperties": True}, {"additionalProperties": False}, "its schema"),
    ],
)
def test_changes_of_schemas_are_named(before: Any, after: Any, changed: str) -> None:
    assert describe_schema_changes(without_words(before), without_words(after)) == changed


def test_words_are_no_part_of_a_schemas_form() -> None:
    described = {"title": "T", "properties": {"description": {"type": "string", "description": "D", "default": "x"}}}
    assert without_words(described) == {"properties": {"description": {"type": "string", "default": "x"}}}
