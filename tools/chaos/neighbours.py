"""One tenant sends the worst it can think of; another one, beside it, is answered and served as ever.

python -m chaos.neighbours ADDRESS KEY SECONDS     (the first of them, in a process of its own)
"""

from __future__ import annotations

import asyncio
import json
import secrets
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from fakes.served import Served, serving
from fakes.until import until_async
from retinue.store.api_keys import create_key
from retinue.store.database import Database

from .attacks import AGENTS, ATTACKS, HELLO, json_of, stored

CHAT, INDEXED = 0.5, 5.0  # seconds: the 99th of 100 chat completions, and any small file until it can be found
_EVERY, _FILE = 0.1, 3.0  # seconds between two of the other's completions, and of its files


@dataclass
class Beside:
    """What the other tenant had of it: seconds of completions and until files were found, answers that were none; and
    how often what was sent beside it."""

    chats: list[float] = field(default_factory=list)
    files: list[float] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    sent: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def slow_chat(self) -> float:
        """Of a hundred completions, how long the 99th took."""
        return sorted(self.chats)[int(0.99 * (len(self.chats) - 1))]

    def problems(self, chat: float = CHAT, indexed: float = INDEXED) -> list[str]:
        """What should not be."""
        found = {
            f"a chat completion took {self.slow_chat:.2f} s": self.slow_chat > chat,
            f"a small file took {max(self.files):.1f} s": max(self.files) > indexed,
            f"{dict(self.refused)}": self.refused,
            f"nothing was sent: {self.sent}": not all(self.sent.values()) or len(self.sent) != len(ATTACKS),
        }
        return [text for text, wrong in found.items() if wrong]


def beside(seconds: float) -> Beside:
    """What one tenant has while another one sends all of `ATTACKS`, for `seconds`."""
    with tempfile.TemporaryDirectory(prefix="chaos") as folder:
        keys = _keys(Path(folder) / "runs.db", "worst", "other")
        with serving(Path(folder), AGENTS) as server:
            return asyncio.run(_beside(server, keys, seconds))


def _keys(db: Path, *tenants: str) -> list[str]:
    database = Database(f"sqlite:///{db}")
    try:
        with database.engine.begin() as connection:
            return [create_key(connection, tenant) for tenant in tenants]
    finally:
        database.close()


async def _beside(server: Served, keys: Sequence[str], seconds: float) -> Beside:
    seen, (worst, other) = Beside(), keys
    async with _session(server.root, other) as session:
        await _found(session, b"Hello there.", [])  # what is loaded with the first file
        command = [sys.executable, "-m", "chaos.neighbours", server.root, worst, str(seconds)]
        process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        until = time.monotonic() + seconds
        await asyncio.gather(_chat(session, until, seen), _index(session, until, seen))
        async with asyncio.timeout(120):
            said, _ = await process.communicate()
    seen.sent = json.loads(said)
    return seen


def _session(root: str, key: str) -> aiohttp.ClientSession:
    timeout = aiohttp.ClientTimeout(total=90)
    headers = {"Authorization": f"Bearer {key}"}
    return aiohttp.ClientSession(root, headers=headers, timeout=timeout, connector=aiohttp.TCPConnector(limit=0))


async def _chat(session: aiohttp.ClientSession, until: float, seen: Beside) -> None:
    while time.monotonic() < until:
        began = time.perf_counter()
        async with session.post("/v1/chat/completions", json=HELLO) as said:
            await said.read()
        seen.chats.append(time.perf_counter() - began)
        seen.refused += Counter([f"chat {said.status}"] if said.status != 200 else [])
        await asyncio.sleep(_EVERY)


async def _index(session: aiohttp.ClientSession, until: float, seen: Beside) -> None:
    while time.monotonic() < until:
        try:
            await _found(session, f"Hello {secrets.token_hex(4)}.".encode(), seen.files)
        except aiohttp.ClientResponseError as error:
            seen.refused[f"file {error.status}"] += 1
        await asyncio.sleep(_FILE)


async def _found(session: aiohttp.ClientSession, text: bytes, seconds: list[float]) -> None:
    began = time.perf_counter()
    store = await stored(session, {"small.txt": text})

    async def there() -> bool:
        counts = (await json_of(session, "GET", f"/v1/vector_stores/{store}"))["file_counts"]
        return bool(counts["completed"] == 1)

    await until_async(there, 120)
    seconds.append(time.perf_counter() - began)


async def _attack(root: str, key: str, seconds: float) -> dict[str, dict[str, int]]:
    """Send all at once, two of each; how often each was answered what."""
    sent: dict[str, Counter[str]] = {name: Counter() for name in ATTACKS}

    async def send(name: str, session: aiohttp.ClientSession) -> None:
        async for status in ATTACKS[name](session):
            sent[name][str(status)] += 1

    async with _session(root, key) as session:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                work: list[Awaitable[None]] = [send(name, session) for name in ATTACKS for _ in range(2)]
                await asyncio.gather(*work)
    return {name: dict(counts) for name, counts in sent.items()}


if __name__ == "__main__":
    _root, _key, _seconds = sys.argv[1:]
    sys.stdout.write(json.dumps(asyncio.run(_attack(_root, _key, float(_seconds)))))
