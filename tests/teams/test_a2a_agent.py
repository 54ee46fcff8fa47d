"""Agents of another server, by A2A: the SDK's own server, in a process of its own, as a member."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fakes.until import until_async
from retinue import A2AAgent, Agent, Decision, Message, PromptModel, StopReason
from retinue.core.events import Called, Observed
from retinue.core.run_result import RunResult

pytestmark = pytest.mark.anyio
TESTS = Path(__file__).parents[1]


@pytest.fixture(params=["rpc", "rest", "poll"])
def url(request: pytest.FixtureRequest, a2a_sample: str) -> str:
    return f"{a2a_sample}/{request.param}"


def leader(member: Agent, asked: str, **more: Any) -> Agent:
    """An agent that asks its member once, and says what it heard."""
    script = [
        {"when": "Please", "call": {"tool": "remote", "input": {"query": asked}}},
        {"when": "(?s)(.*)", "finish": "done"},
    ]
    return Agent(PromptModel(script=script, retries=0), [member], name="leader", strategy="tool_calling", **more)


def heard(done: RunResult) -> tuple[str, str]:
    """The outcome of the member's call, and what the leader saw."""
    (seen,) = [event.observation for event in done.events if isinstance(event, Observed)]
    return seen.outcome, seen.text


@pytest.mark.parametrize(
    ("asked", "outcome", "text"),
    [
        ("hello", "result", "Hello World"),
        ("say this", "result", "Echo: say this"),
        ("stream it", "result", "Alpha, beta, gamma."),
        ("fail", "unknown", "It broke."),
        ("reject", "unknown", "Not my trade."),
        ("auth", "unknown", "Sign in."),
        ("file", "result", "See:\n[a file, not fetched: x.png image/png http://127.0.0.1:9/x.png]"),
    ],
)
async def test_a_member_of_another_server(url: str, asked: str, outcome: str, text: str) -> None:
    done = await leader(A2AAgent(url, name="remote"), asked).run_async("Please ask")
    assert heard(done)[0] == outcome
    assert text in heard(done)[1]
    assert done.stop_reason is StopReason.ANSWER


async def test_it_answers_by_itself(url: str) -> None:
    assert (await A2AAgent(url).run_async("say this")).answer == "Echo: say this"


async def test_the_conversation_before_goes_along(url: str) -> None:
    before = [Message("user", "I am Ada."), Message("assistant", "Hello.")]
    done = await A2AAgent(url).run_async("Who am I?", history=before)
    told = "The conversation so far:\n\nuser: I am Ada.\n\nassistant: Hello.\n\nNow:\n\nWho am I?"
    assert done.answer == f"Echo: {told}"


async def test_a_person_is_asked_what_the_task_wants_to_know(url: str) -> None:
    asked: list[str] = []

    def human(action: Any, problem: str) -> Decision:
        asked.append(problem)
        return Decision("respond", message="Lyon")

    done = await leader(A2AAgent(url, name="remote"), "ask", human=human).run_async("Please ask")
    assert asked == ["remote requires input: Which city?"]
    assert heard(done) == ("result", "You said Lyon.")


async def test_the_run_waits_for_a_person_and_goes_on_with_the_same_task(url: str) -> None:
    agent = A2AAgent(url, name="remote")
    waiting = await agent.run_async("ask")
    assert waiting.stop_reason is StopReason.AWAITING_HUMAN
    (call,) = [one.id for one in waiting.waiting]
    later = A2AAgent(url, name="remote")
    done = await later.resume_async(waiting.events, decisions={call: Decision("respond", message="Lyon")})
    assert done.answer == "You said Lyon."
    sent = [event.action.tool_input for event in done.events if isinstance(event, Called)]
    assert sent[0] == {"message": "ask"}
    assert sent[-1]["message"] == "Lyon"  # type: ignore[index]


async def cancelled(url: str) -> int:
    return int((await A2AAgent(url).run_async("count")).answer)


async def test_a_cancel_reaches_the_task(url: str) -> None:
    before = await cancelled(url)
    run, follows = leader(A2AAgent(url, name="remote"), "hang").start("Please ask"), asyncio.Event()

    def listen(path: str, event: object) -> None:
        if isinstance(event, Called) and event.action.tool == "follow":
            follows.set()

    run.listener = listen
    going = asyncio.ensure_future(run.finish())
    await follows.wait()
    run.cancel()
    assert (await going).stop_reason is StopReason.CANCELLED

    async def arrived() -> bool:
        return await cancelled(url) == before + 1

    await until_async(arrived)


async def test_time_that_is_up_ends_the_task(url: str) -> None:
    before = await cancelled(url)
    done = await A2AAgent(url, seconds=0.5).run_async("hang")
    assert done.stop_reason in (StopReason.MAX_EXECUTION_TIME_EXCEEDED, StopReason.ERROR)

    async def arrived() -> bool:
        return await cancelled(url) == before + 1

    await until_async(arrived)
