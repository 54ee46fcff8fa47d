"""Agents behind an OpenAI-compatible API as members: another Retinue, and a model of anybody's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from fakes.app_server import KEY, Serving
from fakes.openai_server import OpenAIServer
from fakes.tenants import Customer
from retinue import Agent, Decision, PromptModel, RemoteAgent, StopReason, UsageError, tool
from retinue.core.events import Delta, Observed
from retinue.core.run_result import RunResult
from retinue.server.http.connections import listen

pytestmark = pytest.mark.anyio
BOOKED: list[str] = []


@tool(approval=True)
def book(place: str) -> str:
    """Books a table."""
    BOOKED.append(place)
    return f"done at {place}"


def agent(script: list[Mapping[str, Any]], *tools: Any, name: str = "leader") -> Agent:
    return Agent(PromptModel(script=script, retries=0), tools, name=name, strategy="tool_calling")


def leader(member: Agent, asked: str = "Please book", *, name: str = "leader") -> Agent:
    call = {"tool": member.name, "input": {"query": asked}}
    return agent([{"when": "Please", "call": call}, {"when": "", "finish": "all done"}], member, name=name)


def waiter() -> Agent:
    call = {"tool": "book", "input": {"place": "Nopi"}}
    refused = {"when": "refused", "finish": "Then not."}
    booked = {"when": "", "finish": "It is booked."}
    return agent([{"when": "Please book", "call": call}, refused, booked], book, name="waiter")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A Retinue whose agents are a waiter, and two that call themselves and each other over the network."""
    agents = {"waiter": waiter()}
    with listen("127.0.0.1", 0) as reserved:
        port = reserved.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    for name, other in (("self", "self"), ("ping", "pong"), ("pong", "ping"), ("maître", "waiter")):
        agents[name] = leader(RemoteAgent(url, other, KEY, name=f"to_{other}"), "Please say hello", name=name)
    with Serving(tmp_path_factory.mktemp("remote"), agents, port=port) as server:
        yield server


def heard(done: RunResult) -> tuple[str, str]:
    (seen,) = [event.observation for event in done.events if isinstance(event, Observed)]
    return seen.outcome, seen.text


@pytest.mark.parametrize("stream", [True, False])
async def test_another_retinue_as_a_member(served: Serving, stream: bool) -> None:
    member = RemoteAgent(served.url, "waiter", KEY, name="waiter", stream=stream)
    done = await leader(member, "Hello").run_async("Please ask")
    assert heard(done) == ("result", "It is booked.")
    assert done.usage.runs == 1
    assert done.usage.total_tokens > 0


async def test_its_answer_is_streamed(served: Serving) -> None:
    run = RemoteAgent(served.url, "waiter", KEY).start("Hello")
    said = [event.answer async for event in run.events() if isinstance(event, Delta)]
    assert "".join(said) == run.result.answer == "It is booked."


@pytest.mark.parametrize(
    ("decision", "booked", "answer"),
    [
        (Decision("approve"), ["Nopi"], "It is booked."),
        (Decision("reject", message="too dear"), [], "Then not."),
        (Decision("edit", {"tool": "book", "arguments": {"place": "Kiln"}}), ["Kiln"], "It is booked."),
    ],
)
async def test_what_it_asks_a_person(served: Serving, decision: Decision, booked: list[str], answer: str) -> None:
    BOOKED.clear()
    member = RemoteAgent(served.url, "waiter", KEY, name="waiter")
    waiting = await member.run_async("Please book")
    assert waiting.stop_reason is StopReason.AWAITING_HUMAN
    (call,) = waiting.waiting
    assert call.tool_input == {"tool": "book", "arguments": {"place": "Nopi"}}
    done = await member.resume_async(waiting.events, decisions={call.id: decision})
    assert (done.answer, BOOKED) == (answer, booked)


async def test_a_failure_is_an_observation(served: Serving) -> None:
    done = await leader(RemoteAgent(served.url, "nobody", KEY, name="waiter")).run_async("Please ask")
    outcome, text = heard(done)
    assert outcome == "unknown"
    assert "nobody" in text
    wrong = await leader(RemoteAgent(served.url, "waiter", "sk-wrong-0123456789", name="waiter")).run_async(
        "Please ask"
    )
    assert heard(wrong)[0] == "unknown"
    assert "sk-wrong-0123456789" not in heard(wrong)[1]


@pytest.mark.parametrize(("name", "circle"), [("self", "(self → self)"), ("ping", "(ping → pong → ping)")])
async def test_agents_that_call_in_a_circle_are_refused(served: Serving, name: str, circle: str) -> None:
    done = await RemoteAgent(served.url, name, KEY).run_async("Please go")
    assert done.answer == "all done"  # the refusal is an observation of the last of them
    seen = [
        await asyncio.to_thread(served.ask, "GET", f"/v1/runs/{one['id']}/events?limit=100")
        for one in await runs(served)
    ]
    assert any(circle in one.text for one in seen)


async def runs(served: Serving) -> list[Any]:
    """The served runs, newest first."""
    listed = await asyncio.to_thread(served.ask, "GET", "/v1/runs?limit=5")
    return list(listed.body["data"])


async def test_the_path_of_callers_goes_along(served: Serving) -> None:
    await RemoteAgent(served.url, "maître", KEY).run_async("Please go")
    called, member, caller, *_ = await runs(served)
    assert [one["model"] for one in (called, member, caller)] == ["waiter", "maître/to_waiter", "maître"]
    assert caller["callers"] == []
    (path,) = called["callers"]
    assert path.split("/")[1:] == ["ma%C3%AEtre", caller["id"], ""]


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ("nonsense", "invalid_value"),
        ("a/b/c/d/e", "invalid_value"),
        (", ".join(["s/a/r/t"] * 6), "call_circle"),
        ("x" * 5_000, "invalid_value"),
    ],
)
def test_a_path_that_is_none_or_too_long(served: Serving, header: str, code: str) -> None:
    asked = {"model": "waiter", "messages": [{"role": "user", "content": "Hello"}]}
    said = served.ask("POST", "/v1/chat/completions", asked, headers={"X-Retinue-Callers": header})
    assert (said.status, said.error["code"]) == (400, code)


async def test_anybody_s_model_as_a_member(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-others-0123456789")
    with OpenAIServer() as server:
        server.replies += ["4"]
        done = await RemoteAgent(server.url, "m").run_async("What is 2 + 2?")
        (asked,) = server.requests
    assert done.answer == "4"
    assert asked.body["temperature"] is None
    assert "sk-not-for-others" not in str(asked)


def test_an_address_is_needed() -> None:
    with pytest.raises(UsageError, match="address of its server"):
        RemoteAgent("localhost")


async def test_it_is_asked_in_the_name_of_the_user(served: Serving) -> None:
    """A backend's key, and a header from the run's context; who has no user is not asked for as somebody else."""
    key = Customer(served, "acme", scopes=["all", "act-as"]).key
    member = RemoteAgent(served.url, "waiter", key, name="waiter", headers={"X-Retinue-User": "${user.id}"})
    done = await leader(member, "Hello").run_async("Please ask", user="alice")
    assert heard(done) == ("result", "It is booked.")
    for user, number in (("alice", 1), ("bob", 0)):
        look = partial(served.ask, "GET", "/v1/runs", key=key, headers={"X-Retinue-User": user})
        assert len((await asyncio.to_thread(look)).body["data"]) == number
    nobody = await leader(member, "Hello").run_async("Please ask")
    assert "it needs ${user.id}, which this run does not have" in heard(nobody)[1]


def test_headers_that_cannot_be_sent_are_refused() -> None:
    for headers, says in (
        ({"X-A": "${user.nme}"}, "is unknown"),
        ({"X-A": "a\r\nb"}, "on one line"),
        ({"X:": "a"}, "X:"),
    ):
        with pytest.raises(UsageError, match=says):
            RemoteAgent("http://127.0.0.1:9", "m", headers=headers)
