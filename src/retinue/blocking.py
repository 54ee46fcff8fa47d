"""The one door for callers without an event loop: scripts, notebooks, threads.

Everything asynchronous runs on one background loop of the process, so connections outlive a call, and
a notebook, whose own loop is running, can call too. Ctrl-C in the caller cancels what it waits for.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from concurrent.futures import Future
from functools import cache
from typing import Any, TypeVar, cast

from .errors import RetinueError, UsageError
from .tracebacks import shortened

T = TypeVar("T")


def blocking(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`. Raises what it raises; `UsageError` when called on the loop's own thread.

    When the caller is interrupted, `work` is cancelled and has let go of what it held before the
    interruption goes on.
    """
    loop = _loop()
    if threading.current_thread() is _thread(loop):
        work.close()
        raise UsageError("this blocks, and it was called from asynchronous code of Retinue; use the _async form")
    ended = threading.Event()

    async def watched() -> T:
        try:
            return await work
        finally:
            ended.set()

    future = asyncio.run_coroutine_threadsafe(watched(), loop)
    try:
        return future.result()
    except RetinueError as error:
        raise shortened(error) from error.__cause__
    except BaseException:
        if future.cancel():
            ended.wait(timeout=5.0)
        raise
    finally:
        del future  # it holds its exception, whose traceback holds this frame


async def in_background(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which runs on the background loop, whatever loop the caller is on, and is cancelled
    with the caller. For what outlives the caller's loop, as a connection does that several runs use."""
    loop = _loop()
    if threading.current_thread() is _thread(loop):
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


def begin(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Begin `work` and go on; it ends with the process at the latest."""
    loop = _loop()
    _thread(loop)
    return asyncio.run_coroutine_threadsafe(work, loop)


def iterate(source: AsyncGenerator[T, None]) -> Iterator[T]:
    """The items of `source`, as they come."""
    try:
        while (item := blocking(_next(source))) is not _END:
            yield cast(T, item)
    finally:
        blocking(source.aclose())


_END = object()


async def _next(source: AsyncGenerator[T, None]) -> T | object:
    return await anext(source, _END)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


@cache
def _thread(loop: asyncio.AbstractEventLoop) -> threading.Thread:
    thread = threading.Thread(target=loop.run_forever, name="retinue", daemon=True)
    thread.start()
    atexit.register(_end, loop, thread)
    return thread


def _end(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    asyncio.run_coroutine_threadsafe(_end_tasks(loop), loop).result(timeout=5.0)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(timeout=5.0)
    loop.close()


async def _end_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what is still going on in the background."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await loop.shutdown_asyncgens()
