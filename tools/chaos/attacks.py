"""The worst that a tenant can think of, each as an endless series of requests that yields the answers' statuses."""

from __future__ import annotations

import asyncio
import io
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import count, cycle
from typing import Any

import aiohttp

from fakes.pictures import data_url, png

_SAID = "model: scripted, strategy: tool_calling, script: [{say: Hello.}]"
AGENTS = f"""
components:
  - {{name: eye, type: PromptModel, params: {{engine: scripted, sees: true, script: [{{say: Red.}}]}}}}
  - {{name: turns, type: ConversationMemory, params: {{window: 1000}}}}
agents:
  - name: long
    params: {{model: scripted, strategy: tool_calling, script: [{{say: '"{"a" * 50}!"'}}]}}
  - {{name: short, params: {{{_SAID}}}}}
  - {{name: seeing, params: {{model: eye, strategy: tool_calling}}}}
  - {{name: knowing, params: {{{_SAID}, memory: turns}}}}
  - {{name: open, params: {{{_SAID}, registered_tools: true}}}}
  - {{name: worker, params: {{{_SAID}}}}}
  - name: boss
    params:
      model: scripted
      strategy: tool_calling
      workers: [worker]
      script:
        - {{when: Hi, call: [{", ".join(f"{{tool: worker, input: {{query: '{at}'}}}}" for at in range(8))}]}}
        - {{say: Enough.}}
"""
HELLO = {"model": "short", "messages": [{"role": "user", "content": "Hi"}]}
Attack = Callable[[aiohttp.ClientSession], AsyncIterator[int]]


async def stored(session: aiohttp.ClientSession, texts: dict[str, bytes]) -> str:
    """A vector store with these files; its id."""
    ids = [(await _upload(session, name, text))["id"] for name, text in texts.items()]
    return str((await json_of(session, "POST", "/v1/vector_stores", {"file_ids": ids}))["id"])


async def _upload(session: aiohttp.ClientSession, name: str, text: bytes) -> Any:
    form = aiohttp.FormData({"purpose": "assistants"})
    form.add_field("file", io.BytesIO(text), filename=name, content_type="application/octet-stream")
    async with session.post("/v1/files", data=form, raise_for_status=True) as said:
        return await said.json()


async def json_of(session: aiohttp.ClientSession, method: str, path: str, given: Any = None) -> Any:
    async with session.request(method, path, json=given, raise_for_status=True) as said:
        return await said.json()


async def _bombs(session: aiohttp.ClientSession) -> AsyncIterator[int]:
    """Files that take their parsers minutes, one more each second."""
    names = {f"{number}.html": b"<html><body>" + b"<div>" * 400_000 for number in range(6)}
    texts = {"a.md": (b"# a" + b" " * 100_000 + b"x\n") * 100, "b.txt": b"\n" * 5_000_000}
    store = await stored(session, {**names, **texts, "c.pdf": b"%PDF-1.7\n" + b"1 0 obj<<" * 1_000_000})
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
            yield await _sent(session, "/v1/chat/completions", {**HELLO, "model": "long", "response_format": shape})


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
    long = {"model": "short", "input": "x" * 50_000}
    made = await asyncio.gather(*(json_of(session, "POST", "/v1/responses", long) for _ in range(20)))
    ids = [one["output"][0]["id"] for one in made]
    await asyncio.gather(
        *(json_of(session, "POST", "/v1/chat/completions", {**HELLO, "store": True}) for _ in range(20))
    )
    given = {"model": "short", "input": [{"type": "item_reference", "id": one} for one in ids * 5]}
    while True:
        yield await _sent(session, "/v1/responses", given)
        async with session.get("/v1/chat/completions", params={"metadata[none]": "such", "limit": "100"}) as said:
            await said.read()
        yield said.status


async def _named_files(session: aiohttp.ClientSession) -> AsyncIterator[int]:
    """Small requests that name large files, more than are remembered."""
    texts = [f"{number} ".encode() + b'a,{[:"Action: x\n' * 15_600 for number in range(40)]
    made = await asyncio.gather(*(_upload(session, "a.txt", text) for text in texts))
    files = [one["id"] for one in made]
    for begin in cycle(range(0, 40, 4)):
        four = files[begin : begin + 4]
        chat = [{"type": "file", "file": {"file_id": one}} for one in four]
        parts = [{"type": "input_file", "file_id": one} for one in four]
        yield await _sent(session, "/v1/chat/completions", {**HELLO, "messages": [{"role": "user", "content": chat}]})
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


_NOISE = 3_000_000  # bytes of an image beside its picture


async def _images(session: aiohttp.ClientSession) -> AsyncIterator[int]:
    """Images as large as a body may be, each another one, in chats and on threads."""
    assistant = (await json_of(session, "POST", "/v1/assistants", {"model": "seeing"}))["id"]
    while True:
        part = {"type": "image_url", "image_url": {"url": data_url(png() + secrets.token_bytes(_NOISE - 150_000))}}
        message = {"role": "user", "content": [{"type": "text", "text": "What is it?"}, part]}
        yield await _sent(session, "/v1/chat/completions", {"model": "seeing", "messages": [message]})
        form = {"file": io.BytesIO(png() + secrets.token_bytes(_NOISE)), "purpose": "vision"}
        async with session.post("/v1/files", data=form, raise_for_status=True) as said:
            file = (await said.json())["id"]
        shown = [{"type": "image_file", "image_file": {"file_id": file}}]
        thread = {"messages": [{"role": "user", "content": shown}]}
        yield await _sent(session, "/v1/threads/runs", {"assistant_id": assistant, "thread": thread, "stream": True})


async def _memories(session: aiohttp.ClientSession) -> AsyncIterator[int]:
    """Users without number, and one of whom as much is remembered as may be."""
    for number in count():
        for user in ("always", secrets.token_hex(4)):
            asked = {"role": "user", "content": f"{number} " + "\u00e4" * 6_000}
            yield await _sent(session, "/v1/chat/completions", {"model": "knowing", "messages": [asked], "user": user})
        if number % 10 == 0:
            async with session.get("/v1/memories", params={"limit": "100"}) as said:
                await said.read()
            yield said.status


async def _tools(session: aiohttp.ClientSession) -> AsyncIterator[int]:
    """As many registered tools as may be, with schemas as large as may be, and runs that have them all."""
    properties = {f"p{at}": {"type": "string", "pattern": "^(a?){20}$", "enum": ["a"] * 20} for at in range(250)}
    schema = {"type": "object", "properties": properties}
    given = {"type": "http", "url": "https://93.184.216.34/x", "description": "x", "parameters": schema}
    for number in count():
        name = f"t{secrets.token_hex(8)}"
        yield await _sent(session, "/v1/tools", {**given, "name": name})
        yield await _sent(session, "/v1/chat/completions", {**HELLO, "model": "open"})
        if number % 70 == 69:
            for tool in (await json_of(session, "GET", "/v1/tools?limit=100"))["data"]:
                await json_of(session, "DELETE", f"/v1/tools/{tool['id']}")


async def _tasks(session: aiohttp.ClientSession) -> AsyncIterator[int]:
    """Tasks of A2A, long ones, five at a time, and lists of them."""
    while True:
        parts = [{"text": "a,{[:" * 10_000}] * 10

        async def send(method: str, params: Any) -> int:
            asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            async with session.post("/a2a/short", json=asked, headers={"A2A-Version": "1.0"}) as said:
                await said.read()
            return said.status

        messages = [{"messageId": secrets.token_hex(8), "role": "ROLE_USER", "parts": parts} for _ in range(5)]
        for status in await asyncio.gather(*(send("SendMessage", {"message": one}) for one in messages)):
            yield status
        yield await send("ListTasks", {"pageSize": 100, "includeArtifacts": True, "historyLength": 100})


async def _teams(session: aiohttp.ClientSession) -> AsyncIterator[int]:
    """Runs of a team, each of which calls its worker eight times at once, three at a time."""
    asked = {"model": "boss", "messages": [{"role": "user", "content": "Hi"}]}
    while True:
        for status in await asyncio.gather(*(_sent(session, "/v1/chat/completions", asked) for _ in range(3))):
            yield status


ATTACKS: dict[str, Attack] = {
    "files": _bombs,
    "schemas": _schemas,
    "bodies": _bodies,
    "references": _references,
    "named files": _named_files,
    "uploads": _uploads,
    "wrong keys": _wrong_keys,
    "images": _images,
    "memories": _memories,
    "tools": _tools,
    "tasks": _tasks,
    "teams": _teams,
}


async def _sent(session: aiohttp.ClientSession, path: str, given: Any) -> int:
    async with session.post(path, json=given) as said:
        await said.read()
    return said.status
