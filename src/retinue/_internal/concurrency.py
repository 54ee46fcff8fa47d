"""Bounded concurrency, threads for synchronous functions, and supervised background tasks."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar

from ..errors import UsageError
from .containment import call_contained
from .processes import call_in_forked_child

T = TypeVar("T")
R = TypeVar("R")


async def gather_bounded(work: Callable[[T], Awaitable[R]], items: Iterable[T], at_once: int) -> list[R]:
    """Apply `work` to each item, at most `at_once` at a time; results are in the order of the items.

    The first error cancels the others and is raised with a note that names the item.
    """
    if at_once < 1:
        raise UsageError(f"at_once must be at least 1, not {at_once}")
    items = list(items)
    waiting = enumerate(items)
    results: dict[int, R] = {}

    async def worker() -> None:
        for number, item in waiting:
            try:
                results[number] = await work(item)
            except Exception as error:
                error.add_note(f"(number {number + 1} of the batch)")
                raise

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(at_once, len(items))):
                group.create_task(worker())
    except ExceptionGroup as group_of_errors:
        error = find_first_error(group_of_errors)
        raise error from error.__cause__
    return [results[number] for number in sorted(results)]


def find_first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error in a nested exception group."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


_MOST_IDLE = 64  # threads that wait for a call; others exit
_idle: deque[SimpleQueue[Callable[[], None]]] = deque()  # a queue for each idle thread
call_in_forked_child(_idle.clear)


async def run_in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Call `function` in a thread with the caller's context variables. Whatever it raises becomes an `Exception`.

    An idle thread takes the call, or else a new one: a call that waits for another, as one that runs a pipeline does,
    never keeps that from starting. The threads of `asyncio.to_thread` are limited in number, and an exiting process
    waits for them; these are daemons, so that no call keeps the process from exiting.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def call() -> None:
        value, error = None, None
        try:
            value = call_contained(context.run, function, *arguments)
        except Exception as raised:
            error = raised
        with suppress(RuntimeError):  # the loop was closed meanwhile, and nobody waits any more
            loop.call_soon_threadsafe(_set_outcome, future, value, error)

    try:
        _idle.pop().put(call)
    except IndexError:
        calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        calls.put(call)
        threading.Thread(target=_run_calls, args=(calls,), name="retinue-node", daemon=True).start()
    return await future


def _set_outcome(future: asyncio.Future[Any], value: Any, error: Exception | None) -> None:
    if future.done():  # cancelled
        return
    if error is None:
        future.set_result(value)
    elif isinstance(error, StopIteration):  # futures cannot carry it
        future.set_exception(RuntimeError(f"StopIteration was raised: {error}"))
    else:
        future.set_exception(error)


def _run_calls(calls: SimpleQueue[Callable[[], None]]) -> None:
    """Run the calls in the queue, until there are idle threads enough."""
    while True:
        calls.get()()  # held by no local, which would keep it alive until the next
        if len(_idle) >= _MOST_IDLE:
            return
        _idle.append(calls)


logger = logging.getLogger(__name__)
BACK_OFF = (0.1, 0.5, 2.0, 5.0, 30.0)  # seconds before each restart
_WELL = 60.0  # seconds without a crash after which the back-off is reset


async def supervise(name: str, work: Callable[[], Awaitable[None]], back_off: Sequence[float] = BACK_OFF) -> None:
    """Run `work` until it returns, restarting it after crashes with growing back-off.

    Each crash is logged as an error under `name`. Only cancelling this task ends it: a `CancelledError` raised by
    `work` itself counts as a crash.
    """
    deaths = 0
    while True:
        began = time.monotonic()
        try:
            await work()
            return
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling()):
                raise
            deaths = 1 if time.monotonic() - began > _WELL else deaths + 1
            wait = back_off[min(deaths, len(back_off)) - 1]
            said = f"{type(error).__name__}: {error}"
            logger.error("%s died and begins again in %.1f s: %s", name, wait, said, exc_info=error)
        await asyncio.sleep(wait)
