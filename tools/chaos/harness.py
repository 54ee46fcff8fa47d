"""A server, the world outside it, and clients that go on when the server is killed under them."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp

from fakes.served import Process, Served, serving

ENDED = ("completed", "failed", "cancelled", "expired", "incomplete")
DEPLOYMENT = Path(__file__).with_name("deployment")
_EVERY = 0.02  # seconds between two looks at a run
Json = dict[str, Any]


class Site:
    """Servers of ../deployment on one database, and the `world` outside, an address."""

    def __init__(self, server: Served, world: str, db: str) -> None:
        self.servers = [server]
        self.world = world
        self.db = db  # its URL

    @property
    def server(self) -> Served:
        """The server; of several, any."""
        return random.choice(self.servers)

    def began(self, order: str = "") -> list[Json]:
        """What the tools noted when they began: `tool`, `what`, `began`, `process`; of one order, or of all."""
        file = self.server.db.with_name("began.jsonl")
        lines = file.read_text("utf-8").splitlines() if file.exists() else []
        notes = [json.loads(line) for line in lines if line.endswith("}")]
        return [one for one in notes if not order or one["what"].partition(".")[0] == order]


@contextmanager
def two_servers(db: str, *args: str, delay: float = 0.05) -> Iterator[Site]:
    """Two servers on the PostgreSQL database at this URL, and their world, while in the block."""
    with site(*args, db=db, delay=delay) as at:
        second = at.server.beside()
        at.servers.append(second)
        try:
            yield at
        finally:
            if second.process.poll() is None:
                second.stop()
            del at.servers[1:]


@contextmanager
def site(*args: str, db: str = "", delay: float = 0.05, env: Mapping[str, str] | None = None) -> Iterator[Site]:
    """A server and its world, while in the block. `delay`: seconds before and after each effect; `db`: the URL of a
    database other than a file of its own; `env`: of the server's process."""
    folder = Path(tempfile.mkdtemp(prefix="chaos"))
    try:
        for name in ("tools.py", "freezing.py"):
            shutil.copy(DEPLOYMENT / name, folder)
        text = (DEPLOYMENT / "agents.yml").read_text("utf-8")
        more = ("--db", db) if db else ()
        with outside(delay) as address:
            settings = {"CHAOS_WORLD": address, "PYTHONDONTWRITEBYTECODE": "", **(env or {})}
            with serving(folder, text, env=settings, args=[*args, *more]) as server:
                yield Site(server, address, db or f"sqlite:///{server.db}")
    finally:
        shutil.rmtree(folder)


@contextmanager
def outside(delay: float) -> Iterator[str]:
    """The address of a world, while in the block; `delay` as for `site`."""
    words = [sys.executable, "-m", "chaos.world", str(delay), str(delay)]
    path = os.pathsep.join(filter(None, [str(DEPLOYMENT.parents[1]), os.environ.get("PYTHONPATH")]))
    world = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    try:
        assert world.stdout is not None
        yield world.stdout.readline().strip()
    finally:
        world.kill()
        world.wait()
        if world.stdout is not None:
            world.stdout.close()


class Gone(Exception):
    """The server went away; whether what was asked for was done is not known."""


class Refused(Exception):
    """The server says no: `status`, and the message of its error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Client:
    """What clients of `at` do. Each method waits until the server is there again if it goes away meanwhile."""

    def __init__(self, at: Site, session: aiohttp.ClientSession) -> None:
        self._at = at
        self._session = session
        self._assistants: dict[str, str] = {}  # by the agent
        self._making = asyncio.Lock()

    async def once(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        server: Served | None = None,
        key: str = "",
        seconds: float = 20,
    ) -> Json:
        """An answer within so many seconds. `key` is an `Idempotency-Key`. Raises `Gone` or `Refused`."""
        asked = server or self._at.server
        headers = {"Authorization": f"Bearer {asked.key}", **({"Idempotency-Key": key} if key else {})}
        try:
            url, limit = f"{asked.url}{path}", aiohttp.ClientTimeout(total=seconds)
            async with self._session.request(method, url, json=body, headers=headers, timeout=limit) as response:
                said: Json = await response.json()
        except (aiohttp.ClientError, OSError, ValueError, TimeoutError) as error:
            raise Gone(str(error)) from error
        if response.status >= 500:
            raise Gone(str(said))
        if response.status >= 400:
            raise Refused(response.status, said["error"]["message"])
        return said

    async def stream(self, path: str, body: Any) -> AsyncIterator[tuple[str, Json]]:
        """The events of a stream: their names and objects. Raises `Refused`."""
        headers = {"Authorization": f"Bearer {self._at.server.key}"}
        async with self._session.post(f"{self._at.server.url}{path}", json=body, headers=headers) as response:
            if response.status >= 400:
                raise Refused(response.status, (await response.json())["error"]["message"])
            name = ""
            async for line in response.content:
                kind, _, value = line.decode().rstrip("\n").partition(": ")
                name = value if kind == "event" else name
                if kind == "data" and value != "[DONE]":
                    yield name, json.loads(value)

    async def ask(self, method: str, path: str, body: Any = None) -> Json:
        """An answer, whenever there is one: for what may be said twice."""
        while True:
            try:
                return await self.once(method, path, body)
            except Gone:
                await asyncio.sleep(_EVERY)

    async def thread(self, question: str) -> str:
        """A new thread with a question; its id."""
        body = {"messages": [{"role": "user", "content": question}]}
        return str((await self.ask("POST", "/threads", body))["id"])

    async def begin(
        self, server: Served | None, thread: str, *, key: str = "", model: str = "worker", **body: Any
    ) -> Json:
        """A run of an agent on a thread, asked for once. Raises `Gone` or `Refused`."""
        async with self._making:
            if model not in self._assistants:
                self._assistants[model] = (await self.ask("POST", "/assistants", {"model": model}))["id"]
        given = {"assistant_id": self._assistants[model], **body}
        return await self.once("POST", f"/threads/{thread}/runs", given, server=server, key=key)

    async def start(self, thread: str, server: Served | None = None, **body: Any) -> Json:
        """A run on a thread that has none; just one, whether or not the server goes away meanwhile."""
        while True:
            try:
                return await self.begin(server, thread, **body)
            except Gone:
                server = None
                found = await self.ask("GET", f"/threads/{thread}/runs?order=asc")
                if found["data"]:
                    return dict(found["data"][-1])
            except Refused:
                found = await self.ask("GET", f"/threads/{thread}/runs?order=asc")
                if not found["data"]:
                    raise
                return dict(found["data"][-1])

    async def rests(self, run: Json) -> Json:
        """The run once it has ended, or waits."""
        while run["status"] not in (*ENDED, "requires_action"):
            await asyncio.sleep(_EVERY)
            run = await self.ask("GET", path_of(run))
        return run

    async def submit(self, run: Json, outputs: Mapping[str, str], server: Served | None = None) -> Json:
        """The run, after outputs for the calls it waits for. With a `server`, it is asked once, and may be `Gone`."""
        body = {"tool_outputs": [{"tool_call_id": call, "output": text} for call, text in outputs.items()]}
        path = f"{path_of(run)}/submit_tool_outputs"
        return await (self.once("POST", path, body, server=server) if server else self.ask("POST", path, body))

    async def messages(self, thread: str) -> list[str]:
        """What was said on a thread by runs, oldest first."""
        found = await self.ask("GET", f"/threads/{thread}/messages?order=asc&limit=100")
        return [one["content"][0]["text"]["value"] for one in found["data"] if one["role"] == "assistant"]

    async def steps(self, run: Json) -> list[Json]:
        """A run's steps, oldest first."""
        return list((await self.ask("GET", f"{path_of(run)}/steps?order=asc&limit=100"))["data"])

    async def act(self, tool: str, what: str) -> None:
        """An effect of the client itself."""
        async with self._session.post(f"{self._at.world}/effects", json={"tool": tool, "what": what}) as response:
            response.raise_for_status()

    async def effects(self, order: str = "") -> list[Json]:
        """What the ledger has: of one order, or of all."""
        query = {"order": order} if order else {}
        async with self._session.get(f"{self._at.world}/effects", params=query) as response:
            return list(await response.json())


@asynccontextmanager
async def client_of(at: Site) -> AsyncIterator[Client]:
    """A client, while in the block."""
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    timeout = aiohttp.ClientTimeout(total=20)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        yield Client(at, session)


def path_of(run: Json) -> str:
    """Where a run is."""
    return f"/threads/{run['thread_id']}/runs/{run['id']}"


def waiting(run: Json) -> dict[str, Json]:
    """The calls that a run waits for, by their ids: the functions."""
    calls = run["required_action"]["submit_tool_outputs"]["tool_calls"]
    return {call["id"]: call["function"] for call in calls}


async def died(process: Process) -> int:
    """The status of a process once it has ended."""
    until = time.monotonic() + 60
    while (status := process.poll()) is None:
        assert time.monotonic() < until, "the process does not end"
        await asyncio.sleep(0.005)
    return status


def again(at: Site, server: Served | None = None) -> float:
    """Kill what is left of the server and start it once more; seconds until it is ready."""
    killed = server or at.server
    killed.kill()
    killed.restart()
    return time.time() - killed.started
