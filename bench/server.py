"""A model's server that costs next to nothing: it answers every request with the next step of a run.

`python -m bench.server` prints its port; with a number, each answer takes so many seconds. As completions and as chat
alike, each answer calls the tool `note` with another input, and the closing question is answered with "done".
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from typing import Any

_count = itertools.count()
_TRIED = b'"name": "add"'  # Retinue tries native tool calls out before it relies on them


async def _serve(delay: float, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
            body = await reader.readexactly(length)
            if delay and _TRIED not in body:
                await asyncio.sleep(delay)
            writer.write(_answer(_chat(body) if b"/chat/" in head[:40] else _completion(body)))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def _completion(body: bytes) -> dict[str, Any]:
    closing = body.endswith(b'Final Answer:"}')
    return {"text": " done" if closing else f" I note it.\nAction: note\nAction Input: fact {next(_count)}\n"}


def _chat(body: bytes) -> dict[str, Any]:
    if b'"tool_choice": "none"' in body:
        return {"delta": {"role": "assistant", "content": "done"}}
    number = next(_count)
    name, given = "note", {"fact": f"fact {number}"}
    if _TRIED in body:
        name, given = "add", {"a": 19, "b": 23}  # type: ignore[dict-item]
    call = {"index": 0, "id": f"call_{number}", "type": "function"}
    return {"delta": {"tool_calls": [{**call, "function": {"name": name, "arguments": json.dumps(given)}}]}}


def _answer(said: dict[str, Any]) -> bytes:
    chunk = {"choices": [{**said, "index": 0, "finish_reason": "stop"}]}
    usage = {"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 10}}
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in (chunk, usage)) + "data: [DONE]\n\n"
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n"
    return (head + body).encode()


async def main(delay: float) -> None:
    """Serve until killed."""

    def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Any:
        return _serve(delay, reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 24, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]) if len(sys.argv) > 1 else 0.0))
