"""Turns a coroutine that emits events into an async generator of them.

An async generator cannot return a value, and in nested ones each event climbs through all levels. So code that emits
events is a coroutine here, which calls others and gets their return values. `await tell(event)` passes the event
straight to the reader, and the coroutine waits until the reader wants the next one."""

from __future__ import annotations

import asyncio
import types
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import Context
from typing import Any, TypeVar

from ..events import KINDS, Delta, Event
from ..run_context import Progress

T = TypeVar("T")
Tell = Callable[[Event | Delta], Awaitable[None]]
_TOLD = frozenset({*KINDS.values(), Delta})


class _NobodyReads(BaseException):
    """Raised at `tell` in a coroutine whose reader has left."""


@types.coroutine
def tell(event: Event | Delta) -> Generator[Event | Delta, None, None]:
    """Pass `event` to the reader of `stream_events`, and wait until the reader wants the next one."""
    yield event


async def with_reports(work: Coroutine[Any, Any, T], progress: Progress, tell: Tell) -> T:
    """Await `work`, and emit what is reported meanwhile, from any thread, as soon as it is. `work` is cancelled if the
    reader leaves."""
    loop, news = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        with suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(news.set)

    progress.wake = wake
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda _: news.set())
    try:
        while not task.done():
            await news.wait()
            news.clear()
            while progress.reports:
                await tell(progress.reports.popleft())
        return task.result()
    finally:
        progress.wake = None
        if not task.done():
            task.cancel()
            await asyncio.wait([task])


async def stream_events(
    work: Callable[[], Coroutine[Any, Any, None]], context: Context
) -> AsyncGenerator[Event | Delta, None]:
    """Yield the events of `work`, which runs in `context`, until it returns. Raises what it raises; closing the
    generator stops `work`."""
    running = work()
    del work
    while (event := await _advance(running, context)) is not None:
        try:
            yield event
        except BaseException:  # the reader has left; to clean up may take time
            with suppress(_NobodyReads):
                await _advance(running, context, _NobodyReads())
                context.run(running.close)
            raise


@types.coroutine
def _advance(
    running: Coroutine[Any, Any, None], context: Context, thrown: BaseException | None = None
) -> Generator[Any, Any, Event | Delta | None]:
    """Advance to the next event, or `None` at the end; everything else it awaits goes to the event loop."""
    while True:
        try:
            got = context.run(running.send, None) if thrown is None else context.run(running.throw, thrown)
        except StopIteration:
            return None
        if type(got) in _TOLD:
            event: Event | Delta = got
            return event
        try:
            thrown = None
            yield got
        except BaseException as error:
            thrown = error
