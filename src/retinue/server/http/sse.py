"""Server-sent events: one line of JSON each, so that no data can pass for an event.

Detects clients that disconnect while they are being answered.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
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
_AHEAD = 16_384  # characters read ahead of the client
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
    ahead = _Ahead(frames)
    try:
        while (text := await ahead.take()) is not None:
            yield (text or _PING).encode("utf-8", "replace")
    finally:
        await ahead.close()


class _Ahead:
    """Reads events ahead of the client. Events that are ready together are sent together, since each send costs as much
    as many events."""

    def __init__(self, frames: AsyncIterator[str]) -> None:
        self._frames = frames
        self._ready: list[str] = []
        self._more, self._taken = asyncio.Event(), asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            async for text in self._frames:
                self._ready.append(text)
                self._more.set()
                if sum(map(len, self._ready)) > _AHEAD:
                    self._taken.clear()
                    await self._taken.wait()
        finally:
            self._more.set()

    async def take(self) -> str | None:
        """Return the available text; empty after a period of silence, `None` at the end."""
        while self._ready or not self._reading.done():
            try:
                async with asyncio.timeout(_QUIET):
                    await self._more.wait()
            except TimeoutError:
                return ""
            self._more.clear()
            text = "".join(self._ready)
            self._ready.clear()
            self._taken.set()
            if text:
                return text
        await self._reading  # raises the exception that ended it
        return None

    async def close(self) -> None:
        """Stop reading."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        close = getattr(self._frames, "aclose", None)
        if close is not None:
            await close()


async def wait_for_disconnect(request: Request) -> None:
    """Wait until the client has disconnected."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
