"""Server-sent events: one line of JSON each, so that nothing in the data can pass for an event."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from fastapi.responses import StreamingResponse

_EVENT = {
    "type": "object",
    "properties": {"event": {"type": "string"}, "data": {"type": "string"}},
    "required": ["data"],
}
STREAMED: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {"schema": _EVENT}}}}
"""`responses` of a route that streams if it is asked to, for the OpenAPI document."""
DONE = "data: [DONE]\n\n"
RETRY = "retry: 1000\n"  # milliseconds; with the first event, for clients that take each empty line for the end of one
_PING = ": ping\n"  # likewise
_QUIET = 15.0  # seconds after which the connection is shown to be alive


def frame(data: Any, name: str = "", number: int = 0) -> str:
    """One event; its `number` is the id by which a cut stream goes on."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    text = text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").replace("\x85", "\\u0085")
    said = f"event: {name}\ndata: {text}\n\n" if name else f"data: {text}\n\n"
    return f"id: {number}\n{said}" if number else said


def streamed(frames: AsyncIterator[str]) -> StreamingResponse:
    """A response that says `frames` as they come, and now and then that it is alive."""
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return StreamingResponse(_alive(frames), media_type="text/event-stream", headers=headers)


async def _alive(frames: AsyncIterator[str]) -> AsyncIterator[bytes]:
    next_one: asyncio.Future[str] | None = None
    try:
        while True:
            next_one = next_one or asyncio.ensure_future(_next(frames))
            done, _ = await asyncio.wait([next_one], timeout=_QUIET)
            if not done:
                yield _PING.encode()
                continue
            try:
                text = next_one.result()
            except StopAsyncIteration:
                return
            next_one = None
            yield text.encode("utf-8", "replace")
    finally:
        if next_one is not None:
            next_one.cancel()
            await asyncio.gather(next_one, return_exceptions=True)
        close = getattr(frames, "aclose", None)
        if close is not None:
            await close()


async def _next(frames: AsyncIterator[str]) -> str:
    return await anext(frames)
