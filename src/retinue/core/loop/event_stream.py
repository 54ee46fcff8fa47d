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


@types.coroutine
def with_reports(work: Coroutine[Any, Any, T], progress: Progress, tell: Tell) -> Generator[Any, Any, T]:
    """Await `work`, and emit what is reported meanwhile, from any thread, as soon as it is. In the caller's task, for
    one of its own would cost more than most calls of tools. If the reader leaves, `work` is cancelled."""
    waiting, thrown = _Waiting(progress, tell), None
    try:
        while True:
            awaited = work.send(None) if thrown is None else work.throw(thrown)
            thrown = yield from waiting.wait(awaited)
    except StopIteration as end:
        value: T = end.value
    except BaseException:
        if waiting.problem is None:
            raise
    finally:
        progress.wake = None
        work.close()
    if waiting.problem is not None:
        raise waiting.problem
    return value


def _wait_a_turn(awaited: Any) -> Generator[Any, Any, BaseException | None]:
    try:
        yield awaited
    except GeneratorExit:
        raise
    except BaseException as error:
        return error
    return None


class _Waiting:
    """Waits for what work awaits, and for reports. `problem` is what was raised where one was told."""

    __slots__ = ("_loop", "_progress", "_tell", "_waker", "problem")

    def __init__(self, progress: Progress, tell: Tell) -> None:
        self.problem: BaseException | None = None
        self._progress, self._tell = progress, tell
        self._loop = asyncio.get_running_loop()
        self._waker: asyncio.Future[None] | None = None
        progress.wake = self._wake_from_thread

    def wait(self, awaited: Any) -> Generator[Any, Any, BaseException | None]:
        """Wait until `awaited` is done. Return what is to be raised in the work, if anything."""
        if not asyncio.isfuture(awaited):  # another turn of the event loop
            return (yield from _wait_a_turn(awaited))
        awaited._asyncio_future_blocking = False  # as a task does that takes it over
        awaited.add_done_callback(self._wake)
        while not awaited.done():
            try:
                while self._progress.reports and self.problem is None:
                    yield from self._tell(self._progress.reports.popleft()).__await__()
                self._waker = self._loop.create_future()
                if not awaited.done() and (self.problem or not self._progress.reports):
                    yield from self._waker
            except GeneratorExit:
                raise
            except asyncio.CancelledError as error:
                if not awaited.cancel():
                    return error
            except BaseException as error:
                self.problem = error
                awaited.cancel()
        return None

    def _wake(self, _: Any = None) -> None:
        if self._waker is not None and not self._waker.done():
            self._waker.set_result(None)

    def _wake_from_thread(self) -> None:
        with suppress(RuntimeError):  # the loop was closed
            self._loop.call_soon_threadsafe(self._wake)


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
