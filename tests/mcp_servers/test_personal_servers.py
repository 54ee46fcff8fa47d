"""An MCP server that is asked for several users: each has a connection, and their credentials go nowhere else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.routing import Route

from fakes import mcp_server
from fakes.until import until
from retinue import Agent, PromptModel, UsageError
from retinue.mcp import MCPTools, mcp_tools

HEADERS = {"X-Token": "${user.secret:TOKEN}"}


class Watched:
    """The server, and what was sent to it: the tokens of calls by their sessions, and how many sessions ended."""

    def __init__(self) -> None:
        self._app = mcp_server.made().streamable_http_app()
        self.tokens: Counter[tuple[str, str]] = Counter()
        self.ended = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = Request(scope).headers
            self.ended += scope["method"] == "DELETE"
            self.tokens[headers.get("mcp-session-id", ""), headers.get("x-token", "")] += 1
        await self._app(scope, receive, send)

    def of_sessions(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for session, token in self.tokens:
            found.setdefault(session, set()).add(token)
        found.pop("", None)
        return found


@contextmanager
def tools_at(url: str) -> Iterator[Agent]:
    server = MCPTools("fake", url=url, headers=HEADERS, tools=["add"], seconds=10)
    script = [{"when": "add", "call": {"tool": "fake_add", "input": {"a": 2, "b": 3}}}, {"when": "", "say": "Five."}]
    try:
        yield Agent(PromptModel(script=script), server.tools(), strategy="tool_calling")
    finally:
        server.stop()


def observed(agent: Agent, user: str, **given: Any) -> str:
    [*_, observation] = [
        one.observation for one in agent.run("add", user=user, **given).events if hasattr(one, "observation")
    ]
    return observation.text


def test_each_user_has_a_connection_and_it_is_closed_when_nobody_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched()
    with mcp_server.served(app=watched) as port, tools_at(f"http://127.0.0.1:{port}/mcp") as agent:
        for user in ("alice", "bob", "alice"):
            assert '"sum":5' in observed(agent, user, secrets={"TOKEN": f"for {user}"}).replace(" ", "")
        assert sorted(map(sorted, watched.of_sessions().values())) == [[""], ["for alice"], ["for bob"]]
        monkeypatch.setattr(mcp_tools, "UNUSED", 0.01)
        assert "5" in observed(agent, "carol", secrets={"TOKEN": "for carol"})
        until(lambda: watched.ended == 1)  # hers
        assert "5" in observed(agent, "carol", secrets={"TOKEN": "for carol"})
        until(lambda: watched.ended == 2)


def test_credentials_are_not_sent_to_where_a_server_redirects() -> None:
    watched = Watched()
    with mcp_server.served(app=watched) as port:

        async def away(request: Request) -> RedirectResponse:
            return RedirectResponse(f"http://127.0.0.1:{port}/mcp", 307)

        front = Starlette(routes=[Route("/mcp", away, methods=["GET", "POST", "DELETE"])])
        with mcp_server.served(app=front) as first, tools_at(f"http://127.0.0.1:{first}/mcp") as agent:
            assert "5" in observed(agent, "alice", secrets={"TOKEN": "for alice"})
    assert {token for _, token in watched.tokens} == {""}


def test_who_lacks_the_secret_makes_no_connection() -> None:
    watched = Watched()
    with mcp_server.served(app=watched) as port, tools_at(f"http://127.0.0.1:{port}/mcp") as agent:
        before = sum(watched.tokens.values())
        assert "the user of this run has no secret TOKEN" in observed(agent, "alice", secrets={})
        assert "cannot be sent" in observed(agent, "alice", secrets={"TOKEN": "one\r\nX-Other: two"})
        assert sum(watched.tokens.values()) == before


def test_a_template_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match=r"headers: '\$\{user.secrets:TOKEN\}' is unknown; there are \$\{user.id\}"):
        MCPTools("fake", url="http://127.0.0.1:1/mcp", headers={"X": "${user.secrets:TOKEN}"})
