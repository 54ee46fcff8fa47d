"""Server-sent events: one line of JSON each, so that no data can pass for an event; and whether their reader left."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from fastapi import Request
from fastapi.responses import StreamingResponse

_EVENT = {
    "type": "object",
    "properties": {"event": {"type": "string"}, "data": {"type": "string"}},
    "required": ["data"],
}
STREAMED: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {"schema": _EVENT}}}}
"""The OpenAPI `responses` of a route that can stream."""
DONE = "data: [DONE]\n\n"
RETRY = "retry: 1000\n"  # milliseconds; sent with the first event, since some clients end an event at each empty line
_PING = ": ping\n"  # sent with an event, as above
_AHEAD = 64  # events read ahead of the client
_QUIET = 15.0  # seconds of silence before a ping


def frame(data: Any, name: str = "", number: int = 0) -> str:
    """Format one event; its `number` is the id by which a client resumes the stream."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    text = text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").replace("\x85", "\\u0085")
    said = f"event: {name}\ndata: {text}\n\n" if name else f"data: {text}\n\n"
    return f"id: {number}\n{said}" if number else said


def event_stream(frames: AsyncIterator[str]) -> StreamingResponse:
    """Return a response that streams `frames`, with pings during silence."""
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return StreamingResponse(_alive(frames), media_type="text/event-stream", headers=headers)


async def _alive(frames: AsyncIterator[str]) -> AsyncIterator[bytes]:
    """Read events ahead of the client. Events that are ready together are sent together, since each send costs as much
    as many events."""
    queue: asyncio.Queue[str | Exception | None] = asyncio.Queue(_AHEAD)

    async def read() -> None:
        try:
            async for text in frames:
                await queue.put(text)
            await queue.put(None)
        except Exception as error:
            await queue.put(error)

    reading = asyncio.create_task(read())
    last: str | Exception | None = ""
    try:
        while isinstance(last, str):
            *texts, last = await _take(queue)
            if text := "".join([*texts, last] if isinstance(last, str) else texts):
                yield text.encode("utf-8", "replace")
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        if isinstance(frames, AsyncGenerator):
            await frames.aclose()
    if last is not None:
        raise last


async def _take(queue: asyncio.Queue[str | Exception | None]) -> list[Any]:
    """Return what is ready, at least one item; a ping after a period of silence."""
    try:
        async with asyncio.timeout(_QUIET):
            ready = [await queue.get()]
    except TimeoutError:
        return [_PING]
    while not queue.empty():
        ready.append(queue.get_nowait())
    return ready


async def wait_for_disconnect(request: Request) -> None:
    """Wait until the client has disconnected."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
