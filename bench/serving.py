"""A real `retinue serve` to be measured: its model is a script of 50 ms a reply; it is looked at from outside."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

DELAY = 0.05  # seconds that the model takes for a reply
KEY = "sk-of-the-measurement"
_TOOLS = '''
async def note(fact: str) -> str:
    """Note a fact."""
    return f"{fact} is noted, and here is a sentence of some length that a tool might give back."
'''
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def agents(steps: int) -> str:
    """A file with an agent that notes things and then answers, in `steps` steps, and waits for a person if it is asked
    to sign."""
    script: list[dict[str, Any]] = [{"when": "Please sign", "call": {"tool": "sign", "input": {"fact": "this"}}}]
    for step in range(1, steps):
        before = f"fact {step - 1} is" if step > 1 else "Please work"
        script.append({"when": before, "call": {"tool": "note", "input": {"fact": f"fact {step}"}}, "delay": DELAY})
    script.append({"when": f"fact {steps - 1} is", "say": "All is noted.", "delay": DELAY})
    note = {"callable_api": "tools.py:note", "effects": "read", "args_schema": {"fact": {"type": "str"}}}
    tools = {"note": {"description": "Notes.", **note}, "sign": {"description": "Signs.", **note}}
    params: dict[str, Any] = {"model": "scripted", "strategy": "tool_calling", "tools": list(tools), "script": script}
    params |= {"require_human_feedback": ["sign"], "max_iterations": steps + 1}
    return json.dumps({"tools": tools, "agents": [{"name": "worker", "params": params}]})


class Looks(NamedTuple):
    """A process as the system sees it: seconds of CPU, bytes in memory, open files, threads."""

    cpu: float
    rss: int
    files: int
    threads: int


class Server:
    """The server: its process, its API's address, its database's file, and how many seconds its start took."""

    def __init__(self, process: subprocess.Popen[str], url: str, db: Path, start: float) -> None:
        self.url = url
        self.start = start
        self._process = process
        self.db = db

    def look(self) -> Looks:
        """The process now."""
        proc = Path(f"/proc/{self._process.pid}")
        fields = (proc / "stat").read_text().rpartition(")")[2].split()
        resident = int((proc / "statm").read_text().split()[1]) * _PAGE
        files = len(list((proc / "fd").iterdir()))
        return Looks((int(fields[11]) + int(fields[12])) / _TICKS, resident, files, int(fields[17]))

    def bytes_kept(self) -> int:
        """Bytes of the database, without free pages."""
        with sqlite3.connect(self.db, timeout=30) as connection:
            pages, free, size = (
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
        connection.close()
        return int((pages - free) * size)


@contextmanager
def served(steps: int, *args: str, fill: Callable[[Path], None] = lambda db: None) -> Iterator[Server]:
    """The server, while in the block, with an agent `worker` of so many `steps`, on a database that `fill` made."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tools.py").write_text(_TOOLS, "utf-8")
        (folder / "agents.yml").write_text(agents(steps), "utf-8")
        fill(folder / "runs.db")
        words = ["serve", str(folder / "agents.yml"), "--port", "0", "--db", str(folder / "runs.db"), "--api-key", KEY]
        began = time.perf_counter()
        process = subprocess.Popen([sys.executable, "-m", "retinue", *words, *args], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            url = f"{process.stdout.readline().split()[-1]}/v1"
            yield Server(process, url, folder / "runs.db", time.perf_counter() - began)
        finally:
            process.terminate()
            process.communicate(timeout=60)


class Client:
    """Who starts runs; the cheapest that there is, for it shares the machine with the server."""

    def __init__(self, server: Server, session: aiohttp.ClientSession) -> None:
        self._session = session
        self._url = server.url
        self._assistant = ""
        self.poll_after = 0.25  # seconds, as the server said last

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """An answer's JSON."""
        async with self._session.request(method, f"{self._url}{path}", json=body) as response:
            response.raise_for_status()
            self.poll_after = int(response.headers.get("openai-poll-after-ms", 250)) / 1_000
            return await response.json()

    async def start(self, question: str, **more: Any) -> Any:
        """A new run on a new thread."""
        return await self.ask("POST", "/threads/runs", await self._body(question, more))

    async def stream(self, question: str) -> float:
        """Start a run and read its stream to the end; the seconds that takes."""
        body = await self._body(question, {"stream": True})
        began = time.perf_counter()
        async with self._session.post(f"{self._url}/threads/runs", json=body) as response:
            said = await response.read()
        assert b"event: thread.run.completed" in said, said[-500:]
        return time.perf_counter() - began

    async def _body(self, question: str, more: dict[str, Any]) -> dict[str, Any]:
        self._assistant = self._assistant or (await self.ask("POST", "/assistants", {"model": "worker"}))["id"]
        return {
            "assistant_id": self._assistant,
            "thread": {"messages": [{"role": "user", "content": question}]},
            **more,
        }


def session() -> aiohttp.ClientSession:
    """What clients share."""
    headers = {"Authorization": f"Bearer {KEY}"}
    timeout = aiohttp.ClientTimeout(total=300)
    return aiohttp.ClientSession(headers=headers, timeout=timeout, connector=aiohttp.TCPConnector(limit=0))
