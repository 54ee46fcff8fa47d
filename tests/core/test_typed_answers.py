"""Answers of a type: the object in a result, in resumed runs and on the way."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from fakes.said import Said
from retinue import Agent, NoAnswer, PromptModel, StopReason, Tool, UsageError, fork
from retinue.extend import Finished


@dataclass
class City:
    name: str
    founded: date
    people: int


class Town(BaseModel):
    name: str = Field(alias="called")
    people: int


class Row(TypedDict):
    name: str
    people: int


BONN = {"name": "Bonn", "founded": "0012-01-01", "people": 330_000}
CASES: list[tuple[Any, Any, Any]] = [
    (City, BONN, City("Bonn", date(12, 1, 1), 330_000)),
    (Town, {"called": "Bonn", "people": 3}, Town(called="Bonn", people=3)),
    (Row, {"name": "Bonn", "people": 3}, {"name": "Bonn", "people": 3}),
    (list[Row], [{"name": "Bonn", "people": 3}], [{"name": "Bonn", "people": 3}]),
    (Literal["yes", "no"], "yes", "yes"),
    (City | list[int], [1, 2], [1, 2]),
    (City | list[int], BONN, City("Bonn", date(12, 1, 1), 330_000)),
    (int, 4, 4),
    (tuple[int, str], [1, "a"], (1, "a")),
    ({"type": "object", "required": ["x"]}, {"x": [1]}, {"x": [1]}),
]


def agent(kind: Any, *replies: Any, **options: Any) -> Agent[Any, Any]:
    return Agent(Said(list(replies)), strategy="react", answer=kind, **options)


@pytest.mark.parametrize(("kind", "said", "answer"), CASES)
def test_the_answer_is_an_object_and_stays_text_too(kind: Any, said: Any, answer: Any) -> None:
    made = agent(kind, f"{json.dumps(said)}")
    result = made.run("Which?")
    assert result.answer == answer
    assert type(result.answer) is type(answer)
    assert json.loads(result.text) == said
    assert made.resume(result.events).answer == answer
    for length in range(1, len(result.events)):
        again = agent(kind, f"{json.dumps(said)}").resume(result.events[:length])
        assert again.answer == answer


async def forked(log: Any) -> Any:
    return await fork(agent(Row, json.dumps({"name": "Köln", "people": 9})), log, 0).finish()


def test_a_fork_and_a_batch_have_objects_too() -> None:
    import asyncio

    result = agent(Row, json.dumps({"name": "Bonn", "people": 3})).run("Which?")
    assert asyncio.run(forked(result)).answer == {"name": "Köln", "people": 9}
    script = PromptModel(script=[{"finish": "7"}])
    assert [one.answer for one in Agent(script, answer=int).run_batch(["a", "b"])] == [7, 7]


def test_without_an_answer_there_is_one_clear_error() -> None:
    result = agent(City, *["I do not know"] * 9).run("Which?")
    assert result.stop_reason is StopReason.INVALID_ANSWER
    with pytest.raises(NoAnswer, match=r"the run has no answer \(INVALID_ANSWER: this is not JSON\)"):
        _ = result.answer
    assert result.text == ""
    asks = Tool("ask", lambda query: query, approval=True)
    waiting = Agent(PromptModel(script=[{"call": {"tool": "ask", "input": "x"}}]), [asks]).run("Which?")
    assert (waiting.stop_reason, waiting.answer) == (StopReason.AWAITING_HUMAN, "")


def test_a_log_of_another_type_is_no_answer() -> None:
    log = Agent(Said(["Bonn"])).run("Which?").events
    with pytest.raises(NoAnswer, match="the run's answer is not of this agent's type"):
        _ = agent(City).resume(log).answer


def test_another_type_for_the_same_agent() -> None:
    plain = Agent(PromptModel(script=[{"finish": "7"}]))
    assert plain.run("?").answer == "7"
    assert plain.with_answers(int).run("?").answer == 7
    assert plain.with_answers(int).with_answers(str).run("?").answer == "7"


@pytest.mark.parametrize("wrong", ["City", 3, lambda: 1, object()])
def test_what_is_no_type_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match=r"answer: .* has no JSON Schema .*; want a dataclass, a pydantic model"):
        Agent(Said([]), answer=wrong)


# ── while it arrives ───────────────────────────────────────────────────────────────────────────────


def parts(kind: Any, *replies: str) -> Sequence[Any]:
    return list(Agent(Said(replies, sizes=[3]), strategy="react", answer=kind).stream_answers("Which?"))


@pytest.mark.parametrize(
    ("kind", "said", "first", "last"),
    [
        (City, BONN, {"name"}, City("Bonn", date(12, 1, 1), 330_000)),
        (Row, {"name": "Bonn", "people": 3}, {"name"}, {"name": "Bonn", "people": 3}),
        (Town, {"called": "Bonn", "people": 3}, {"called"}, Town(called="Bonn", people=3)),
        ({"type": "object", "properties": {"a": {}, "b": {}}}, {"a": "Bonn", "b": 3}, {"a"}, {"a": "Bonn", "b": 3}),
    ],
)  # fmt: skip
def test_fields_arrive_one_after_the_other(kind: Any, said: Any, first: set[str], last: Any) -> None:
    told = parts(kind, "it is Bonn", json.dumps(said))
    assert len(told) > 2
    assert told[0].keys() == first
    assert told[-1] == last
    assert all(len(one) <= len(after) for one, after in pairwise(told[:-1]))


def test_of_a_list_there_is_what_is_whole() -> None:
    rows = [{"name": name, "people": 3} for name in ("Bonn", "Köln", "Trier")]
    told = parts(list[Row], "these", json.dumps(rows))
    assert told[0] == rows[:1]
    assert all(one == rows[: len(one)] for one in told)
    assert told[-1] == rows


def test_other_replies_are_no_parts_and_text_grows() -> None:
    told = parts(Row, '{"thought": "hm", "name": "Köln"}', json.dumps({"name": "Bonn", "people": 3}))
    assert all(one["name"] in "Bonn" for one in told)
    texts = parts(str, "Bonn on the Rhine")
    assert texts[-1] == "Bonn on the Rhine"
    assert all(texts[-1].startswith(one) for one in texts)


def test_at_the_end_it_is_the_answer_or_there_is_none() -> None:
    with pytest.raises(NoAnswer):
        parts(Row, *["no"] * 9)
    assert isinstance(Agent(Said(["x"])).run("?").events[-1], Finished)
