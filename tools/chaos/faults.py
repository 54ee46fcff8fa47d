"""What is around the server goes wrong for a while: its database is locked, its disk is full, PostgreSQL is restarted,
the system's clock is set. Clients work on meanwhile."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import sqlite3
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

import aiohttp

from fakes.postgres import Postgres
from fakes.until import until_async

from .harness import Client, Site, client_of
from .kills import keep_ordering
from .logs import gaps, logs
from .orders import Order, Tally, tally

Fault: TypeAlias = Callable[[Site], AbstractAsyncContextManager[None]]
_EVERY = 0.1  # seconds between two requests of somebody who only looks
_ROOM = 32_768  # bytes that a file may have on a "full" disk
_SMALL = 8_000_000  # bytes of a disk that is filled
_HEALTH = 5.0  # seconds in which `/health` has to be answered, whatever goes on


@dataclass
class Suffered:
    """What came of a fault: its orders; numbers missing in logs; what requests that write were answered, by status, and
    how many of those refused were not told when to come again; the slowest of them, of those that read, and of
    `/health`, in seconds; seconds from the fault's end to the next event of each run under way."""

    tally: Tally = field(default_factory=Tally)
    gaps: int = 0
    answers: Counter[int] = field(default_factory=Counter)
    unclear: int = 0
    slowest: dict[str, float] = field(default_factory=lambda: {"write": 0.0, "read": 0.0, "health": 0.0})
    further: list[float] = field(default_factory=list)

    @property
    def broken(self) -> int:
        """Promises that were not kept."""
        return self.tally.broken + self.gaps + self.unclear + (self.slowest["health"] > _HEALTH)


async def suffer(at: Site, fault: Fault, seconds: float, *, at_once: int = 8, seed: int = 0) -> Suffered:
    """Let `at_once` clients work, have the `fault` for `seconds`, and see what became of all runs."""
    seen, orders, over, dice = Suffered(), list[Order](), asyncio.Event(), random.Random(seed)
    async with client_of(at) as client:
        working = [asyncio.create_task(keep_ordering(client, orders, over, dice)) for _ in range(at_once)]
        await until_async(lambda: _working(client, 0.0, 2 * at_once))
        async with _looking_on(at, seen):
            async with fault(at):
                await asyncio.sleep(seconds)
            ended = time.time()
        await until_async(lambda: _working(client, ended, at_once))
        over.set()
        await asyncio.wait_for(asyncio.gather(*working), 120)
        seen.tally = await tally(client, orders)
    for log in logs(at.db).values():
        before, after = [when for _, when, _ in log if when < ended], [when for _, when, _ in log if when >= ended]
        seen.further += [min(after) - ended] if before and after else []
        seen.gaps += gaps(log)
    return seen


async def _working(client: Client, since: float, least: int) -> bool:
    return len([one for one in await client.effects() if one["at"] > since]) >= least


@asynccontextmanager
async def _looking_on(at: Site, seen: Suffered) -> AsyncIterator[None]:
    """Ask now and then for things that write, that read, and for the server's health, while in the block."""
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {at.server.key}"}) as session:
        asking: set[asyncio.Task[None]] = set()

        async def ask(kind: str, method: str, url: str) -> None:
            began = time.perf_counter()
            async with session.request(method, url, json={} if method == "POST" else None) as response:
                await response.read()
            seen.slowest[kind] = max(seen.slowest[kind], time.perf_counter() - began)
            if kind == "write":
                seen.answers[response.status] += 1
                seen.unclear += response.status >= 500 and "retry-after" not in response.headers

        async def look() -> None:
            while True:
                for kind, method, url in (
                    ("write", "POST", f"{at.server.url}/threads"),
                    ("read", "GET", f"{at.server.url}/assistants"),
                    ("health", "GET", f"{at.server.root}/health"),
                ):
                    asking.add(asyncio.create_task(ask(kind, method, url)))
                await asyncio.sleep(_EVERY)

        looking = asyncio.create_task(look())
        try:
            yield
        finally:
            looking.cancel()
            await asyncio.gather(*asking)


def _file(at: Site) -> Path:
    return Path(at.db.removeprefix("sqlite:///"))


@asynccontextmanager
async def locked(at: Site) -> AsyncIterator[None]:
    """Another process is writing to the database's file, and does not come to an end."""
    other = sqlite3.connect(_file(at), isolation_level=None, timeout=30)
    try:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")
    finally:
        other.close()
    _intact(at)


@asynccontextmanager
async def limited(at: Site) -> AsyncIterator[None]:
    """No file of the server's may grow beyond a few pages: as a full disk is, without being anybody special."""
    pid = at.server.process.pid
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (_ROOM, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
    _intact(at)


@asynccontextmanager
async def full(at: Site) -> AsyncIterator[None]:
    """The disk is full, to its last byte."""
    filling = _file(at).with_name("filling")
    with filling.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    yield
    filling.unlink()
    _intact(at)


@contextmanager
def small_disk() -> Iterator[str]:
    """The URL of a database on a small disk of its own, while in the block; only root can make one."""
    folder = Path(tempfile.mkdtemp(prefix="disk"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_SMALL}", "tmpfs", str(folder)], check=True)
    try:
        yield f"sqlite:///{folder}/runs.db"
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        folder.rmdir()


def restarted(server: Postgres) -> Fault:
    """PostgreSQL dies and is started again, all the time."""

    @asynccontextmanager
    async def fault(_: Site) -> AsyncIterator[None]:
        await asyncio.to_thread(server.restart)
        yield
        await asyncio.to_thread(server.restart)

    return fault


def set_clock(file: Path, by: int) -> Fault:
    """The server's clock, which is what `faked_clock` made it by this file, is set by some seconds, and back."""

    @asynccontextmanager
    async def fault(_: Site) -> AsyncIterator[None]:
        _set(file, by)
        yield
        _set(file, 0)

    return fault


def _set(file: Path, by: int) -> None:
    file.write_text(f"{by:+d}")


def faked_clock(file: Path) -> dict[str, str]:
    """The environment of a process whose clock is ahead of the system's by what `file` says."""
    spec = find_spec("libfaketime")
    assert spec is not None
    assert spec.origin is not None
    library = Path(spec.origin).parent / "vendor" / "libfaketime" / "src" / "libfaketime.so.1"
    _set(file, 0)
    settings = {"FAKETIME_TIMESTAMP_FILE": str(file), "FAKETIME_NO_CACHE": "1", "DONT_FAKE_MONOTONIC": "1"}
    settings["FAKETIME_FORCE_MONOTONIC_FIX"] = "0"  # else threads wait for each other too long
    return {"LD_PRELOAD": str(library), **settings}


def _intact(at: Site) -> None:
    with sqlite3.connect(_file(at)) as connection:
        (said,) = connection.execute("PRAGMA integrity_check").fetchone()
    connection.close()
    assert said == "ok", said


def is_root() -> bool:
    """Whether this process may make disks."""
    return os.geteuid() == 0
