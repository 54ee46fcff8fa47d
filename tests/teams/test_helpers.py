"""Helpers on demand: in the foreground and the background, within their caller's budget, tools and people."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from retinue import Agent, Budget, Decision, PromptModel, StopReason, Tool, replay
from retinue.core.events import Event, Observed, Reported, Started
from retinue.core.run_result import RunResult
from retinue.core.serialization import from_json, to_json
from retinue.core.values import AgentAction, Observation
from retinue.guardrails import ToolsByUser
from retinue.harness import Harness, Helpers

pytestmark = pytest.mark.anyio
NOTED: list[str] = []
ONLY_HELPERS = Harness(workspace=False, shell=False, todos=False)


@pytest.fixture(autouse=True)
def nothing_noted() -> Iterator[None]:
    NOTED.clear()
    yield
    NOTED.clear()


async def note(word: str) -> str:
    """Notes a word."""
    NOTED.append(word)
    return f"noted {word}"


noting = Tool("note", note, "Notes a word.", effects="once")


def task(description: str, **more: Any) -> dict[str, Any]:
    return {"tool": "task", "input": {"description": description, **more}}


def read(*calls: str) -> list[dict[str, Any]]:
    return [{"tool": "task_result", "input": {"helper": call}} for call in calls]


def agent(script: Sequence[Any], tools: Sequence[Any] = (noting,), **more: Any) -> Agent:
    options: dict[str, Any] = {"strategy": "tool_calling", "harness": ONLY_HELPERS, "name": "top", **more}
    return Agent(PromptModel(script=script, retries=0), tools, **options)


WORK = [
    {"when": r"^part (?=\d)", "call": {"tool": "note", "input": {"word": "w"}}},
    {"when": "^noted", "say": "found it"},
]
IN_BACKGROUND = [
    {"when": "^go", "call": [task(f"part {at}", background=True) for at in range(4)]},
    {"when": "is at work", "call": read(*(f"call_1_{at}" for at in range(4)))},
    {"when": "found it", "say": "all found"},
]


def seen(log: Sequence[Event]) -> list[Observation]:
    return [event.observation for event in log if isinstance(event, Observed)]


def ends(log: Sequence[Event]) -> list[str]:
    return [state.call for one in seen(log) for state in one.helpers if state.ended]


def test_a_helper_answers_its_caller_and_has_a_log_of_its_own() -> None:
    script = [{"when": "^go", "call": task("part 1")}, {"when": "found it", "say": "done"}, *WORK]
    done = agent(script, instructions="Never send mail.").run("go")
    assert (done.answer, NOTED, list(done.children)) == ("done", ["w"], ["call_1_0"])
    begun = done.children["call_1_0"][0]
    assert isinstance(begun, Started)
    assert (begun.question, begun.agent) == ("part 1", "helper")
    assert (begun.instructions or "").startswith("Never send mail.")
    assert begun.tools == ("note", "task", "task_result")
    assert done.usage.runs == 1


def test_four_in_the_background_are_told_of_once_and_read() -> None:
    done = agent([*IN_BACKGROUND, *WORK]).run("go")
    assert done.answer == "all found"
    assert sorted(ends(done.events)) == [f"call_1_{at}" for at in range(4)]
    assert [one.text for one in seen(done.events)][4:] == ["found it"] * 4
    assert (done.usage.runs, len(done.children), NOTED) == (4, 4, ["w"] * 4)


async def test_the_model_is_told_of_an_end_by_the_next_observation() -> None:
    free = asyncio.Event()

    async def look(word: str) -> str:
        """Waits until the helper has noted its word."""
        await free.wait()
        return "looked"

    script = [
        {"when": "^go", "call": task("part 1", background=True)},
        {"when": "is at work", "call": {"tool": "look", "input": {"word": "a"}}},
        {"when": "looked", "call": read("call_1_0")},
        {"when": "found it", "say": "done"},
        *WORK,
    ]
    run = agent(script, [noting, Tool("look", look, "Looks.", effects="read")]).start("go")

    def ended(path: str, event: Any) -> None:
        if path == "call_1_0" and type(event).__name__ == "Finished":
            asyncio.get_running_loop().call_later(0.01, free.set)

    run.listener = ended
    done = await run.finish()
    assert done.answer == "done"
    told = [one.note for one in seen(done.events)]
    assert told == ["", "(The helper call_1_0 has answered: task_result says what came of it.)", ""]
    assert ends(done.events) == ["call_1_0"]
    assert done.usage.runs == 1


def test_a_log_with_helpers_replays_and_goes_on_wherever_it_was_cut_off() -> None:
    who = agent([*IN_BACKGROUND, *WORK])
    done = who.run("go")
    assert replay(who, done).agrees
    whole = [from_json(to_json(event)) for event in done.events]
    for cut in range(1, len(whole)):
        NOTED.clear()
        there = dict(done.children)
        again = who.resume(whole[:cut], children=there)
        assert again.answer == "all found", cut
        assert NOTED == [], cut
        assert sorted(ends(again.events)) == [f"call_1_{at}" for at in range(4)], cut


def test_a_helper_whose_log_is_gone_is_not_made_again() -> None:
    who = agent([*IN_BACKGROUND, {"when": "is not known here", "say": "lost"}, *WORK])
    done = who.run("go")
    NOTED.clear()
    at = next(number for number, event in enumerate(done.events) if isinstance(event, Observed)) + 4
    again = who.resume(done.events[:at])
    assert (again.answer, NOTED) == ("lost", [])


@pytest.mark.parametrize("limit", ["tokens", "total_steps", "children"])
@pytest.mark.parametrize("most", [4, 12, 40, 400])
def test_helpers_in_the_background_stay_within_the_budget(limit: str, most: int) -> None:
    budget = Budget(30, stale_steps=None, **{limit: most * 100 if limit == "tokens" else most})  # type: ignore[arg-type]
    many = [task(f"part {at}", background=True) for at in range(3)]
    script: list[dict[str, Any]] = [
        {"when": "^part", "call": {"tool": "note", "input": {"word": "w"}}, "delay": 0.02},
        {"when": "^noted w", "call": {"tool": "note", "input": {"word": "more"}}},
        {"when": "^noted more", "call": {"tool": "note", "input": {"word": "most"}}},
        {"when": "is at work|was made|found|end|go", "call": many},
        {"when": "", "say": "enough"},
    ]
    harness = Harness(workspace=False, shell=False, todos=False, helpers=Helpers(at_once=99, most=999))
    for number, one in enumerate(script[3:4] * 12):  # ever other tasks
        script.insert(3, {**one, "call": [task(f"part {number} {at}", background=True) for at in range(3)], "times": 1})
    done = agent(script, budget=budget, name="spender", harness=harness).run("go")
    logs = [done.events, *done.children.values()]
    requests = sum(type(event).__name__ == "Replied" for log in logs for event in log)
    tokens = sum(event.reply.usage.total_tokens for log in logs for event in log if hasattr(event, "reply"))
    used = {"total_steps": requests, "tokens": tokens, "children": len(done.children)}[limit]
    dearest = 400 * (1 + len(done.children)) if limit == "tokens" else 0  # known when a request is answered
    assert used <= getattr(budget, limit) + dearest


async def test_a_cancel_ends_helpers_at_once() -> None:
    waiting: list[str] = []
    all_wait = asyncio.Event()
    ended: list[str] = []

    async def wait(word: str) -> str:
        """Waits."""
        waiting.append(word)
        if len(waiting) == 4:
            all_wait.set()
        try:
            await asyncio.sleep(3_600)
        finally:
            ended.append(word)
        return "done"

    script = [
        {"when": "^go", "call": [task(f"part {at}", background=True) for at in range(4)]},
        {"when": "is at work", "call": read("call_1_0")},
        {"when": "^part", "call": {"tool": "wait", "input": {"word": "w"}}},
    ]
    run = agent(script, [Tool("wait", wait, "Waits.", effects="read")]).start("go")
    work = asyncio.ensure_future(run.finish())
    await all_wait.wait()
    run.cancel()
    done = await asyncio.wait_for(work, 1)
    assert (done.stop_reason, len(ended)) == (StopReason.CANCELLED, 4)
    assert [type(log[-1]).__name__ for log in done.children.values()] == ["Stopped"] * 4


def test_an_answer_cancels_helpers_and_the_log_says_so() -> None:
    script = [
        {"when": "^go", "call": task("part 1", background=True)},
        {"when": "is at work", "say": "done"},
        {"when": "^part", "say": "late", "delay": 60},
    ]
    done = agent(script).run("go")
    assert done.answer == "done"
    said = [event.text for event in done.events if isinstance(event, Reported)]
    assert said == ["cancelled helpers that were at work in the background: call_1_0"]
    assert replay(agent(script), done).differs is None


REFUSED = [
    (task("  "), "description: it is empty"),
    (task("x", tools=["mail"]), "'mail' is none of your tools that a helper can have"),
    (task("x", tools=["transfer_to_other"]), "none of your tools that a helper can have"),
    (task("x", agent="nobody"), "'nobody' is no agent among your tools"),
    (task("x", agent="note"), "'note' is no agent among your tools"),
    (task("x", agent="guarded"), "a person has to approve each call of guarded"),
    (task("x", agent="worker", tools=["note"]), "a named agent has instructions and tools of its own"),
    (task("x", agent="worker", instructions="Obey."), "a named agent has instructions and tools of its own"),
    (read("call_9_9")[0], "there is no helper 'call_9_9' in the background; there are: none"),
]


@pytest.mark.parametrize(("call", "said"), REFUSED)
def test_a_helper_has_nothing_that_its_caller_lacks(call: Mapping[str, Any], said: str) -> None:
    worker = agent([{"when": "", "say": "w"}], [], name="worker", harness=None)
    guarded = Tool("guarded", agent([{"when": "", "say": "w"}], [], name="guarded", harness=None), "g", approval=True)
    top = agent([{"when": "^go", "call": call}, {"when": "", "say": "over"}], [noting, worker, guarded])
    done = top.run("go")
    assert said in seen(done.events)[0].text
    assert (done.answer, dict(done.children)) == ("over", {})


def test_rules_for_a_member_are_not_avoided_by_a_task() -> None:
    worker = agent([{"when": "", "say": "w"}], [], name="worker", harness=None)
    rules = ToolsByUser({"ann": ["task", "note"]})
    script = [{"when": "^go", "call": task("x", agent="worker")}, {"when": "", "say": "over"}]
    done = agent(script, [noting, worker], hooks=[rules]).run("go", user="ann")
    assert "call it by its own tool" in seen(done.events)[0].text
    assert dict(done.children) == {}
    script = [{"when": "^go", "call": task("part 1")}, *WORK, {"when": "may not call|found it|over", "say": "over"}]
    done = agent(script, hooks=[ToolsByUser({"ann": ["task"]})]).run("go", user="ann")
    assert (done.answer, len(done.children), NOTED) == ("over", 1, [])


def test_a_named_agent_is_a_helper_too() -> None:
    worker = agent([{"when": "^part", "say": "from the worker"}], [], name="worker", harness=None)
    script = [{"when": "^go", "call": task("part 1", agent="worker")}, {"when": "from the worker", "say": "done"}]
    done = agent(script, [worker]).run("go")
    assert done.answer == "done"
    begun = done.children["call_1_0"][0]
    assert isinstance(begun, Started)
    assert begun.agent == "worker"


def test_approval_is_kept_and_the_question_is_its_callers() -> None:
    asked = Tool("note", note, "Notes a word.", effects="once", approval=True)
    for background in (False, True):
        script = [
            {"when": "^go", "call": task("part 1", background=background)},
            {"when": "is at work", "call": read("call_1_0")},
            {"when": "found it", "say": "done"},
            *WORK,
        ]
        who = agent(script, [asked])
        parked = who.run("go")
        assert parked.stop_reason is StopReason.AWAITING_HUMAN
        assert [one.id for one in parked.waiting] == ["call_1_0/call_1_0"]
        assert NOTED == []
        given = {"call_1_0/call_1_0": Decision("approve")}
        done = who.resume(parked.events, given, children=parked.children)
        assert (done.answer, NOTED) == ("done", ["w"])
        NOTED.clear()


def test_what_a_helper_may_pass_on_ends_with_the_depth() -> None:
    script = [
        {"when": "^go", "call": task("level 1")},
        {"when": "^level 1", "call": task("level 2")},
        {"when": "^level 2", "call": task("level 3")},
        {"when": "not a valid tool", "say": "so far"},
        {"when": "so far", "say": "so far"},
    ]
    done = agent(script).run("go")
    assert list(done.children) == ["call_1_0", "call_1_0/call_1_0"]
    deepest = done.children["call_1_0/call_1_0"]
    assert "task is not a valid tool" in seen(deepest)[0].text


def test_too_many_are_refused_and_the_model_is_told() -> None:
    many = [task(f"part {at}", background=True) for at in range(3)]
    script = [{"when": "^go", "call": many}, {"when": "is at work", "say": "done"}, *WORK]
    few = agent(script, harness=Harness(workspace=False, shell=False, helpers=Helpers(at_once=2)))
    texts = [one.text for one in seen(few.run("go").events)]
    assert sum("No helper was made: 2 are at work, and no more may be at once." in text for text in texts) == 1
    script = [
        {"when": "^go", "call": task("part 0")},
        {"when": "^found it", "call": task("part 1")},
        {"when": "No helper", "say": "alone"},
        *WORK,
    ]
    done = agent(script, harness=Harness(workspace=False, shell=False, helpers=Helpers(most=1))).run("go")
    assert done.answer == "alone"
    assert "a run may make 1" in seen(done.events)[1].text


def test_a_helper_has_only_the_tools_that_it_is_given() -> None:
    script = [{"when": "^go", "call": task("part 1", tools=[])}, {"when": "not a valid", "say": "cannot"}, *WORK]
    done: RunResult[str] = agent([*script, {"when": "cannot", "say": "done"}]).run("go")
    begun = done.children["call_1_0"][0]
    assert isinstance(begun, Started)
    assert (begun.tools, NOTED) == ((), [])


def test_the_settings_are_checked() -> None:
    for wrong in ({"depth": 0}, {"most": -1}, {"at_once": "4"}):
        with pytest.raises(Exception, match=r"helpers: .*: want a whole number of 1 or more"):
            Helpers(**wrong)


def test_people_decide_on_helpers_that_ask_a_function() -> None:
    def human(action: AgentAction, problem: str) -> Decision:
        return Decision("approve")

    asked = Tool("note", note, "Notes a word.", effects="once", approval=True)
    done = agent([*IN_BACKGROUND, *WORK], [asked], human=human).run("go")
    assert (done.answer, NOTED) == ("all found", ["w"] * 4)
