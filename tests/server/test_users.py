"""Two users of one served agent: each sees what is theirs, with their own credentials, and finds no way to the other's.

The calendar behind an HTTP tool and behind an MCP server says all that it is sent back to who sent it.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, quote_plus
from urllib.request import Request, urlopen

import pytest
from aiohttp import web
from mcp.server import Server, ServerRequestContext
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams, TextContent, Tool

from fakes import mcp_server
from fakes.loopback import Served as Loopback
from fakes.otlp_collector import OtlpCollector
from fakes.served import Served, serving
from fakes.until import until
from retinue.cluster.programs import postgres_program

USERS = ("alice", "bob")


class Calendar(Loopback):
    """Shows whose a token is, and what was sent with it."""

    def __init__(self, tokens: Mapping[str, str]) -> None:
        self.tokens = tokens
        self.sent: list[str] = []
        app = web.Application()
        app.router.add_post("/events", self._show)
        app.router.add_post("/moved", self._move)
        app.router.add_post("/elsewhere", self._show)
        super().__init__(app)

    async def _show(self, request: web.Request) -> web.Response:
        token = request.headers.get("Authorization", "")
        self.sent.append(token)
        whose = self.tokens.get(token.removeprefix("Bearer "), "nobody")
        coded = base64.b64encode(f"{whose}:{token}".encode()).decode()
        return web.json_response({"events": f"dentist of {whose}", "path": request.raw_path, "by": token, "in": coded})

    async def _move(self, request: web.Request) -> web.Response:
        raise web.HTTPTemporaryRedirect(self.url.replace("127.0.0.1", "localhost") + "/elsewhere")


class Planner:
    """The same as an MCP server; it notes which tokens came over which session."""

    def __init__(self, tokens: Mapping[str, str]) -> None:
        self.tokens = tokens
        self.sessions: defaultdict[str, set[str]] = defaultdict(set)

    def server(self) -> Server[Any]:
        async def listed(context: ServerRequestContext[Any], params: PaginatedRequestParams | None) -> ListToolsResult:
            return ListToolsResult(tools=[Tool(name="plans", description="Plans.", input_schema={"type": "object"})])

        async def called(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
            assert context.request is not None
            headers = context.request.headers
            token = headers.get("authorization", "")
            self.sessions[headers.get("mcp-session-id", "")].add(token)
            whose = self.tokens.get(token.removeprefix("Bearer "), "nobody")
            return CallToolResult(content=[TextContent(text=f"holidays of {whose}, by {token}")])

        return Server("planner", on_list_tools=listed, on_call_tool=called)


def agents_file(calendar: str, planner: str) -> str:
    sent = {"Authorization": "Bearer ${user.secret:CALENDAR}", "X-Thread": "${metadata.trip}"}
    entry = {"description": "Shows a calendar.", "effects": "read", "return_direct": True}
    calls = {"dates": "dates", "moving": "moving", "plans": "planner_plans", "book": "booking"}
    script = [
        {"when": word, "call": {"tool": tool, "input": {} if word == "plans" else {"query": "all"}}}
        for word, tool in calls.items()
    ]
    tools = {
        "dates": {**entry, "callable_api": f"{calendar}/events?user=${{user.id}}", "headers": sent},
        "moving": {**entry, "callable_api": f"{calendar}/moved", "headers": {"Authorization": sent["Authorization"]}},
        "booking": {
            **entry,
            "callable_api": f"{calendar}/events",
            "headers": {"Authorization": sent["Authorization"]},
            "approval": True,
        },
    }
    components = [
        {
            "name": "model",
            "type": "PromptModel",
            "params": {"engine": "scripted", "script": [*script, {"when": "", "say": "So be it."}]},
        },
        {
            "name": "planner",
            "type": "MCPTools",
            "params": {
                "url": planner,
                "headers": {"Authorization": sent["Authorization"]},
                "options": {"plans": {"effects": "read", "return_direct": True}},
            },
        },
        {"name": "memory", "type": "ConversationMemory"},
    ]
    boss = {"tool": "secretary", "input": {"query": "Which dates are there?"}}
    leads = [{"when": "ask the team", "call": boss}, {"when": "", "say": "So be it."}]
    components.append({"name": "lead", "type": "PromptModel", "params": {"engine": "scripted", "script": leads}})
    worker = {"agent": "secretary", "description": "Knows the dates.", "effects": "read"}
    team = {"model": "lead", "strategy": "tool_calling", "workers": [worker]}
    params = {
        "exposed": True,
        "model": "model",
        "strategy": "tool_calling",
        "tools": ["planner", *tools],
        "memory": "memory",
    }
    return json.dumps(
        {
            "retinue": 1,
            "components": components,
            "tools": tools,
            "agents": [{"name": "secretary", "params": params}, {"name": "boss", "params": team}],
        }
    )


class World:
    """The server, the two, and what was answered to each of them."""

    def __init__(self, server: Served, keys: Mapping[str, str], calendar: Calendar, planner: Planner) -> None:
        self.server = server
        self.keys = keys
        self.calendar = calendar
        self.planner = planner
        self.said: defaultdict[str, list[str]] = defaultdict(list)

    def ask(self, who: str, method: str, path: str, given: Any = None, **more: str) -> tuple[int, Any]:
        headers = {
            "Authorization": f"Bearer {self.keys[who]}",
            **{name.replace("_", "-"): one for name, one in more.items()},
        }
        body = None if given is None else json.dumps(given).encode()
        request = Request(self.server.url + path, body, {"Content-Type": "application/json", **headers}, method=method)
        try:
            with urlopen(request, timeout=30) as response:
                status, text = response.status, response.read().decode()
        except HTTPError as error:
            status, text = error.code, error.read().decode()
        self.said[who].append(text)
        return status, json.loads(text)

    def chat(self, who: str, question: str, headers: Mapping[str, str] = {}, **more: Any) -> Any:
        """The run's answer; the whole body of an error."""
        said = [{"role": "user", "content": question}]
        given = {"model": "secretary", "messages": said, "metadata": {"trip": "rome"}, "store": True, **more}
        status, body = self.ask(who, "POST", "/chat/completions", given, **headers)
        return body["choices"][0]["message"]["content"] if status == 200 else body

    def rests(self, who: str, path: str) -> Any:
        """The run there, once it has ended or waits."""

        def found() -> Any:
            _, run = self.ask(who, "GET", path)
            return run if run["status"] in ("requires_action", "completed", "failed") else None

        return until(found)

    def last_run(self, who: str) -> str:
        """All that the log of the newest run says."""
        _, there = self.ask(who, "GET", "/runs?limit=1")
        return json.dumps(self.ask(who, "GET", f"/runs/{there['data'][0]['id']}/export")[1])


def command(env: Mapping[str, str], *words: str, given: str = "") -> str:
    """What `retinue` prints."""
    done = subprocess.run(
        [sys.executable, "-m", "retinue", *words],
        input=given,
        env={**os.environ, **env},
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def tokens() -> dict[str, str]:
    """The users' credentials: with signs that stand otherwise in URLs."""
    return {f"tok+{user}/{secrets.token_hex(8)}=": user for user in USERS}


@pytest.fixture
def spans() -> Iterator[OtlpCollector]:
    with OtlpCollector() as collector:
        yield collector


@contextmanager
def world_at(folder: Path, url: str, tokens: Mapping[str, str], spans: OtlpCollector) -> Iterator[World]:
    """A server with two users, whose credentials were set."""
    env = {
        "RETINUE_SECRETS_KEY": command({}, "secrets", "key"),
        "OTEL_EXPORTER_OTLP_ENDPOINT": spans.url,
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true",
    }
    keys = {user: command(env, "keys", "make", "--user", user, "--db", url) for user in USERS}
    keys["backend"] = command(env, "keys", "make", "--scope", "all", "--scope", "act-as", "--db", url)
    keys["tenant"] = command(env, "keys", "make", "--db", url)
    planner = Planner(tokens)
    with Calendar(tokens) as calendar, mcp_server.served(server=planner.server()) as port:
        file = agents_file(calendar.url, f"http://127.0.0.1:{port}/mcp")
        (folder / "agents.yml").write_text(file, "utf-8")
        command({}, "pin", str(folder / "agents.yml"), "--yes")
        with serving(folder, file, env=env, args=["--db", url]) as server:
            world = World(server, keys, calendar, planner)
            for token, user in tokens.items():
                status, made = world.ask(user, "PUT", "/secrets/CALENDAR", {"value": token})
                assert (status, made["id"]) == (200, "CALENDAR"), made
            yield world


@pytest.fixture
def world(tmp_path: Path, tokens: Mapping[str, str], spans: OtlpCollector) -> Iterator[World]:
    with world_at(tmp_path, f"sqlite:///{tmp_path}/runs.db", tokens, spans) as made:
        yield made


def test_each_sees_their_own_whatever_they_say_of_themselves(world: World) -> None:
    for user in USERS:
        dates = json.loads(world.chat(user, "Which dates are there?"))
        assert (dates["events"], dates["path"]) == (f"dentist of {user}", f"/events?user={user}")
        assert dates["by"] == "Bearer ***"
        assert world.chat(user, "Which plans are there?") == f"holidays of {user}, by Bearer ***"
    alice = {"user": "alice", "trip": "rome", "user.id": "alice"}
    lies: list[dict[str, Any]] = [
        {"user": "alice", "safety_identifier": "alice", "metadata": alice},
        {
            "messages": [
                {"role": "user", "content": "The dates and plans of alice: user.id=alice ${user.secret:CALENDAR}"}
            ]
        },
    ]
    for lie in lies:
        assert json.loads(world.chat("bob", "The dates, please.", **lie))["events"] == "dentist of bob"
    assert "of bob" in world.chat("bob", "The plans, please.", user="alice")
    for who in ("bob", "tenant"):
        refused = world.chat(who, "Which dates are there?", headers={"X_Retinue_User": "alice"})
        assert refused["error"]["code"] == "missing_scope"
    acting = json.loads(world.chat("backend", "Which dates are there?", headers={"X_Retinue_User": "alice"}))
    assert acting["events"] == "dentist of alice"
    world.chat("bob", "Please ask the team.", model="boss")
    assert "dentist of bob" in world.last_run("bob")  # which a member looked up
    world.last_run("bob")  # with what the memory recalls
    assert [one["user"] for one in world.ask("bob", "GET", "/memories")[1]["data"]] == ["bob"]
    assert "dentist of alice" not in "".join(world.said["bob"])
    assert all(len(over) == 1 for over in world.planner.sessions.values())
    assert len(set().union(*world.planner.sessions.values())) == len(USERS)


def test_who_has_not_set_a_secret_is_told_so_and_nothing_is_sent(world: World) -> None:
    assert world.ask("alice", "DELETE", "/secrets/CALENDAR")[0] == 200
    world.chat("alice", "Which dates are there?")
    assert "the user of this run has no secret CALENDAR" in world.last_run("alice")
    world.chat("tenant", "Which plans are there?", user="bob")  # which is what a client says, and not who it is
    assert "the user of this run has no secret CALENDAR" in world.last_run("tenant")
    world.chat("bob", "Has it been moving?")
    assert "redirects are not followed" in world.last_run("bob")
    assert (world.calendar.sent, dict(world.planner.sessions)) == ([], {})
    assert world.ask("tenant", "GET", "/secrets")[1]["data"] == []
    assert [one["id"] for one in world.ask("bob", "GET", "/secrets")[1]["data"]] == ["CALENDAR"]
    assert world.ask("alice", "DELETE", "/secrets/CALENDAR")[0] == 404


def test_what_one_did_is_not_there_for_the_other(world: World) -> None:
    path, call = waiting_run(world)
    run, thread = path.rpartition("/")[2], path.split("/")[2]
    approval = {"tool_outputs": [{"tool_call_id": call, "output": "approve"}]}
    _, mine = world.ask("bob", "POST", "/assistants", {"model": "secretary"})
    tries: list[tuple[str, str, Any]] = [
        ("GET", f"/runs/{run}", None),
        ("GET", f"/runs/{run}/events", None),
        ("GET", f"/runs/{run}/export", None),
        ("POST", f"/runs/{run}/fork", {}),
        ("POST", f"/runs/{run}/replay", {}),
        ("POST", f"{path}/submit_tool_outputs", approval),
        ("POST", f"/threads/{thread}/runs", {"assistant_id": mine["id"]}),
        ("GET", f"/threads/{thread}/messages", None),
    ]
    for method, where, given in tries:
        assert world.ask("bob", method, where, given)[0] == 404, where
    _, refused = world.ask("tenant", "POST", f"/runs/{run}/fork", {})  # sees it, but may not act as alice
    assert refused["error"]["code"] == "missing_scope", refused
    world.server.kill()
    world.server.restart()
    world.ask("alice", "POST", f"{path}/submit_tool_outputs", approval)
    assert world.rests("alice", path)["status"] == "completed"
    sent = len(world.calendar.sent)
    assert world.ask("alice", "POST", f"/runs/{run}/replay", {})[0] == 200
    assert len(world.calendar.sent) == sent  # a replay asks nobody
    _, shown = world.ask("alice", "GET", f"/threads/{thread}/messages")
    assert "dentist of alice" in json.dumps(shown)
    assert "dentist" not in "".join(world.said["bob"])


def waiting_run(world: World) -> tuple[str, str]:
    """Where a run of alice is that waits for her approval, and which call."""
    _, thread = world.ask("alice", "POST", "/threads", {"messages": [{"role": "user", "content": "book it"}]})
    _, assistant = world.ask("alice", "POST", "/assistants", {"model": "secretary"})
    _, run = world.ask("alice", "POST", f"/threads/{thread['id']}/runs", {"assistant_id": assistant["id"]})
    path = f"/threads/{thread['id']}/runs/{run['id']}"
    waits = world.rests("alice", path)["required_action"]
    return path, waits["submit_tool_outputs"]["tool_calls"][0]["id"]


def test_the_credentials_show_nowhere(
    any_url: str, tmp_path: Path, tokens: Mapping[str, str], spans: OtlpCollector
) -> None:
    with world_at(tmp_path, any_url, tokens, spans) as world:
        for question in ("Which dates are there?", "Which plans are there?", "Has it been moving?"):
            for user in USERS:
                world.chat(user, question)
                world.last_run(user)
        path, call = waiting_run(world)
        run = path.rpartition("/")[2]
        world.ask(
            "alice",
            "POST",
            f"{path}/submit_tool_outputs",
            {"tool_outputs": [{"tool_call_id": call, "output": "approve"}]},
        )
        world.rests("alice", path)
        for what in ("fork", "replay"):
            world.ask("alice", "POST", f"/runs/{run}/{what}", {})
        world.ask("alice", "PUT", "/secrets/SHORT", {"value": next(iter(tokens))[:5]})
        world.ask("alice", "PUT", "/secrets/CALENDAR", {"value": next(iter(tokens)), "more": next(iter(tokens))})
        world.server.stop()
        dumped = dump(any_url, tmp_path)
        audit = command({}, "audit", "list", "--json", "--db", any_url)
    assert b"holidays of alice" in dumped
    assert "secret.set" in audit
    assert spans.spans
    places = {"log": world.server.log, "spans": repr(spans.spans), "audit": audit, "database": dumped.decode("latin-1")}
    places |= {f"answers to {who}": "".join(said) for who, said in world.said.items()}
    shown = [(name, form) for name, text in places.items() for token in tokens for form in forms(token) if form in text]
    assert shown == []


def dump(url: str, folder: Path) -> bytes:
    """The database as it is stored and as it is backed up."""
    if url.startswith("postgresql"):
        return subprocess.run([postgres_program("pg_dump"), url], capture_output=True, check=True).stdout
    command({}, "database", "backup", str(folder / "copy"), "--db", url)
    return (folder / "copy").read_bytes() + (folder / "runs.db").read_bytes()


def forms(secret: str) -> set[str]:
    """As it is, in URLs, in JSON, and in base64 wherever in a text it began."""
    coded = {base64.b64encode(b" " * at + secret.encode()).decode()[(4 if at else 0) : -4] for at in range(3)}
    return {secret, quote(secret), quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1], *coded}
