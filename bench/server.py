"""A completions server that costs next to nothing: it answers every request with the next step of a run.

`python -m bench.server` prints its port. Each answer calls the tool `note` with another input; the
closing question ("Final Answer:" at the prompt's end) is answered with "done".
"""

from __future__ import annotations

import asyncio
import itertools
import json

_count = itertools.count()


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
            body = await reader.readexactly(length)
            closing = body.endswith(b'Final Answer:"}')
            text = " done" if closing else f" I note it.\nAction: note\nAction Input: fact {next(_count)}\n"
            writer.write(_answer(text))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def _answer(text: str) -> bytes:
    chunk = {"choices": [{"text": text, "index": 0, "finish_reason": "stop"}]}
    usage = {"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 10}}
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in (chunk, usage)) + "data: [DONE]\n\n"
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n"
    return (head + body).encode()


async def main() -> None:
    """Serve until killed."""
    server = await asyncio.start_server(_serve, "127.0.0.1", 0, limit=1 << 24)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
