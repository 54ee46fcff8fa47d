"""Agents that are tools of other agents: their runs, their budgets, their people, their failures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from retinue import Agent, Budget, Decision, PromptModel, StopReason, Tool
from retinue.core.events import Delta, Event, Started, Stopped
from retinue.core.run_result import RunResult
from retinue.core.serialization import from_json, to_json

pytestmark = pytest.mark.anyio
Script = Sequence[Mapping[str, Any]]
ASKED = {"query": "q"}
ENOUGH = {"when": "", "say": "enough"}  # where no tool may be called


def agent(name: str, script: Script, tools: Sequence[Any] = (), **more: Any) -> Agent:
    return Agent(PromptModel(script=script, retries=0), tools, name=name, strategy="tool_calling", **more)


def calls(tool: str, said: str, **given: Any) -> Script:
    """Calls a tool once, and then answers."""
    return [{"when": "done", "say": said}, {"when": "", "call": {"tool": tool, "input": given or ASKED}}]


def chain_of(depth: int, tool: Callable[..., Any], **more: Any) -> Agent:
    """Agents one below the other; the lowest calls `tool`."""
    lowest = agent(f"level_{depth}", calls(tool.__name__, f"done {depth}", word="w"), [tool])
    for level in range(depth - 1, 0, -1):
        options = more if level == 1 else {}
        lowest = agent(f"level_{level}", calls(lowest.name, f"done {level}"), [lowest], **options)
    return lowest


async def note(word: str) -> str:
    """Notes a word. Nothing of it goes on in a thread if its run is cut off."""
    NOTED.append(word)
    return "done"


NOTED: list[str] = []


@pytest.fixture(autouse=True)
def nothing_noted() -> Iterator[None]:
    NOTED.clear()
    yield
    NOTED.clear()


def test_every_member_has_a_log_of_its_own_and_its_usage_is_its_callers() -> None:
    done = chain_of(3, note).run("go")
    assert done.answer == "done 1"
    assert list(done.children) == ["call_1_0", "call_1_0/call_1_0"]
    names = [log[0].agent for log in done.children.values() if isinstance(log[0], Started)]
    assert names == ["level_2", "level_3"]
    assert (done.usage.runs, done.usage.requests) == (2, 6)
    assert NOTED == ["w"]


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (Budget(depth=1), "the team's budget of depth is spent"),
        (Budget(depth=0), "the team's budget of depth is spent"),
        (Budget(children=1), "the team's budget of children is spent"),
        (Budget(children=0), "the team's budget of children is spent"),
        (Budget(total_steps=2), "the team's budget of total steps is spent"),
    ],
)
def test_a_team_uses_no_more_than_its_top_was_given(budget: Budget, said: str) -> None:
    done = chain_of(3, note, budget=budget).run("go")
    logs = [done.events, *done.children.values()]
    seen = [event.observation.text for log in logs for event in log if hasattr(event, "observation")]
    assert any(said in text for text in seen), seen
    assert NOTED == []


def test_the_top_says_how_deep_a_team_is() -> None:
    """Defaults of those below do not cap what the top gives; limits that they state do."""
    given = Budget(depth=9, children=100, total_steps=300)
    assert chain_of(9, note, budget=given).run("go").answer == "done 1"
    assert NOTED == ["w"]
    below = Budget().within(Budget(depth=8, children=99, total_steps=299))
    assert (below.depth, below.children, below.total_steps) == (8, 99, 299)
    below = Budget().within(Budget(depth=None, children=None))
    assert (below.depth, below.children) == (None, None)
    below = Budget(depth=1, children=3, total_steps=20).within(Budget(depth=8, children=99, total_steps=299))
    assert (below.depth, below.children, below.total_steps) == (1, 3, 20)


def spender(name: str, below: Sequence[Agent], **more: Any) -> Agent:
    """Delegates, with ever other questions, as long as it may."""
    if not below:
        return agent(name, [{"when": "", "call": {"tool": "note", "input": {"word": "w"}}}, ENOUGH], [note], **more)
    asked = [{"tool": one.name, "input": {"query": f"{name} {number}"}} for one in below for number in range(2)]
    return agent(name, [{"when": "", "call": asked}, ENOUGH], below, **more)


def with_limits_of(limit: str, most: int) -> Budget:
    more: dict[str, Any] = {limit: most}
    return Budget(30, stale_steps=None, **more)


@pytest.mark.parametrize("limit", ["total_steps", "tokens", "children"])
@pytest.mark.parametrize("least", [3, 7, 20, 61])
def test_whoever_delegates_as_long_as_it_may_stays_within_the_budget(limit: str, least: int) -> None:
    most = least * 50 if limit == "tokens" else least
    workers = [spender(f"worker_{number}", [spender(f"low_{number}", [])]) for number in range(2)]
    top = spender("top", workers, budget=with_limits_of(limit, most))
    used = top.run("go").usage
    spent = {"total_steps": used.requests, "tokens": used.total_tokens, "children": used.runs}[limit]
    dearest = 2 if limit == "tokens" else 0  # a request's size is known when it is answered
    assert spent <= most + dearest * 400


def test_the_callers_seconds_end_its_members() -> None:
    async def wait(word: str) -> str:
        """Waits."""
        await asyncio.sleep(3_600)
        return "done"

    done = chain_of(3, wait, budget=Budget(seconds=0.2)).run("go")
    assert done.stop_reason is StopReason.MAX_EXECUTION_TIME_EXCEEDED
    for log in done.children.values():
        assert isinstance(log[-1], Stopped)


async def test_a_cancel_ends_every_level() -> None:
    waiting = asyncio.Event()

    async def wait(word: str) -> str:
        """Waits."""
        waiting.set()
        await asyncio.sleep(3_600)
        return "done"

    run = chain_of(3, wait).start("go")
    task = asyncio.ensure_future(run.finish())
    await waiting.wait()
    run.cancel()
    done = await task
    assert done.stop_reason is StopReason.CANCELLED
    assert [type(log[-1]) for log in done.children.values()] == [Stopped, Stopped]


async def test_members_of_one_step_run_side_by_side() -> None:
    both = asyncio.Barrier(2)

    async def meet(word: str) -> str:
        """Waits for the other."""
        await both.wait()
        return "done"

    workers = [agent(f"worker_{number}", calls("meet", f"done {number}", word="w"), [meet]) for number in range(2)]
    asked = [{"tool": one.name, "input": ASKED} for one in workers]
    top = agent("top", [{"when": "done 1", "say": "both"}, {"when": "", "call": asked}], workers)
    done = await asyncio.wait_for(top.run_async("go"), 10)
    assert done.answer == "both"
    assert sorted(done.children) == ["call_1_0", "call_1_1"]


def test_a_member_that_fails_is_an_observation() -> None:
    def bad(word: str) -> str:
        """Fails."""
        raise SystemExit(1)

    lost = agent("lost", [{"when": "", "error": 500}])
    stuck = agent("stuck", [{"when": "", "call": {"tool": "bad", "input": {"word": "w"}}}], [bad], max_steps=1)
    for member in (lost, stuck):
        asked = {"tool": member.name, "input": ASKED}
        done = agent("top", [{"when": "fail|did not", "say": "no"}, {"when": "", "call": asked}], [member]).run("go")
        assert done.answer == "no", done
        (seen,) = [event.observation for event in done.events if hasattr(event, "observation")]
        assert seen.outcome == "failed"


def logs_of(done: RunResult) -> tuple[list[Event], dict[str, list[Event]]]:
    """Its logs, as they are read from where they were stored."""
    children = {path: [from_json(to_json(one)) for one in log] for path, log in done.children.items()}
    return [from_json(to_json(one)) for one in done.events], children


def test_a_members_question_to_a_person_reaches_who_asked_the_top_and_the_answer_comes_back() -> None:
    top = chain_of(3, note)
    top.tools[0].something.tools[0].something.require_human_feedback = True
    lowest = top.tools[0].something.tools[0].something
    lowest.tools = []
    lowest.add_tool(note)
    done = top.run("go")
    assert (done.stop_reason, NOTED) == (StopReason.AWAITING_HUMAN, [])
    (call,) = done.waiting
    assert (call.id, call.tool) == ("call_1_0/call_1_0/call_1_0", "note")
    log, children = logs_of(done)
    done = top.resume(log, {call.id: Decision("approve")}, children=children)
    assert (done.answer, NOTED, done.waiting) == ("done 1", ["w"], ())
    top.human = lambda action, problem: Decision("respond", message="done")
    assert top.run("go").answer == "done 1"
    assert NOTED == ["w"]


@pytest.mark.parametrize("kept", [True, False])
async def test_a_run_that_was_cut_off_goes_on_where_its_members_were(kept: bool) -> None:
    """At each event of each level. Without a member's log nobody knows what it did: a person is asked."""
    top = chain_of(3, note)
    whole = len([event async for event in everything(top)])
    for cut in range(1, whole):
        NOTED.clear()
        log, children = logs_of(await cut_off(top, cut))
        logs = children if kept else None
        going = await top.resume_async(log, key="run", children=logs)
        if not going.waiting:
            assert (going.answer, NOTED) == ("done 1", ["w"])
            continue
        (call,) = going.waiting  # its outcome is not known: a person says whether it happened
        assert call.tool == ("note" if kept else "level_2")
        said = Decision("respond", message="done") if NOTED or not kept else Decision("approve")
        log, children = logs_of(going)
        going = await top.resume_async(log, {call.id: said}, key="run", children=children)
        assert going.answer == "done 1"
        assert len(NOTED) == 1 or not kept


async def cut_off(top: Agent, cut: int) -> RunResult:
    """What is left of a run that is cancelled from outside after `cut` events of its members."""
    run, seen, reached = top.start("go", key="run"), 0, asyncio.Event()

    def heard(path: str, event: Event | Delta) -> None:
        nonlocal seen
        seen += bool(path) and not isinstance(event, Delta)
        if seen >= cut:
            reached.set()

    run.listener = heard
    tasks = [asyncio.ensure_future(run.finish()), asyncio.ensure_future(reached.wait())]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return run.result


async def everything(top: Agent) -> Any:
    seen: list[Any] = []
    run = top.start("go")
    run.listener = lambda path, event: seen.append(event) if path and not isinstance(event, Delta) else None
    await run.finish()
    for one in seen:
        yield one


def test_a_member_without_a_description_is_described_by_its_name_and_tools() -> None:
    def look(place: str) -> str:
        """Look at a place."""
        return place

    def told(member: Agent, **options: Any) -> str:
        return Agent(PromptModel(script=["Hi"]), [Tool(member.name, member, **options)]).tools[0].description

    model = PromptModel(script=["Hi"])
    assert told(Agent(model, [look], name="scout")) == "Asks the agent scout, whose tools are: look."
    assert told(Agent(model, name="talker")) == "Asks the agent talker."
    assert told(Agent(model, name="talker"), description="Talks.") == "Talks."
