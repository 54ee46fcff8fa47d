"""One tenant sends the worst it can think of; another one, beside it, is answered and served as ever.

python -m chaos.neighbours ADDRESS KEY SECONDS     (the first of them, in a process of its own)
"""

from __future__ import annotations

import asyncio
import io
import json
import secrets
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count, cycle
from pathlib import Path
from typing import Any

import aiohttp

from fakes.served import Served, serving
from fakes.until import until_async
from retinue.store.api_keys import create_key
from retinue.store.database import Database

CHAT, INDEXED = 0.5, 5.0  # seconds: the 99th of 100 chat completions, and any small file until it can be found
_EVERY, _FILE = 0.1, 3.0  # seconds between two of the other's completions, and of its files
_AGENTS = f"""
agents:
  - name: long
    params: {{model: scripted, strategy: tool_calling, script: [{{say: '"{"a" * 50}!"'}}]}}
  - name: short
    params: {{model: scripted, strategy: tool_calling, script: [{{say: Hello.}}]}}
"""
_HELLO = {"model": "short", "messages": [{"role": "user", "content": "Hi"}]}
Attack = Callable[[aiohttp.ClientSession], AsyncIterator[int]]


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
        with serving(Path(folder), _AGENTS) as server:
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
        async with session.post("/v1/chat/completions", json=_HELLO) as said:
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
    store = await _stored(session, {"small.txt": text})

    async def there() -> bool:
        counts = (await _json(session, "GET", f"/v1/vector_stores/{store}"))["file_counts"]
        return bool(counts["completed"] == 1)

    await until_async(there, 120)
    seconds.append(time.perf_counter() - began)


async def _stored(session: aiohttp.ClientSession, texts: dict[str, bytes]) -> str:
    """A vector store with these files; its id."""
    ids = [(await _upload(session, name, text))["id"] for name, text in texts.items()]
    return str((await _json(session, "POST", "/v1/vector_stores", {"file_ids": ids}))["id"])


async def _upload(session: aiohttp.ClientSession, name: str, text: bytes) -> Any:
    form = aiohttp.FormData({"purpose": "assistants"})
    form.add_field("file", io.BytesIO(text), filename=name, content_type="application/octet-stream")
    async with session.post("/v1/files", data=form, raise_for_status=True) as said:
        return await said.json()


async def _json(session: aiohttp.ClientSession, method: str, path: str, given: Any = None) -> Any:
    async with session.request(method, path, json=given, raise_for_status=True) as said:
        return await said.json()


# ── the worst ────────────────────────────────────────────────────────────────────────────────────


async def _bombs(session: aiohttp.ClientSession) -> AsyncIterator[int]:
    """Files that take their parsers minutes, one more each second."""
    names = {f"{number}.html": b"<html><body>" + b"<div>" * 400_000 for number in range(6)}
    texts = {"a.md": (b"# a" + b" " * 100_000 + b"x\n") * 100, "b.txt": b"\n" * 5_000_000}
    store = await _stored(session, {**names, **texts, "c.pdf": b"%PDF-1.7\n" + b"1 0 obj<<" * 1_000_000})
    yield 200
    while True:
        await asyncio.sleep(1)
        file = await _upload(session, "more.html", b"<div>" * 20_000)
        yield await _sent(session, f"/v1/vector_stores/{store}/files", {"file_id": file["id"]})


_SCHEMAS: Sequence[dict[str, Any]] = (
    {"type": "string", "pattern": "^(a+)+$"},
    {"type": "string", "pattern": r"^(\w{1,100}){1,9}$"},
    {
        "$ref": "#/$defs/d0",
        "$defs": {
            **{f"d{at}": {"anyOf": [{"$ref": f"#/$defs/d{at + 1}"}] * 2} for at in range(30)},
            "d30": {"type": "integer"},
        },
    },
    {
        "$ref": "#/$defs/d0",
        "$defs": {
            f"d{at}": {"properties": {f"p{of}": {"$ref": f"#/$defs/d{(at + 1) % 20}"} for of in range(40)}}
            for at in range(20)
        },
    },
    {"properties": {f"p{at}": {"type": "string", "enum": ["x"]} for at in range(450)}},
)


async def _schemas(session: aiohttp.ClientSession) -> AsyncIterator[int]:
    """Schemas that take for ever, each a little different from those before."""
    for number in count():
        for schema in _SCHEMAS:
            other = {**schema, "title": str(number)}
            shape = {"type": "json_schema", "json_schema": {"name": "x", "schema": other}}
            yield await _sent(session, "/v1/chat/completions", {**_HELLO, "model": "long", "response_format": shape})


_BODIES = (
    b"[" + b"{}," * 1_300_000 + b"{}]",
    b'{"model":"short","messages":[{"role":"user","content":"' + b"a,{[:" * 780_000 + b'"}]}',
    b'{"model":"short","messages":[' + b'{"role":5,"content":5},' * 160_000 + b"1]}",
    b'{"model":"short","messages":[' + b'{"role":5,"content":5},' * 12_000 + b"1]}",
    b'{"model":"short","messages":[' + b'{"role":"user","content":"a"},' * 7_000 + b'{"role":"user","content":"a"}]}',
    b"{" + b",".join(b'"%d":1' % number for number in range(400_000)) + b"}",
    b"\n" * 3_900_000,
)


async def _bodies(session: aiohttp.ClientSession) -> AsyncIterator[int]:
    """Bodies as large as may be, and with as much in them."""
    headers = {"Content-Type": "application/json"}
    while True:
        for body in _BODIES:
            async with session.post("/v1/chat/completions", data=io.BytesIO(body), headers=headers) as said:
                await said.read()
            yield said.status


async def _references(session: aiohttp.ClientSession) -> AsyncIterator[int]:
    """A hundred references to twenty responses, again and again, and lists of what fits nowhere."""
    ids = []
    for _ in range(20):
        made = await _json(session, "POST", "/v1/responses", {"model": "short", "input": "x" * 50_000})
        ids.append(made["output"][0]["id"])
        await _json(session, "POST", "/v1/chat/completions", {**_HELLO, "store": True})
    given = {"model": "short", "input": [{"type": "item_reference", "id": one} for one in ids * 5]}
    while True:
        yield await _sent(session, "/v1/responses", given)
        async with session.get("/v1/chat/completions", params={"metadata[none]": "such", "limit": "100"}) as said:
            await said.read()
        yield said.status


async def _named_files(session: aiohttp.ClientSession) -> AsyncIterator[int]:
    """Small requests that name large files, more than are remembered."""
    texts = [f"{number} ".encode() + b'a,{[:"Action: x\n' * 15_600 for number in range(40)]
    files = [(await _upload(session, "a.txt", text))["id"] for text in texts]
    for begin in cycle(range(0, 40, 4)):
        four = files[begin : begin + 4]
        chat = [{"type": "file", "file": {"file_id": one}} for one in four]
        parts = [{"type": "input_file", "file_id": one} for one in four]
        yield await _sent(session, "/v1/chat/completions", {**_HELLO, "messages": [{"role": "user", "content": chat}]})
        yield await _sent(session, "/v1/responses", {"model": "short", "input": [{"role": "user", "content": parts}]})


async def _uploads(session: aiohttp.ClientSession) -> AsyncIterator[int]:
    """Files as large as may be."""
    while True:
        await _upload(session, "a.bin", b"\0" * 19_900_000)
        yield 200


async def _wrong_keys(session: aiohttp.ClientSession) -> AsyncIterator[int]:
    """Keys that are none, fifty at a time."""

    async def ask() -> int:
        headers = {"Authorization": f"Bearer sk-{secrets.token_urlsafe(32)}"}
        async with session.get("/v1/models", headers=headers) as said:
            await said.read()
        return said.status

    while True:
        for status in await asyncio.gather(*(ask() for _ in range(50))):
            yield status
        await asyncio.sleep(0.1)


ATTACKS: dict[str, Attack] = {
    "files": _bombs,
    "schemas": _schemas,
    "bodies": _bodies,
    "references": _references,
    "named files": _named_files,
    "uploads": _uploads,
    "wrong keys": _wrong_keys,
}


async def _sent(session: aiohttp.ClientSession, path: str, given: Any) -> int:
    async with session.post(path, json=given) as said:
        await said.read()
    return said.status


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
