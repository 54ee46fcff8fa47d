"""Runs of agents in Python that a store keeps: they behave as without one, and can be listed, followed, resumed, forked
and cancelled, also by another process (here another loop, which is to the store the same)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from fakes.kept_runs import Gate, calling
from fakes.until import until_async
from retinue import (
    Agent,
    Chain,
    ConversationMemory,
    Decision,
    Message,
    PromptModel,
    StopReason,
    Tool,
    ToolReturn,
    UsageError,
    dynamic_tools,
)
from retinue.core.events import Delta, Finished, Reported, Started
from retinue.core.run_context import RunContext, current_run
from retinue.errors import ModelError, ModelRefused, StoreUnavailable

pytestmark = pytest.mark.anyio


async def add(number: str) -> str:
    """Add."""
    return f"add {number}"


def clerk(store: str, **more: Any) -> Agent:
    """An agent that adds twice, and answers."""
    one = Tool("add", add, effects="once", **more)
    agent = calling([one], {"tool": "add", "input": {"number": "1"}}, {"tool": "add", "input": {"number": "2"}})
    agent.name, agent.store = "clerk", store
    return agent


@asynccontextmanager
async def closing(*agents: Agent[Any, Any]) -> AsyncIterator[None]:
    """Agents whose stores are closed at the end of the block."""
    try:
        yield
    finally:
        for one in agents:
            await one.aclose()


async def test_a_kept_run_is_what_it_is_without_a_store(any_url: str) -> None:
    kept, plain = clerk(any_url), clerk("")
    plain.store = None
    async with closing(kept):
        one, other = await kept.run_async("Begin"), await plain.run_async("Begin")
        assert (one.answer, one.stop_reason) == (other.answer, other.stop_reason)
        assert [type(event) for event in one.events] == [type(event) for event in other.events]
        assert [step.actions for step in one.steps] == [step.actions for step in other.steps]
        again = await kept.runs.result_async(one.run)
        assert (again.answer, again.events, again.run) == (one.answer, one.events, one.run)
        streamed = [one async for one in kept.stream_async("Begin") if not isinstance(one, Delta)]
        assert [type(one) for one in streamed] == [type(one) for one in one.events]
        ended = kept.start("Begin")
        assert (await ended.finish()).run == ended.key
        assert (await kept.runs.list_async())[0].id == ended.key
        batch = await kept.run_batch_async(["Begin", "Begin now"])
        assert [one.question for one in batch] == ["Begin", "Begin now"]


def test_blocking_calls(any_url: str) -> None:
    with clerk(any_url) as agent:
        result = agent.run("Begin", user="ann", thread="t", metadata={"order": "7"})
        assert result.answer == "Done."
        events = list(agent.runs.follow(result.run))
        assert isinstance(events[0], Started)
        assert isinstance(events[-1], Finished)
        assert isinstance(list(agent.stream("Begin"))[-1], Finished)
        info = agent.runs.get(result.run)
        assert (info.user, info.thread, info.metadata, info.status) == ("ann", "t", {"order": "7"}, "completed")
        assert agent.recover() == []


async def test_what_was_asked_wrongly_is_said(any_url: str) -> None:
    agent, other = clerk(any_url), Agent(PromptModel(engine="scripted", script=[{"finish": "Hi."}]), name="other")
    other.store = any_url
    with pytest.raises(UsageError, match="the question is empty"):
        await agent.run_async(" ")
    with pytest.raises(UsageError, match="without a store there is nothing"):
        Agent(recover=True)
    with pytest.raises(UsageError, match="keeps no runs; say store="):
        _ = Agent(_Refusing()).runs
    async with closing(agent):
        for wrong in (
            agent.runs.get_async("run_x"),
            agent.runs.cancel_async("run_x"),
            agent.runs.resume_async("run_x"),
        ):
            with pytest.raises(UsageError, match="no run 'run_x'"):
                await wrong
        theirs = await other.run_async("Hello")
        with pytest.raises(UsageError, match="is one of 'other', not of 'clerk'"):
            await agent.runs.result_async(theirs.run)
        with pytest.raises(UsageError, match="waits for no decision"):
            await other.runs.resume_async(theirs.run, {"x": Decision("approve")})
        with pytest.raises(UsageError, match="status: "):
            await agent.runs.list_async(status="done")
        with pytest.raises(UsageError, match="name the one that goes on with key"):
            await agent.resume_async(theirs.events)
        mine = await agent.run_async("Begin", key="order 7")
        with pytest.raises(UsageError, match="a key is for one question"):
            await agent.run_async("Another", key="order 7")
        assert (await agent.run_async("Begin", key="order 7")).events == mine.events


async def test_models_that_say_nothing_are_raised_as_ever(any_url: str) -> None:
    agent = Agent(_Refusing(), name="refused", store=any_url)
    async with closing(agent):
        with pytest.raises(ModelError, match="no such key"):
            await agent.run_async("Hello")
        (info,) = await agent.runs.list_async()
        assert info.status == "failed"


class _Refusing:
    """A model that refuses."""

    name = "refusing"

    async def abilities(self, *, native: bool = False) -> Any:
        raise ModelRefused("no such key")

    def reply(self, ask: Any) -> Any:
        raise ModelRefused("no such key")


async def test_a_person_decides_in_another_process(any_url: str) -> None:
    """What waits is told by the store, and whoever decides lets it go on."""
    first, second = clerk(any_url, approval=True), clerk(any_url, approval=True)
    async with closing(first):
        parked = await first.run_async("Begin", user="ann")
        assert parked.stop_reason is StopReason.AWAITING_HUMAN
        assert len(parked.waiting) == 1

    async with closing(second):
        (info,) = await second.runs.list_async(status="requires_action", user="ann")
        assert (info.id, info.waiting) == (parked.run, (parked.waiting[0].id,))
        with pytest.raises(UsageError, match="not for 'x'"):
            await second.runs.resume_async(parked.run, {"x": Decision("approve")})
        with pytest.raises(UsageError, match="edited arguments of add are not valid"):
            await second.runs.resume_async(parked.run, {info.waiting[0]: Decision("edit", {"nonsense": 1})})
        again = await second.runs.resume_async(parked.run, {info.waiting[0]: Decision("approve")})
        assert again.waiting
        done = await second.resume_async(
            [], {again.waiting[0].id: Decision("respond", message="add 2")}, key=parked.run
        )
        assert (done.answer, done.run) == ("Done.", parked.run)


async def test_runs_are_listed_by_what_they_are(any_url: str) -> None:
    agent = clerk(any_url)
    async with closing(agent):
        for user, metadata in (("ann", {"kind": "a"}), ("bob", {"kind": "b"}), ("bob", {})):
            await agent.run_async("Begin", user=user, metadata=metadata)
        runs = agent.runs
        assert [one.user for one in await runs.list_async()] == ["bob", "bob", "ann"]
        assert len(await runs.list_async(user="bob")) == 2
        assert [one.user for one in await runs.list_async(metadata={"kind": "a"})] == ["ann"]
        assert await runs.list_async(thread="nobody's") == []
        assert len(await runs.list_async(limit=1)) == 1
        assert await runs.list_async(status=["failed", "cancelled"]) == []


async def test_a_run_is_followed_and_cancelled_where_it_is_not_driven(any_url: str) -> None:
    gate = Gate()

    async def wait(number: str) -> str:
        """Wait."""
        await gate.wait()
        return f"add {number}"

    driving, looking = clerk(any_url), clerk(any_url)
    driving.tools = (Tool("add", wait, effects="read"),)
    run = driving.start("Begin")
    working = asyncio.create_task(run.finish())
    await gate.reached.wait()

    def look() -> tuple[list[str], str]:
        with looking:
            seen = []
            for event in looking.runs.follow(run.key):
                seen.append(type(event).__name__)
                if seen[-1] == "Called":
                    looking.runs.cancel(run.key)
            return seen, looking.runs.get(run.key).status

    seen, status = await asyncio.to_thread(look)
    assert seen[-1] == "Stopped"
    assert status == "cancelled"
    result = await working
    assert (result.stop_reason, result.run) == (StopReason.CANCELLED, run.key)
    await driving.aclose()


async def test_cancel_ends_a_run(any_url: str) -> None:
    gate = Gate()

    async def wait(number: str) -> str:
        """Wait."""
        await gate.wait()
        return f"add {number}"

    agent = clerk(any_url)
    agent.tools = (Tool("add", wait, effects="once"),)
    async with closing(agent):
        run = agent.start("Begin")
        working = asyncio.create_task(run.finish())
        await gate.reached.wait()
        run.cancel()
        assert (await working).stop_reason is StopReason.CANCELLED
        early = agent.start("Begin")
        early.cancel()
        assert (await early.finish()).stop_reason is StopReason.CANCELLED


async def test_a_caller_that_goes_away_leaves_the_run_as_it_is(any_url: str) -> None:
    """Nothing more begins here, nothing is lost, and `recover` goes on with it."""
    gate, calls = Gate(), list[str]()

    async def wait(number: str) -> str:
        """Wait."""
        calls.append(number)
        await gate.wait()
        return f"add {number}"

    agent = clerk(any_url)
    agent.tools = (Tool("add", wait, effects="read"),)
    async with closing(agent):
        working = asyncio.create_task(agent.run_async("Begin", key="left"))
        await gate.reached.wait()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        (info,) = await agent.runs.list_async()
        assert (info.status, calls) == ("in_progress", ["1"])
        gate.opened.set()
        (result,) = await agent.recover_async()
        assert (result.answer, result.run, calls) == ("Done.", info.id, ["1", "1", "2"])


async def test_a_store_that_is_closed_leaves_its_runs(any_url: str) -> None:
    gate = Gate()

    async def wait(number: str) -> str:
        """Wait."""
        await gate.wait()
        return f"add {number}"

    agent = clerk(any_url)
    agent.tools = (Tool("add", wait, effects="once"),)
    working = asyncio.create_task(agent.run_async("Begin"))
    await gate.reached.wait()
    await agent.aclose()
    with pytest.raises(StoreUnavailable, match="the store was closed"):
        await working
    async with closing(agent):
        (result,) = await agent.recover_async()
        assert [one.tool for one in result.waiting] == ["add"]  # whether it happened is not known
        gate.opened.set()
        decided = {result.waiting[0].id: Decision("respond", message="add 1")}
        assert (await agent.runs.resume_async(result.run, decided)).answer == "Done."


async def test_a_fork_goes_on_from_a_step(any_url: str) -> None:
    agent = clerk(any_url)
    async with closing(agent):
        first = await agent.run_async("Begin")
        fork = await agent.runs.fork_async(first.run, 1)
        assert (fork.answer, fork.run != first.run) == ("Done.", True)
        call = fork.steps[0].actions[0].id
        other = await agent.runs.fork_async(first.run, observations={call: "nothing"})
        assert other.answer == "I was told otherwise."


async def test_a_thread_is_a_conversation(any_url: str) -> None:
    agent = Agent(PromptModel(engine="scripted", script=[{"when": "", "finish": "Hm."}]), name="parrot", store=any_url)
    async with closing(agent):
        thread = agent.thread("ann's")
        await thread.run_async("One")
        result = await thread.run_async("Two")
        started = result.events[0]
        assert isinstance(started, Started)
        assert [one.content for one in started.history] == ["One", "Hm."]
        own = await thread.run_async("Three", history=[Message("user", "Zero")])
        assert isinstance(own.events[0], Started)
        assert [one.content for one in own.events[0].history] == ["Zero"]
        assert [one.question for one in await agent.runs.list_async(thread="ann's")] == ["Three", "Two", "One"]
        assert all(one.thread == "ann's" for one in await agent.runs.list_async())


async def test_runs_on_one_thread_wait_for_each_other(any_url: str) -> None:
    gate, order = Gate(), list[str]()

    async def wait(number: str) -> str:
        """Wait."""
        order.append(current_run().run)
        await gate.wait()
        return f"add {number}"

    agent = clerk(any_url)
    agent.tools = (Tool("add", wait, effects="read"),)
    async with closing(agent):
        thread = agent.thread("busy")
        first = asyncio.create_task(thread.run_async("Begin", key="1"))
        await gate.reached.wait()
        second = asyncio.create_task(thread.run_async("Begin again", key="2"))
        await until_async(lambda: agent.runs.list_async(status="queued"))
        gate.opened.set()
        one, two = await first, await second
        assert order == [one.run, one.run, two.run, two.run]
        assert isinstance(two.events[0], Started)
        assert [message.content for message in two.events[0].history] == ["Begin", "Done."]


async def test_what_a_run_was_given_reaches_its_code(any_url: str) -> None:
    seen = list[RunContext[Any]]()

    @dataclass
    class Desk:
        name: str

    async def look(number: str) -> str:
        """Look."""
        seen.append(current_run())
        return f"add {number}"

    agent = clerk(any_url)
    agent.tools = (Tool("add", look, effects="read"),)
    async with closing(agent):
        result = await agent.run_async("Begin", deps=Desk("a"), user="ann", thread="t", metadata={"k": "v"})
    context = seen[0]
    assert context.deps == Desk("a")
    assert (context.user, context.thread, context.metadata) == ("ann", "t", {"k": "v"})
    assert (context.run, context.agent) == (result.run, "clerk")


async def test_a_history_with_calls_and_files_is_kept_whole(any_url: str) -> None:
    first = clerk("")
    first.store = None
    result = await first.run_async("Begin")
    turns = [Message("user", "Hi"), Message("assistant", "", calls=result.steps[0].actions), Message("tool", "add 1")]
    turns[2] = Message("tool", "add 1", tool="add", call_id=result.steps[0].actions[0].id)
    agent = clerk(any_url)
    async with closing(agent):
        kept = await agent.run_async("Begin", history=turns)
        assert isinstance(kept.events[0], Started)
        assert list(kept.events[0].history) == turns


async def test_teams_are_runs_of_their_own(any_url: str) -> None:
    asked = list[str]()

    def human(action: Any, reason: str) -> Decision | None:
        asked.append(action.tool)
        return Decision("approve")

    worker = clerk("", approval=True)
    worker.store = None
    lead = calling([Tool("clerk", worker, "Works.")], {"tool": "clerk", "input": {"query": "Begin"}})
    script = [{"when": "Done", "finish": "All done."}, {"call": {"tool": "clerk", "input": {"query": "Begin"}}}]
    lead.model = PromptModel(engine="scripted", script=script)
    lead.name, lead.store, lead.human = "lead", any_url, human
    async with closing(lead):
        result = await lead.run_async("Please see to it")
        assert (result.answer, asked) == ("All done.", ["add", "add"])
        (path,) = result.children
        assert isinstance(result.children[path][-1], Finished)
        assert (await lead.runs.result_async(result.run)).children == result.children
        lead.human = None
        waiting = await lead.run_async("Please see to it")
        (call,) = waiting.waiting
        assert call.id.startswith(f"{path}/")
        again = await lead.runs.resume_async(waiting.run, {call.id: Decision("approve")})
        done = await lead.runs.resume_async(waiting.run, {again.waiting[0].id: Decision("approve")})
        assert done.answer == "All done."


async def test_chains_and_memories_are_kept_too(any_url: str) -> None:
    chain = Chain([str.strip, str.upper], name="shout")
    chain.store = any_url
    memory = ConversationMemory()
    agent = clerk(any_url)
    agent.memories = (memory,)
    async with closing(chain):
        assert (await chain.run_async(" hello ")).answer == "HELLO"
        await agent.run_async("Begin")
        result = await agent.run_async("Begin once more")
        assert isinstance(result.events[0], Started)
        assert [one.content for one in result.events[0].history] == ["Begin", "Done."]


def test_two_loops_in_one_process_do_nothing_twice(any_url: str) -> None:
    """Each is to the store what another process is."""
    calls = list[str]()

    async def note(number: str) -> str:
        """Note."""
        calls.append(f"{current_run().run} {number}")
        return f"add {number}"

    agent = clerk(any_url)
    agent.recovers = True
    agent.tools = (Tool("add", note, effects="once"),)

    def work(key: str) -> str:
        async def both() -> str:
            return (await agent.run_async("Begin", key=key)).answer

        return asyncio.run(both())

    keys = [str(at // 2) for at in range(12)]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(work, keys)) == ["Done."] * 12
    assert len(calls) == len(set(calls)) == 12
    assert agent.run("Begin", key="0").answer == "Done."
    agent.close()


def test_a_loop_that_ends_leaves_its_runs_at_once(any_url: str) -> None:
    gate = Gate()

    async def wait(number: str) -> str:
        """Wait."""
        await gate.wait()
        return f"add {number}"

    agent, other = clerk(any_url), clerk(any_url)
    agent.tools = (Tool("add", wait, effects="read"),)

    async def main() -> None:
        asyncio.get_running_loop().create_task(agent.run_async("Begin"))
        await gate.reached.wait()

    asyncio.run(main())
    other.tools = (Tool("add", add, effects="read"),)
    with other:
        (result,) = other.recover()
        assert result.answer == "Done."


def test_a_loop_that_was_closed_without_a_word(any_url: str) -> None:
    """Its database is closed when the store is next used, and its lease runs out."""
    agent = clerk(any_url)
    loop = asyncio.new_event_loop()
    assert loop.run_until_complete(agent.run_async("Begin")).answer == "Done."
    loop.close()
    with agent:
        assert agent.run("Begin").answer == "Done."


async def test_params_of_pipelines_are_kept(any_url: str) -> None:
    agent = clerk(any_url)
    async with closing(agent):
        with pytest.raises(UsageError, match="no pipeline"):
            await agent.run_async("Begin", params={"Nothing": {"top_k": 1}})


@dataclass
class Sum:
    """What a typed agent answers."""

    total: int


async def test_typed_answers_parts_reports_and_functions_are_kept_too(any_url: str) -> None:
    async def add_slowly(number: str, context: RunContext[Sum]) -> ToolReturn:
        """Add."""
        context.report("half", done=1, total=2)
        return ToolReturn(f"add {number}", data={"total": context.deps.total})

    slow = Tool("add", add_slowly, effects="read")
    script = [{"when": "add 1", "finish": '{"total": 3}'}, {"call": {"tool": "add", "input": {"number": "1"}}}]

    def typed() -> Agent[Sum, Sum]:
        return Agent[Sum, Sum](
            PromptModel(script=script),
            [dynamic_tools(lambda context: [slow])],
            answer=Sum,
            instructions=lambda context: f"For {context.user}.",
            name="typed",
            store=any_url,
        )

    one, other = typed(), typed()
    async with closing(one, other):
        result = await one.run_async("Begin", deps=Sum(7), user="ada")
        assert result.answer == Sum(3)
        assert result.steps[0].observations[0].data == {"total": 7}
        kept = await other.runs.result_async(result.run)
        assert kept.answer == Sum(3)
        assert [event.text for event in kept.events if isinstance(event, Reported)] == ["half"]
        assert isinstance(kept.events[0], Started)
        assert (kept.events[0].tools, kept.events[0].instructions) == (("add",), "For ada.")
        parts = [part async for part in one.start("Begin", deps=Sum(7)).partial_answers()]
        assert parts[-1] == Sum(3)
