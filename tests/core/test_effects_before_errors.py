"""Servers that do what a `once` tool asks for and then fail: whatever they answer, it is done once, unless a person
says otherwise."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from fakes import mcp_misbehaving
from fakes.loopback import Served
from fakes.odd_mcp_server import OddServer
from retinue import A2AAgent, Agent, PromptModel, RemoteAgent, StopReason, Tool
from retinue.core.events import Observed
from retinue.core.run_result import RunResult
from retinue.core.tools.signature import Argument, build_signature
from retinue.mcp import MCPTools
from retinue.net.retry import Retries
from retinue.teams import a2a_agent, remote_agent
from retinue.tools.endpoint import make_endpoint

Way = Mapping[str, Any]
CODES = (
    -32700,
    -32600,
    -32601,
    -32602,
    -32603,
    *range(-32002, -31999),
    -32020,
    -32021,
    -32022,
    -32042,
    0,
    1,
    404,
    10**6,
)
STATUSES = (*range(300, 309), *range(400, 432), 451, 499, *range(500, 512), 599)
TEXT = {"content": [{"type": "text", "text": "done"}]}
RPC: Sequence[Way] = [
    {"result": TEXT},
    {"result": {"content": [{"type": "text", "text": "no"}], "isError": True}},
    {"result": {}},
    {"result": {"content": 7}},
    {"result": {"resultType": "input_required", "inputRequests": {}}},
    {"result": None},
    *({"error": {"code": code, "message": "Method not found"}} for code in CODES),
    {"error": {"code": "x", "message": "Session terminated"}},
    {"error": "no"},
    {"error": {"code": -32600, "message": "Session terminated"}},
    *({"asks": method} for method in ("elicitation/create", "sampling/createMessage", "roots/list", "x/y")),
]
LINES: Sequence[Way] = [{"line": '{"id": ID, "result": '}, {"line": '[{"id": ID, "error": {}}]'}, {"exits": True}]
BODIES: Sequence[Way] = [
    *({"status": status} for status in STATUSES),
    {"status": 307, "headers": {"Location": "/mcp"}},
    {"status": 308, "headers": {"Location": "/mcp"}},
    {
        "status": 404,
        "body": json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32001, "message": "Session"}}),
    },
    {"status": 200},
    {"status": 202},
    {"status": 204},
    {"body": "<html>", "type": "text/html"},
    {"body": "{", "type": "application/json"},
    {"body": "data: {\n\n", "type": "text/event-stream"},
    {"body": "", "type": "text/event-stream"},
    {"drops": True},
]


def acting(tool: str, way: Way) -> PromptModel:
    """A model that calls the tool, and again after any failure of it."""
    call = {"call": {"tool": tool, "input": {"way": json.dumps(way)}}}
    return PromptModel(script=[{"when": "done", "finish": "done"}, call | {"times": 3}])


def outcomes(result: RunResult) -> list[str]:
    return [event.observation.outcome for event in result.events if isinstance(event, Observed)]


def check(tool: Tool, ways: Sequence[Way], done: Callable[[Way], int], known: Sequence[Way]) -> None:
    """Whatever the way, the work is done once. An agent that calls again waits for a person, except where the answer is
    a result (`known`)."""
    assert tool.effects == "once"
    for way in ways:
        result = Agent(acting(tool.name, way), [tool]).run("Act.")
        assert done(way) == 1, way
        if way in known:
            assert result.answer == "done", way
        else:
            assert (result.stop_reason, outcomes(result)) == (StopReason.AWAITING_HUMAN, ["unknown"]), way


@contextmanager
def used(server: MCPTools) -> Iterator[Tool]:
    try:
        (tool,) = server.tools()
        yield tool
    finally:
        server.stop()


def test_an_mcp_server_on_standard_output(tmp_path: Path) -> None:
    def done(way: Way) -> int:
        return (tmp_path / "effects").read_text().splitlines().count(json.dumps(way))

    args = ["-S", str(mcp_misbehaving.__file__), "ways", str(tmp_path)]
    with used(MCPTools("odd", command=sys.executable, args=args)) as tool:
        check(tool, [*RPC, *LINES], done, RPC[:1])


def test_an_mcp_server_at_an_address() -> None:
    with OddServer() as server, used(MCPTools("odd", url=f"{server.url}/mcp")) as tool:
        check(tool, [*RPC, *BODIES], lambda way: server.effects.count(json.dumps(way)), RPC[:1])


def test_an_endpoint() -> None:
    effects: list[str] = []

    async def act(request: web.Request) -> web.StreamResponse:
        way = (await request.json())["way"]
        effects.append(way)
        told = json.loads(way)
        if "drops" in told:
            assert request.transport is not None
            request.transport.abort()
        return web.Response(
            status=told.get("status", 200),
            headers=told.get("headers"),
            text=told.get("body", "no" if told.get("status") != 200 else "done"),
        )

    app = web.Application()
    app.router.add_post("/mcp", act)
    ways = [way for way in BODIES if "drops" in way or way.get("status", 0) >= 300]
    takes = build_signature("act", {"way": Argument(str)})
    with Served(app) as server:
        tool = Tool("act", make_endpoint(f"{server.url}/mcp"), takes=takes)
        check(tool, [{"status": 200}, *ways], lambda way: effects.count(json.dumps(way)), [{"status": 200}])


def test_a_session_that_the_server_does_not_know_is_begun_again() -> None:
    spec = "", "<html>"
    typescript = {"code": -32001, "message": "Session not found"}, {"code": -32600, "message": "Session not found"}
    for text in (*spec, *(json.dumps({"jsonrpc": "2.0", "id": None, "error": error}) for error in typescript)):
        with OddServer((404, text)) as server, used(MCPTools("odd", url=f"{server.url}/mcp")) as tool:
            server.sessions.clear()
            result = Agent(acting(tool.name, {"result": TEXT}), [tool]).run("Act.")
            assert (result.answer, outcomes(result)) == ("done", ["result"]), text
            assert (len(server.effects), server.opened) == (1, 2), text


def test_what_a_server_says_of_a_session_otherwise_loses_the_session_and_no_certainty() -> None:
    said = (400, '{"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "No valid session ID"}}')
    with OddServer(said) as server, used(MCPTools("odd", url=f"{server.url}/mcp")) as tool:
        server.sessions.clear()
        result = Agent(acting(tool.name, {"result": TEXT}), [tool]).run("Act.")
        assert (result.stop_reason, outcomes(result)) == (StopReason.AWAITING_HUMAN, ["unknown"])
        assert asyncio.run(tool.call({"way": json.dumps({"result": TEXT})})) == "done"


def test_what_was_not_sent_may_be_sent_again() -> None:
    takes = build_signature("act", {"way": Argument(str)})
    refused = Tool("act", make_endpoint("http://127.0.0.1:1/"), takes=takes)
    with OddServer() as server:
        odd = MCPTools("odd", url=f"{server.url}/mcp", seconds=0.2)
        (tool,) = odd.tools()
    for one in (refused, tool):
        result = Agent(acting(one.name, {"result": TEXT}), [one]).run("Act.")
        assert set(outcomes(result)) == {"failed"}, one
    odd.stop()


# ── agents elsewhere ─────────────────────────────────────────────────────────────────────────────


class Elsewhere(Served):
    """An agent by A2A and behind chat completions, which does what it is asked, an entry in `effects`, and then answers
    as the question says."""

    def __init__(self) -> None:
        self.effects: list[str] = []
        app = web.Application()
        app.router.add_get("/.well-known/agent-card.json", self._card)
        app.router.add_post("/a2a", self._a2a)
        app.router.add_post("/v1/chat/completions", self._chat)
        super().__init__(app)

    async def _card(self, request: web.Request) -> web.StreamResponse:
        interface = {"protocolBinding": "JSONRPC", "protocolVersion": "1.0", "url": f"{self.url}/a2a"}
        return web.json_response({"name": "odd", "supportedInterfaces": [interface]})

    async def _a2a(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        return self._act(request, asked["params"]["message"]["parts"][0]["text"])

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return self._act(request, (await request.json())["messages"][-1]["content"])

    def _act(self, request: web.Request, question: str) -> web.StreamResponse:
        self.effects.append(question)
        way = json.loads(question)
        if "status" in way:
            return web.Response(status=way["status"], headers=way.get("headers"), text=way.get("body", ""))
        if "drops" in way:
            assert request.transport is not None
            request.transport.abort()
        return web.json_response({"jsonrpc": "2.0", "id": 1, **way})


STATES = ("FAILED", "REJECTED", "CANCELED", "AUTH_REQUIRED", "ELSEWHERE")
TASKS: Sequence[Way] = [
    {"result": {"task": {"id": "t", "contextId": "c", "status": {"state": f"TASK_STATE_{state}"}}}} for state in STATES
]


def check_member(member: Agent, ways: Sequence[Way], effects: list[str]) -> None:
    for way in ways:
        question = json.dumps(way)
        call = {"call": {"tool": member.name, "input": {"query": question}}}
        result = Agent(PromptModel(script=[call | {"times": 3}]), [member], strategy="tool_calling").run("Act.")
        assert effects.count(question) == 1, way
        assert (result.stop_reason, outcomes(result)) == (StopReason.AWAITING_HUMAN, ["unknown"]), way


def test_an_agent_by_a2a() -> None:
    errors = [{"error": {"code": code, "message": "no"}} for code in (*CODES, -32003, -32004, -32005)]
    ways = [way for way in BODIES if "type" not in way]
    with Elsewhere() as server:
        check_member(A2AAgent(server.url), [*TASKS, *errors, *ways], server.effects)


def test_an_agent_behind_chat_completions() -> None:
    ways = [way for way in BODIES if "type" not in way and way.get("status") != 200]
    with Elsewhere() as server:
        check_member(RemoteAgent(server.url, "odd"), [*ways, {"error": {"code": 400, "message": "no"}}], server.effects)


def test_an_agent_that_cannot_be_reached_may_be_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (a2a_agent, remote_agent):
        monkeypatch.setattr(module, "_RETRIES", Retries(tries=2, first_wait=0.001))
    for member in (A2AAgent("http://127.0.0.1:1/"), RemoteAgent("http://127.0.0.1:1/", "odd")):
        call = {"call": {"tool": member.name, "input": {"query": "x"}}}
        script = [call | {"times": 2}, {"finish": "done"}]
        result = Agent(PromptModel(script=script), [member], strategy="tool_calling").run("Act.")
        assert set(outcomes(result)) == {"failed"}, member.name


def test_a_member_that_paid_and_then_failed_is_asked_again_only_if_a_person_says_so() -> None:
    for effects, asked, paid in (("once", ["unknown"], 1), ("read", ["failed"] * 2, 2)):
        payments: list[int] = []

        def pay(amount: int, payments: list[int] = payments) -> str:
            payments.append(amount)
            return "paid"

        takes = build_signature("pay", {"amount": Argument(int)})
        call: Any = {"call": {"tool": "pay", "input": {"amount": 5}}}
        tool = Tool("pay", pay, takes=takes, effects=effects)  # type: ignore[arg-type]
        payer = Agent(PromptModel(script=[call]), [tool], name="payer", strategy="tool_calling")
        call = {"call": {"tool": "payer", "input": {"query": "Pay 5"}}}
        script = [call | {"times": 2}, {"finish": "done"}]
        result = Agent(PromptModel(script=script), [payer], strategy="tool_calling").run("Pay.")
        assert (outcomes(result), len(payments)) == (asked, paid)
