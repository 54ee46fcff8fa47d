"""More requests than a server's limits allow: what is accepted is done, the rest is told when to come again."""

from __future__ import annotations

import asyncio
import http.client
import sqlite3
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from fakes.served import Served, serving

LIMITS = {
    "100 requests a minute": ("--limit-requests", "100/min"),
    "50 runs under way and 50 that wait": ("--limit-runs", "50", "--limit-queue", "50"),
}
_AGENT = """
agents:
  - name: worker
    params: {model: scripted, strategy: tool_calling, script: [{say: Done., delay: DELAY}]}
"""
_QUESTION = {"messages": [{"role": "user", "content": "Work"}]}
_LONGEST = 0.25  # seconds that the 99th of 100 answers of /health may take


@dataclass
class Overloaded:
    """What came of it: how often each status was answered, 429 without saying when to come again (`untold`), the runs
    that ended and those that were made at all, and the seconds that /health took."""

    statuses: Counter[int] = field(default_factory=Counter)
    untold: int = 0
    completed: int = 0
    made: int = 0
    health: list[float] = field(default_factory=list)

    @property
    def others(self) -> int:
        """Answers that are neither."""
        return self.statuses.total() - self.statuses[200] - self.statuses[429]

    def problems(self, longest: float = _LONGEST) -> list[str]:
        """What should not be."""
        slow = sorted(self.health)[int(0.99 * (len(self.health) - 1))]
        found = {
            f"{self.untold} refusals do not say when to come again": self.untold,
            f"{self.statuses}": self.others,
            f"{self.statuses[200]} accepted, {self.completed} completed, {self.made} made": (
                not self.statuses[200] == self.completed == self.made
            ),
            f"/health took {slow:.3f} s": slow > longest,
        }
        return [text for text, wrong in found.items() if wrong]


def overload(requests: int, seconds: float, *, limits: Sequence[str], delay: float = 0.05) -> Overloaded:
    """Ask for `requests` runs, evenly over `seconds`, whatever is answered; each run takes `delay` seconds."""
    seen = Overloaded()
    with (
        tempfile.TemporaryDirectory(prefix="chaos") as folder,
        serving(Path(folder), _AGENT.replace("DELAY", str(delay)), args=["--connections", "10000", *limits]) as server,
    ):
        with _health(server, seen.health):
            asyncio.run(_ask(server, requests, seconds, seen))
        until = time.monotonic() + 60
        while (counts := _runs(server)).keys() - {"completed"} and time.monotonic() < until:
            time.sleep(0.05)
    seen.completed, seen.made = counts["completed"], counts.total()
    return seen


async def _ask(server: Served, requests: int, seconds: float, seen: Overloaded) -> None:
    headers = {"Authorization": f"Bearer {server.key}"}
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(server.root, headers=headers, connector=connector) as session:
        async with session.post("/v1/assistants", json={"model": "worker"}) as response:
            assistant = (await response.json())["id"]
        body = {"assistant_id": assistant, "thread": _QUESTION}
        began = time.monotonic()
        asked = []
        for number in range(requests):
            await asyncio.sleep(began + number * seconds / requests - time.monotonic())
            asked.append(asyncio.create_task(_one(session, body, seen)))
        await asyncio.gather(*asked)


async def _one(session: aiohttp.ClientSession, body: Any, seen: Overloaded) -> None:
    async with session.post("/v1/threads/runs", json=body) as response:
        await response.read()
    seen.statuses[response.status] += 1
    seen.untold += response.status == 429 and not response.headers.get("Retry-After", "").isdigit()


@contextmanager
def _health(server: Served, seconds: list[float]) -> Iterator[None]:
    """Ask for /health, again and again, and note how long it took."""
    where, over = urlsplit(server.root), threading.Event()

    def ask() -> None:
        with closing(http.client.HTTPConnection(str(where.hostname), where.port, timeout=30)) as connection:
            while not over.wait(0.02):
                began = time.perf_counter()
                connection.request("GET", "/health")
                connection.getresponse().read()
                seconds.append(time.perf_counter() - began)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield
    finally:
        over.set()
        asking.join()


def _runs(server: Served) -> Counter[str]:
    """How many runs there are of each status."""
    with closing(sqlite3.connect(server.db, timeout=30)) as connection:
        return Counter(dict(connection.execute("SELECT status, count(*) FROM runs GROUP BY status").fetchall()))
