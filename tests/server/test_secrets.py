"""Secrets in every place where one can be put show nowhere, whatever goes wrong: in no log, database or answer.

The services here say all that they are sent back to who sent it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import aiohttp
import pytest
from aiohttp import web

from fakes import fork_server, mcp_server
from fakes.loopback import Served as Loopback
from fakes.served import KEY, Served, serving

PLACES = (
    "MODEL_KEY", "MODEL_QUERY", "VENDOR_KEY", "COMPONENT_KEY", "TOOL_PASSWORD", "TOOL_QUERY", "TOOL_TOKEN",
    "MCP_HEADER", "MCP_TOKEN", "MCP_ARGUMENT", "SERVER_KEY", "DATABASE_PASSWORD", "WRONG_KEY",
)  # fmt: skip
MODES = ("401", "400", "404", "500", "html", "redirect", "stream")
_TOWN = {"town": {"type": "str"}}


def file_of(planted: Mapping[str, str], url: str, mcp_url: str) -> str:
    """A file with them all."""
    sent = {name: quote(secret, safe="") for name, secret in planted.items()}
    login = url.replace("http://", f"http://user:{sent['TOOL_PASSWORD']}@")
    models: dict[str, dict[str, Any]] = {
        mode: {"base_url": f"{url}/{mode}/v1", "api_key": "${VENDOR_KEY}"} for mode in MODES
    }
    models["query"] = {"base_url": f"{url}/401/v1?key={sent['MODEL_QUERY']}", "api_key": planted["MODEL_KEY"]}
    models["away"] = {"base_url": "http://127.0.0.1:9/v1", "api_key": planted["MODEL_KEY"]}
    models["slow"] = {"base_url": f"{url}/hang/v1", "api_key": planted["MODEL_KEY"], "timeout": 0.2}
    fixed = {"model_name_or_path": "m", "engine": "openai", "api": "chat"}
    env = f"TOOL_TOKEN={planted['TOOL_TOKEN']}"
    tools = {f"far_{mode}": f"{login}/{mode}?api_key={sent['TOOL_QUERY']}" for mode in ("200", *MODES[:-1])}
    tools["near"] = f"http://user:{sent['TOOL_PASSWORD']}@127.0.0.1:9/x"
    calls = {
        **{name: {"town": "Paris"} for name in (*tools, "local", "crash")},
        "program_environment": {},
        "remote_fail": {},
    }
    calls |= {f"search_{mode}": {"query": "Paris"} for mode in MODES[:-1]}
    script = [{"when": f"{tool}$", "call": {"tool": tool, "input": given}} for tool, given in calls.items()]
    searches = {
        f"serp_{mode}": {"api_key": planted["COMPONENT_KEY"], "base_url": f"{url}/{mode}"} for mode in MODES[:-1]
    }
    servers: dict[str, Any] = {
        "program": {
            "command": sys.executable,
            "args": [mcp_server.__file__, "--token", planted["MCP_ARGUMENT"]],
            "env": {"MCP_TOKEN": planted["MCP_TOKEN"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        },
        "remote": {"url": mcp_url, "headers": {"Authorization": f"Bearer {planted['MCP_HEADER']}"}},
    }
    components = [{"name": f"m_{name}", "type": "PromptModel", "params": fixed | one} for name, one in models.items()]
    components += [{"name": "m_calling", "type": "PromptModel", "params": {"engine": "scripted", "script": [
        *script, {"when": "", "say": "So be it."}]}}]  # fmt: skip
    components += [{"name": name, "type": "SerpAPIComponent", "params": one} for name, one in searches.items()]
    components += [{"name": name, "type": "MCPTools", "params": one} for name, one in servers.items()]
    described = {"description": "A tool.", "args_schema": _TOWN}
    own = {f"{name}": {**described, "callable_api": f"tools.py:{name}", "env": env} for name in ("local", "crash")}
    found = [{"name": f"search_{name[5:]}", "pipeline_or_node": name, "description": "Searches."} for name in searches]
    given: dict[str, Any] = {"calling": [*tools, *own, *found, *servers]}
    agents = [
        {"name": name, "params": {"model": f"m_{name}", "strategy": "tool_calling", "tools": given.get(name, [])}}
        for name in (*models, "calling")
    ]
    addressed = {name: {**described, "callable_api": address} for name, address in tools.items()}
    return json.dumps({"retinue": 1, "components": components, "tools": addressed | own, "agents": agents}, indent=1)


TOOLS = '''
import os, sys

def local(town: str) -> str:
    """Far."""
    print("on stdout:", os.environ["TOOL_TOKEN"], file=sys.stderr)
    return "It is " + os.environ["TOOL_TOKEN"]

def crash(town: str) -> str:
    """Far."""
    raise RuntimeError("no entry with " + os.environ["TOOL_TOKEN"])
'''


class Echo(Loopback):
    """Answers with all that it was sent, in the way that the path says."""

    def __init__(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{mode}{path:.*}", self._serve)
        super().__init__(app)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        mode = request.match_info["mode"].partition("/")[0]
        if mode == "hang":
            await self._loopback.closing.wait()
            mode = "503"
        sent = {"url": request.raw_path, "headers": dict(request.headers), "body": (await request.read()).decode()}
        kind, _, login = request.headers.get("Authorization", "").partition(" ")
        said = json.dumps(sent | {"login": base64.b64decode(login).decode() if kind == "Basic" else login})
        if mode == "html":
            return web.Response(text=f"<html>{said}</html>", content_type="text/html")
        if mode == "redirect":
            return web.Response(status=302, headers={"Location": f"http://127.0.0.1:9/?{quote(said)}"})
        if mode == "stream":
            data = f"data: {json.dumps({'error': {'message': said}})}\n\n"
            return web.Response(text=data, content_type="text/event-stream")
        return web.json_response({"error": {"message": said, "type": "t"}}, status=int(mode))


@pytest.fixture
def planted() -> Mapping[str, str]:
    """A secret for each place: with signs that stand otherwise in URLs."""
    return {place: f"sk+{place}/{secrets.token_hex(8)}=" for place in PLACES}


@pytest.fixture
def echo() -> Iterator[Echo]:
    with Echo() as server:
        yield server


def found(planted: Mapping[str, str], places: Mapping[str, bytes]) -> list[str]:
    """Which secret shows in which place, in any of its forms."""
    return [
        f"{name} in {place}"
        for name, secret in planted.items()
        for form in forms(secret)
        for place, text in places.items()
        if form.encode() in text
    ]


def forms(secret: str) -> set[str]:
    """As it is, in URLs, in JSON, and in base64 wherever in a text it began."""
    coded = {base64.b64encode(b" " * at + secret.encode()).decode()[(4 if at else 0) : -4] for at in range(3)}
    return {secret, quote(secret), quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1], *coded}


@pytest.mark.full
@pytest.mark.anyio
async def test_no_secret_shows_anywhere(tmp_path: Path, planted: Mapping[str, str], echo: Echo) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    env = {"VENDOR_KEY": planted["VENDOR_KEY"], "RETINUE_API_KEYS": planted["SERVER_KEY"]}
    with mcp_server.served() as port:
        file = file_of(planted, echo.url, f"http://127.0.0.1:{port}/mcp")
        (tmp_path / "agents.yml").write_text(file, "utf-8")
        pinned = fork_server.retinue("pin", "agents.yml", "--yes", env={**os.environ, **env}, cwd=tmp_path)
        with serving(tmp_path, file, env=env) as server:
            said = await ask_everything(server, planted, json.loads(file))
            kept = {
                name: (tmp_path / name).read_bytes()
                for name in ("runs.db", "runs.db-wal")
                if (tmp_path / name).exists()
            }
        places = {**said, **kept, "the log": server.log.encode(), "pin": (pinned.stdout + pinned.stderr).encode()}
    assert found(planted, places) == []
    assert "***" in server.log  # of what engines say, which clients are not told
    assert b"***" in b"".join(kept.values())  # of what tools say


async def ask_everything(server: Served, planted: Mapping[str, str], file: Any) -> dict[str, bytes]:
    """All that the server answers, by what it was asked."""
    said: dict[str, bytes] = {}
    async with aiohttp.ClientSession() as http:

        async def ask(method: str, path: str, given: Any = None, key: str = KEY) -> bytes:
            headers = {"Authorization": f"Bearer {key}"}
            async with http.request(method, f"{server.url}{path}", json=given, headers=headers) as answer:
                body = await answer.read()
                said[f"{len(said)} {method} {path} {given}"] = str(dict(answer.headers)).encode() + body
                return body

        async def run(model: str, question: str, assistant: str) -> None:
            messages = [{"role": "user", "content": question}]
            chats = [{"model": model, "messages": messages, "stream": one, "store": True} for one in (False, True)]
            chatting = asyncio.gather(*(ask("POST", "/chat/completions", chat) for chat in chats))
            body = {"assistant_id": assistant, "model": model, "thread": {"messages": messages}, "stream": True}
            created = (await ask("POST", "/threads/runs", body)).split(b"data: ")[2].partition(b"\n")[0]
            made = json.loads(created)
            await chatting
            for end in (f"runs/{made['id']}", f"runs/{made['id']}/steps", "messages"):
                await ask("GET", f"/threads/{made['thread_id']}/{end}")

        models = [one["name"] for one in file["agents"]]
        assistant = json.loads(await ask("POST", "/assistants", {"model": models[0]}))["id"]
        script = next(one for one in file["components"] if one["name"] == "m_calling")["params"]["script"]
        asking = [("calling", rule["call"]["tool"]) for rule in script[:-1]] + [(name, "Hi") for name in models]
        await asyncio.gather(*(run(model, question, assistant) for model, question in asking))
        await ask("GET", "/models", key=planted["SERVER_KEY"])
        await ask("GET", "/models", key=planted["WRONG_KEY"])
        await ask("POST", "/threads", {"metadata": {"a": 1}}, key=planted["WRONG_KEY"])
        await ask("GET", "/chat/completions?limit=100")
    return said


@pytest.mark.parametrize(
    ("stood", "stands", "args"),
    [
        ('"agents": [', '"agents": [[', ()),
        ('"strategy": "tool_calling"', '"strategy": "nothing"', ()),
        ('"api_key":', '"apikey":', ()),
        ('"engine": "openai"', '"engine": "nobody"', ()),
        ('"http://127.0.0.1:9/v1"', '"file://u:{MODEL_KEY}@x/v1"', ()),
        ('"callable_api": "http://u', '"callable_api": "htp://u', ()),
        ('"http://127.0.0.1:9/mcp"', '"http://u:{MODEL_KEY}@127.0.0.1:9/mcp"', ()),
        ("", "", ("--db", "postgresql://me:{DATABASE_PASSWORD}@127.0.0.1:9/retinue")),
        ("", "", ("--db", "mysql://me:{DATABASE_PASSWORD}@127.0.0.1:9/retinue")),
        ("", "", ("--db", "postgresql://me:{DATABASE_PASSWORD}@127.0.0.1:nine/retinue")),
        ("", "", ("--api-key", "with space {SERVER_KEY}")),
        ("", "", ("--port", "99999")),
    ],
)
def test_no_secret_shows_where_a_server_does_not_start(
    tmp_path: Path, planted: Mapping[str, str], stood: str, stands: str, args: tuple[str, ...]
) -> None:
    quoted = {name: quote(value, safe="") for name, value in planted.items()}
    text = file_of(planted, "http://127.0.0.1:9", "http://127.0.0.1:9/mcp")
    assert stood in text
    (tmp_path / "agents.yml").write_text(
        text.replace(stood, stands.replace("{MODEL_KEY}", quoted["MODEL_KEY"])), "utf-8"
    )
    (tmp_path / "tools.py").write_text(TOOLS)
    env = {"VENDOR_KEY": planted["VENDOR_KEY"], "RETINUE_API_KEYS": planted["SERVER_KEY"]}
    more = [arg.format(**quoted) for arg in args]
    words = ["serve", "agents.yml", "--port", "0", "--db", "runs.db", *more]
    done = fork_server.retinue(*words, env={**os.environ, **env}, cwd=tmp_path)
    said = done.stdout + done.stderr
    assert (done.returncode, "Traceback" in said) == (2, False), said
    assert found(planted, {"what it said": said.encode()}) == [], said
