"""Code of a run says how far it is, and what the run may still use."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from fakes.said import Said
from retinue import Agent, Budget, PromptModel, RunContext, StopReason, UsageError, current_run, fork, replay, tool
from retinue.extend import AgentAction, Called, Capabilities, Replied, Reply, Reported, Started

pytestmark = pytest.mark.anyio
LOOK: dict[str, Any] = {"call": {"tool": "look", "input": {"query": "x"}}}
DONE = {"finish": "done"}
NATIVE = Capabilities(calls_tools=True)


def agent(look: Any, *, budget: Budget = Budget(), script: list[Any] | None = None) -> Agent:
    return Agent(PromptModel(script=script or [LOOK, DONE]), [look], budget=budget, strategy="tool_calling")


def reports(events: Any) -> list[Reported]:
    return [event for event in events if isinstance(event, Reported)]


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_report_is_seen_while_the_call_is_under_way(kind: str) -> None:
    seen, in_thread = asyncio.Event(), threading.Event()

    async def look_on(query: str, context: RunContext) -> str:
        context.report("1 of 2 pages", done=1, total=2)
        await asyncio.wait_for(seen.wait(), 20)
        return "found"

    def look_in_thread(query: str, context: RunContext) -> str:
        context.report("1 of 2 pages", done=1, total=2)
        assert in_thread.wait(20)
        return "found"

    function = look_on if kind == "async" else look_in_thread
    kinds = []
    async for event in agent(tool(effects="read", name="look")(function)).stream_async("Look"):
        kinds.append(type(event).__name__)
        if isinstance(event, Reported):
            assert event == Reported(1, "1 of 2 pages", "call_1_0", 1, 2)
            seen.set()
            in_thread.set()
    assert kinds.index("Called") < kinds.index("Reported") < kinds.index("Observed")


@tool(effects="read", name="look")
def look_twice(query: str, context: RunContext) -> str:
    """Looks."""
    for page in (1, 2):
        context.report(f"page {page}", done=page, total=2)
    return f"found {query}"


@pytest.mark.parametrize("calls", [1, 3])
def test_reports_are_in_the_log_and_replay_resume_and_fork_skip_them(calls: int) -> None:
    call = Reply("", calls=tuple(AgentAction("look", {"query": f"x{at}"}) for at in range(calls)))
    made = Agent(Said([call, "done"], NATIVE), [look_twice], strategy="tool_calling")
    result = made.run("Look")
    assert [one.done for one in reports(result.events)].count(2) == calls
    assert replay(made, result).agrees
    for length in range(1, len(result.events)):
        replied = any(isinstance(one, Replied) for one in result.events[:length])
        model = Said(["done"] if replied else [call, "done"], NATIVE)
        again = Agent(model, [look_twice], strategy="tool_calling").resume(result.events[:length])
        assert again.answer == "done"
    forked = fork(Agent(Said(["other"], NATIVE), [look_twice], strategy="tool_calling"), result, 1)
    assert asyncio.run(forked.finish()).answer == "other"


def test_after_its_call_and_outside_of_a_run_nothing_is_told() -> None:
    kept: list[RunContext] = []

    @tool(effects="read")
    def look(query: str, context: RunContext) -> str:
        """Looks."""
        kept.append(context)
        return "found"

    result = agent(look, script=[LOOK, LOOK | {"when": "never"}, DONE]).run("Look")
    kept[0].report("too late")
    current_run().report("nowhere")
    assert not reports(result.events)


def test_reports_are_bounded_and_clean() -> None:
    @tool(effects="read")
    def look(query: str, context: RunContext) -> str:
        """Looks."""
        for number in range(5_000):
            context.report(f"{number} {'x' * 1_000}\ud800")
        return "found"

    told = reports(agent(look).run("Look").events)
    assert 0 < len(told) <= 1_000
    assert max(len(one.text) for one in told) <= 500


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), "3"])
def test_what_is_no_number_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match="report: done: want a finite number"):
        current_run().report("half", done=wrong)


async def test_a_reader_who_leaves_at_a_report_ends_the_call() -> None:
    cancelled = asyncio.Event()

    @tool(effects="read")
    async def look(query: str, context: RunContext) -> str:
        """Looks."""
        context.report("1 of 2")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "found"

    events = agent(look).stream_async("Look")
    async for event in events:
        if isinstance(event, Reported):
            break
    await events.aclose()
    assert cancelled.is_set()


async def test_a_run_is_cancelled_while_it_reports() -> None:
    @tool(effects="read")
    async def look(query: str, context: RunContext) -> str:
        """Looks."""
        while True:
            context.report("still at it")
            await asyncio.sleep(0.01)

    run = agent(look).start("Look")
    async for event in run.events():
        if isinstance(event, Reported):
            run.cancel()
    assert run.result.stop_reason == "CANCELLED"


def test_what_is_left_of_the_budget() -> None:
    left: list[Any] = []

    @tool(effects="read")
    def look(query: str, context: RunContext) -> str:
        """Looks."""
        left.append(context.budget_left)
        return f"found {query}"

    more = {"call": {"tool": "look", "input": {"query": "y"}}}
    budget = Budget(steps=5, seconds=60, tokens=100_000)
    agent(look, budget=budget, script=[LOOK, more, DONE]).run("Look")
    assert [one.steps for one in left] == [4, 3]
    assert all(0 < one.seconds <= 60 and one.cost is None for one in left)
    assert 100_000 > left[0].tokens > left[1].tokens
    assert current_run().budget_left == (None, None, None, None)


async def test_a_members_report_is_in_its_own_log_and_heard_with_its_path() -> None:
    member = agent(look_twice)
    member.name = "helper"
    boss = Agent(PromptModel(script=[{"call": {"tool": "helper", "input": {"query": "q"}}}, DONE]), [member])
    run, heard = boss.start("Go"), []
    run.listener = lambda path, event: heard.append((path, event))
    result = await run.finish()
    (log,) = result.children.values()
    assert [one.text for one in reports(log)] == ["page 1", "page 2"]
    assert not reports(result.events)
    assert [path for path, event in heard if isinstance(event, Reported)] == ["call_1_0", "call_1_0"]
    assert isinstance(log[0], Started)
    assert any(isinstance(event, Called) for event in log)


@pytest.mark.parametrize("calls", [1, 3])
async def test_no_call_begins_once_its_run_was_cancelled(calls: int) -> None:
    began: list[str] = []

    async def look(query: str) -> str:
        began.append(query)
        return "found"

    several = [{"tool": "look", "input": {"query": str(number)}} for number in range(calls)]
    run = agent(look, script=[{"call": several}, DONE]).start("Look")
    async for event in run.events():
        if isinstance(event, Called) and event.action.id.endswith(f"_{calls - 1}"):
            run.cancel()  # before the reader asks for more, so before any of them
    assert (run.result.stop_reason, began) == (StopReason.CANCELLED, [])
