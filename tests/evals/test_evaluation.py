"""The evaluation: every question is asked once and kept, what changed is asked anew, and order is the dataset's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from retinue import Agent, Budget, DataError, ModelError, PromptModel, StopReason, Tool, UsageError
from retinue.evals.configurations import Configuration, fingerprint_agent, load_configurations
from retinue.evals.marks import mark_run
from retinue.evals.questions import ExpectedCall, Question
from retinue.evals.search_lookup import search_lookup
from retinue.evals.study import EvalProgress, Evaluated, Plan, evaluate
from retinue.memory import ConversationMemory
from retinue.net.retry import Retries

FILM = Question("film", "Who directed The Piano?", ("Jane Campion",))
RIVER = Question("river", "Is the Seine a river?", ("yes",))
SEA = Question("sea", "Is the Baltic a river?", ("no",))
SEARCH = Tool("Search", lambda query: "[The Piano] directed by Jane Campion", "facts", effects="read")
SCRIPT = (
    {"when": "The Piano\\?", "call": {"tool": "Search", "input": "The Piano"}},
    {"when": "directed by", "finish": "Jane Campion"},
    {"when": "Seine", "finish": "yes"},
    {"when": "Baltic", "finish": "yes"},
)


def agent(script: Sequence[Any] = SCRIPT, **more: Any) -> Agent:
    return Agent(PromptModel(script=script, retries=Retries(1)), [SEARCH], **more)


def asked(kept: Path, *questions: Question, by: Agent | None = None, **plan: Any) -> Evaluated:
    return asyncio.run(evaluate(Configuration("a", by or agent()), questions, Plan(kept, **plan)))


def never(told: EvalProgress) -> None:
    pytest.fail(f"asked again: {told}")


def kept_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_runs_are_kept_with_their_logs_and_not_asked_again(tmp_path: Path) -> None:
    kept = tmp_path / "answers.jsonl"
    first = asked(kept, FILM, RIVER)
    assert {one: run.answer for one, run in first.runs.items()} == {"film": "Jane Campion", "river": "yes"}
    assert [event["kind"] for event in kept_lines(kept)[0]["events"]] == [
        "started", "asked", "replied", "called", "observed", "asked", "replied", "finished",
    ]  # fmt: skip
    again = asked(kept, RIVER, FILM, report=never)
    assert list(again.runs) == ["river", "film"]
    for question in (FILM, RIVER):
        assert mark_run(question, again.runs[question.id]) == mark_run(question, first.runs[question.id])
        assert again.runs[question.id].events == first.runs[question.id].events
    assert len(kept_lines(kept)) == 2


def test_what_counts_as_right_may_change_without_asking_again_but_not_the_question(tmp_path: Path) -> None:
    kept = tmp_path / "answers.jsonl"
    asked(kept, RIVER)
    other = Question("river", RIVER.question, ("no",), tags=("new",))
    assert asked(kept, other, report=never).runs["river"].answer == "yes"
    with pytest.raises(ModelError, match="no rule of the script fits"):
        asked(kept, Question("river", "Is the Rhine a river?", ("yes",)))


@pytest.mark.parametrize(
    "changed",
    [
        agent(instructions="Be brief."),
        agent(budget=Budget(steps=2)),
        agent(strategy="react"),
        Agent(PromptModel(script=SCRIPT), []),
        agent(name="other"),
        agent(answer={"type": "object"}),
    ],
    ids=["instructions", "budget", "strategy", "tools", "name", "answers"],
)
def test_a_changed_agent_has_another_fingerprint(changed: Agent) -> None:
    before, after, again = (asyncio.run(fingerprint_agent(one)) for one in (agent(), changed, agent()))
    assert before == again != after
    assert asyncio.run(fingerprint_agent(agent(), "more")) != before


FILE = "agents:\n  - {name: a, params: {script: [{finish: x}], tools: {Two: {callable_api: 'tools.py:two'}}}}\n"


def test_the_files_that_a_file_names_belong_to_the_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text(FILE)
    found = []
    for code in ("return 2", "return 3", "return 2"):
        (tmp_path / "tools.py").write_text(f'def two():\n    """Returns two."""\n    {code}\n')
        (one,) = load_configurations([tmp_path / "a.yml"])
        found.append(asyncio.run(fingerprint_agent(one.agent)))
    assert found[0] == found[2] != found[1]


@pytest.mark.parametrize("cut", [1, 5, 300])
def test_a_last_line_cut_short_is_asked_again(tmp_path: Path, cut: int) -> None:
    kept = tmp_path / "answers.jsonl"
    asked(kept, FILM, RIVER)
    kept.write_bytes(kept.read_bytes()[:-cut])
    assert asked(kept, FILM, RIVER).runs["river"].answer == "yes"
    assert list(asked(kept, FILM, RIVER, report=never).runs) == ["film", "river"]


def test_a_line_whose_events_are_damaged_is_asked_again(tmp_path: Path) -> None:
    kept = tmp_path / "answers.jsonl"
    asked(kept, RIVER)
    (line,) = kept_lines(kept)
    for events in ([{"kind": "what"}], ["x"], 5):
        kept.write_text(json.dumps(line | {"events": events}) + "\n")
        assert asked(kept, RIVER).runs["river"].answer == "yes"


def test_the_order_is_the_datasets_whatever_ends_first(tmp_path: Path) -> None:
    kept = tmp_path / "answers.jsonl"
    slow = ({"when": "Seine", "finish": "yes", "delay": 0.05}, *SCRIPT)
    told: list[EvalProgress] = []
    found = asked(kept, RIVER, FILM, SEA, by=agent(slow), at_once=3, report=told.append)
    assert list(found.runs) == ["river", "film", "sea"]
    assert [line["id"] for line in kept_lines(kept)][-1] == "river"
    assert [(one.done, one.of) for one in told] == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert told[-1].right == 2


def test_each_question_is_put_for_itself(tmp_path: Path) -> None:
    remembering = agent([{"when": "", "finish": "yes"}], memory=ConversationMemory())
    found = asked(tmp_path / "a", RIVER, SEA, by=remembering)
    second = found.runs["sea"].events[0]
    assert second.history == ()  # type: ignore[union-attr]
    assert len(remembering.memories) == 1
    script = [{"when": "a river", "call": {"tool": "archive", "input": "It rains"}}, {"finish": "yes"}]
    boss = Agent(PromptModel(script=script), [Tool("archive", remembering, "finds")], strategy="react")
    found = asked(tmp_path / "b", RIVER, SEA, by=boss)
    assert [log[0].history for run in found.runs.values() for log in run.children.values()] == [(), ()]  # type: ignore[union-attr]


# ── models that fail ─────────────────────────────────────────────────────────────────────────────


def test_a_model_that_cannot_be_reached_costs_no_answer_and_is_asked_again(tmp_path: Path) -> None:
    kept = tmp_path / "answers.jsonl"
    broken = agent([{"when": "Seine", "error": 500, "times": 1}, *SCRIPT])
    found = asked(kept, FILM, RIVER, SEA, by=broken)
    assert list(found.runs) == ["film", "sea"]
    assert found.failed == {"river": "the script answers 500"}
    assert list(asked(kept, FILM, RIVER, SEA, by=broken).runs) == ["film", "river", "sea"]


def test_a_model_that_never_answered_ends_the_evaluation(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="the script answers 500"):
        asked(tmp_path / "a", RIVER, FILM, by=agent([{"when": "", "error": 500}]))
    assert not (tmp_path / "a").exists()


def test_a_model_that_is_gone_ends_the_evaluation_soon(tmp_path: Path) -> None:
    many = [FILM, *(Question(f"{at}", f"Question {at}?", ("x",)) for at in range(30))]
    gone = agent([*SCRIPT, {"when": "", "error": 429}])
    with pytest.raises(ModelError, match="429"):
        asked(tmp_path / "a", *many, by=gone)
    assert len(kept_lines(tmp_path / "a")) == 1


def test_a_run_that_ends_without_an_answer_counts_as_wrong(tmp_path: Path) -> None:
    found = asked(tmp_path / "a", FILM, by=agent(budget=Budget(steps=1)))
    assert found.runs["film"].stop_reason is StopReason.MAX_ITERATION_EXCEEDED
    assert not mark_run(FILM, found.runs["film"]).right


# ── tools of a dataset ───────────────────────────────────────────────────────────────────────────


def test_functions_of_a_question_are_offered_for_it_alone_and_do_nothing(tmp_path: Path) -> None:
    function = {"name": "add", "description": "adds", "parameters": {"properties": {"a": {"type": "integer"}}}}
    sum_ = Question("sum", "Add 2", calls=(ExpectedCall("add", {"a": 2}),), functions=(function,))
    script = ({"when": "Add", "call": {"tool": "add", "input": {"a": 2}}}, {"when": "Accepted", "finish": "Done"})
    bare = Agent(PromptModel(script=[*script, *SCRIPT]), [])
    found = asked(tmp_path / "a", sum_, RIVER, by=bare)
    assert mark_run(sum_, found.runs["sum"]).right
    assert found.runs["sum"].events[0].tools == ("add",)  # type: ignore[union-attr]
    assert found.runs["river"].events[0].tools == ()  # type: ignore[union-attr]
    assert bare.tools == ()


def test_several_calls_of_such_functions_are_no_run_in_circles(tmp_path: Path) -> None:
    calls = tuple(ExpectedCall("add", {"a": number}) for number in range(6))
    question = Question("sums", "Add all", calls=calls, functions=({"name": "add"},))
    script = [{"when": f"all|{at - 1}}}", "times": 1, "call": {"tool": "add", "input": {"a": at}}} for at in range(6)]
    adding = Agent(PromptModel(script=[*script, {"finish": "Done"}]), [], strategy="react")
    run = asked(tmp_path / "a", question, by=adding).runs["sums"]
    assert mark_run(question, run).right
    assert [seen.note for step in run.steps for seen in step.observations] == [""] * 6


def test_each_run_browses_for_itself(tmp_path: Path) -> None:
    path = tmp_path / "passages.jsonl"
    path.write_text('{"title": "Seine", "text": "The Seine is a river."}\n')
    script = (
        {"when": "Seine a", "call": {"tool": "Search", "input": "Seine"}},
        {"when": "Baltic", "call": {"tool": "Lookup", "input": "river"}},
        {"when": "No page", "finish": "no"},
        {"when": "river", "finish": "yes"},
    )
    browsing = Agent(PromptModel(script=script), [])
    found = asked(tmp_path / "a", RIVER, SEA, by=browsing, environment=search_lookup(path))
    assert {one: run.answer for one, run in found.runs.items()} == {"river": "yes", "sea": "no"}


# ── agents of files ──────────────────────────────────────────────────────────────────────────────

TWO = "agents:\n  - {name: a, params: {script: [{finish: x}]}}\n  - {name: b, params: {script: [{finish: y}]}}\n"
ONE = "agents:\n  - {name: a, params: {script: [{finish: z}]}}\n"


def test_configurations_are_named_by_their_agents_and_by_files_where_these_are_the_same(tmp_path: Path) -> None:
    two, one = tmp_path / "two.yml", tmp_path / "one.yml"
    two.write_text(TWO)
    one.write_text(ONE)
    assert [each.name for each in load_configurations([two], ["b", "a", "b"])] == ["b", "a"]
    assert [each.name for each in load_configurations([one])] == ["a"]
    assert [each.name for each in load_configurations([two, one], ["a", "b"])] == [f"{two}:a", "b", f"{one}:a"]
    with pytest.raises(UsageError, match="has several agents; say which: a, b"):
        load_configurations([two])
    with pytest.raises(DataError, match=r"two\.yml: unknown agent 'c'; there are: a, b"):
        load_configurations([two], ["c"])
    with pytest.raises(DataError, match=r"unknown agent 'bb'; did you mean 'b'\?"):
        load_configurations([two, one], ["bb"])
