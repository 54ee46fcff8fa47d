"""The real server on loopback, in a thread, with agents that a script answers for."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import aiohttp
from sqlalchemy import insert

from fakes.kept_runs import new_run
from fakes.pace import hurried
from retinue import Agent, PromptModel
from retinue.limits.rate import KeyLimits
from retinue.server.agents.deployment import Deployment
from retinue.server.app import create_app
from retinue.server.context import Options
from retinue.server.http.connections import listen
from retinue.server.process import Serving as How, assemble_server, serve_until
from retinue.store.api_keys import Keys
from retinue.store.database import Database
from retinue.store.run_queries import insert_run
from retinue.store.tables import events

from .until import until_async

KEY = "sk-for-tests-only-0123456789"


def answering(name: str = "agent-1", *replies: str) -> Agent:
    """An agent that says `replies`, one after the other."""
    return Agent(PromptModel(script=list(replies or ["Paris."])), name=name)


class Answer:
    """What came back."""

    def __init__(self, status: int, headers: Mapping[str, str], text: str) -> None:
        self.status = status
        self.headers = headers
        self.text = text

    @property
    def body(self) -> Any:
        """The JSON in it."""
        return json.loads(self.text)

    @property
    def error(self) -> dict[str, Any]:
        """The error in OpenAI's envelope, and nothing beside it."""
        assert set(self.body) == {"error"}
        assert set(self.body["error"]) == {"message", "type", "param", "code"}
        error: dict[str, Any] = self.body["error"]
        return error


class Serving:
    """It serves as long as `with` lasts, at `url`; `ask` asks it."""

    def __init__(
        self,
        folder: Path,
        agents: Mapping[str, Agent] | None = None,
        options: Options = Options(),
        url: str = "",
        **edge: Any,
    ) -> None:
        self._deployment = Deployment(agents or {"agent-1": answering()}, 1_700_000_000)
        self._limits = edge.pop("limits", KeyLimits())
        self._now = edge.pop("now", time.time)
        self._port = edge.pop("port", 0)  # one that is reserved, for agents that call this server themselves
        some = {name: edge.pop(name) for name in ("at_once", "connections", "header_seconds") if name in edge}
        self._how = How(url or f"sqlite:///{folder / 'retinue.db'}", options, grace=0.0, **some)
        self._edge = edge
        self._pace = hurried()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="serving", daemon=True)
        self.url = ""

    def __enter__(self) -> Self:
        self._pace.__enter__()
        self._thread.start()
        assert self._ready.wait(timeout=30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout=30)
        self._pace.__exit__(None, None, None)
        assert not self._thread.is_alive()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self.database = Database(self._how.database)
        server = assemble_server(self._deployment, self.database, self._how, self._limits)
        self.runs = server.runs
        self.app = create_app(server, Keys(self.database, [KEY], self._now), **self._edge)
        with listen("127.0.0.1", self._port) as listening:
            await serve_until(self._stop, self.app, server, listening, self._how, self._is_ready)
        await self.database.close_async()

    def _is_ready(self, address: str) -> None:
        self.url = address
        self._ready.set()

    def in_loop(self, work: Any) -> Any:
        """What the coroutine `work` returns, run where the server runs."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=30)

    def ask(self, method: str, path: str, given: Any = None, *, key: str | None = KEY, **more: Any) -> Answer:
        """One request, with `given` as its JSON."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        headers |= more.pop("headers", {})
        if given is not None:
            more["json"] = given

        sockets: list[socket.socket] = []

        def opened(address: Any) -> socket.socket:
            sockets.append(socket.socket(*address[:3]))
            return sockets[-1]

        async def closed() -> bool:
            await asyncio.sleep(0)
            return all(one.fileno() == -1 for one in sockets)

        async def asked() -> Answer:
            async with (
                aiohttp.ClientSession(connector=aiohttp.TCPConnector(socket_factory=opened)) as session,
                session.request(method, self.url + path, headers=headers, **more) as response,
            ):
                answer = Answer(response.status, response.headers, await response.text())
            await until_async(closed)  # not at once where the server answered before it had heard all
            return answer

        return asyncio.run(asked())


def upload(served: Serving, name: str, content: bytes, **more: Any) -> Answer:
    """Give it a file."""
    form = aiohttp.FormData({"purpose": "assistants"}, quote_fields=False)
    form.add_field("file", io.BytesIO(content), filename=name, content_type="application/octet-stream")
    return served.ask("POST", "/v1/files", data=form, **more)


def with_run(served: Serving, status: str = "in_progress", *, holds: bool = True) -> tuple[str, str]:
    """A thread with a run that nobody drives; their ids."""
    thread = served.ask("POST", "/v1/threads", {"messages": [{"role": "user", "content": "Hi"}]}).body["id"]
    run = f"run_{thread[7:]}"
    row = new_run(run, tenant="default", thread_id=thread, created_at=int(time.time()), status=status, holds=holds)
    event = {"run_id": run, "seq": 1, "epoch": 0, "at": 0.0, "kind": "stopped", "payload": "{}"}
    with served.database.engine.begin() as connection:
        insert_run(connection, row._replace(agent="agent-1", request={"model": "agent-1"}))
        connection.execute(insert(events).values(event))
    return thread, run
