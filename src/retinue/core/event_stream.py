"""Events that a coroutine tells as it goes on, read as an async generator of them.

What an async generator comes to, it cannot return, and where several stand in one another, each event climbs through
all of them. So what tells events is a coroutine here, which calls others and gets back what they return; at
`await tell(event)` the event goes straight to who reads, and the coroutine waits until the reader wants the next.
"""

from __future__ import annotations

import types
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from typing import Any

from .events import KINDS, Delta, Event

_TOLD = frozenset({*KINDS.values(), Delta})


class _NobodyReads(BaseException):
    """Raised in a coroutine, where it tells something, when its reader has left."""


@types.coroutine
def tell(event: Event | Delta) -> Generator[Event | Delta, None, None]:
    """Hand `event` to the reader of `told`, and wait until the reader wants the next."""
    yield event


async def told(work: Callable[[], Coroutine[Any, Any, None]]) -> AsyncGenerator[Event | Delta, None]:
    """What `work` tells until it returns. Raises what it raises; when it is closed, `work` ends where it stands."""
    running = work()
    while (event := await _next(running)) is not None:
        try:
            yield event
        except BaseException:  # the reader has left
            await _end(running)
            raise


async def _end(running: Coroutine[Any, Any, None]) -> None:
    """Let it clean up; that may take its time."""
    try:
        await _next(running, _NobodyReads())
    except _NobodyReads:
        return
    running.close()


@types.coroutine
def _next(
    running: Coroutine[Any, Any, None], thrown: BaseException | None = None
) -> Generator[Any, Any, Event | Delta | None]:
    """Go on with it until it tells something; `None` at its end. What it waits for until then, the event loop gets."""
    while True:
        try:
            got = running.send(None) if thrown is None else running.throw(thrown)
        except StopIteration:
            return None
        if type(got) in _TOLD:
            told: Event | Delta = got
            return told
        try:
            thrown = None
            yield got
        except BaseException as error:
            thrown = error
