"""Containment of foreign code (tools, components, strategies, callbacks, memories, models), so that it can end only its
own call.

Whatever it raises comes out as an `Exception`. `SystemExit`, `KeyboardInterrupt`, `GeneratorExit`, a
`BaseExceptionGroup` and a self-inflicted `CancelledError` become `ForeignExit`: the first two would end the event loop
with everything on it, and asyncio takes the last for a cancellation of the awaiting task. A child process forked by
foreign code ends where that code returns or waits, and runs none of our code. What ends the process itself
(`os._exit`, a signal) can only be contained in a separate process (`tools/function_loader.py`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import types
from collections.abc import Awaitable, Callable, Generator
from contextvars import ContextVar
from typing import Any, TypeVar

from ..errors import ForeignExit, RetinueError, ToolError

T = TypeVar("T")
GRACE = 2.0  # seconds that a cancelled task may take to clean up before it is abandoned
logger = logging.getLogger(__name__)
_FOREIGN: ContextVar[bool] = ContextVar("FOREIGN", default=False)
_abandoned: set[asyncio.Task[Any]] = set()  # abandoned tasks; asyncio holds no references


class TimedOut(TimeoutError):
    """The time limit expired, as opposed to a `TimeoutError` raised by foreign code."""


def call_contained(function: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """Return the result of `function`. Whatever it raises becomes an `Exception`."""
    process = os.getpid()
    try:
        value = function(*arguments, **options)
    except BaseException as error:
        exit_forked_child(process, error)
        if isinstance(error, Exception) or is_ours(error):
            raise
        raise make_foreign_exit(error) from error
    exit_forked_child(process)
    return value


async def await_contained(work: Awaitable[T]) -> T:
    """Await `work` in the caller's task. Whatever it raises becomes an `Exception`."""
    try:
        return await _run_steps(work)
    except BaseException as error:
        if isinstance(error, Exception) or is_ours(error):
            raise
        raise make_foreign_exit(error) from error


async def await_isolated(work: Awaitable[T], seconds: float | None = None) -> T:
    """Await `work` in a task of its own, which it may cancel or refuse to cancel.

    Raises `TimedOut` after `seconds`; whatever `work` raises becomes an `Exception`. On a timeout, or if the caller is
    cancelled, `work` is cancelled and has `GRACE` seconds to clean up.
    """
    foreign = _FOREIGN.set(True)
    task = asyncio.ensure_future(_read_outcome(work))
    _FOREIGN.reset(foreign)
    expired = False
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        if expired := not task.done():
            await _cancel_task(task)
    if not task.done() or task.cancelled():
        raise TimedOut if expired else make_foreign_exit(asyncio.CancelledError())
    value, error = task.result()
    try:
        if error is None:
            return value  # type: ignore[return-value]
        if expired:
            raise TimedOut from error
        if isinstance(error, Exception):
            raise error
        raise make_foreign_exit(error) from error
    finally:
        del error, task  # the error's traceback references this frame


def make_foreign_exit(error: BaseException) -> ForeignExit:
    """Return the replacement for an error that is not an `Exception`."""
    within = isinstance(error, asyncio.CancelledError)
    return ForeignExit("it was cancelled from within" if within else describe_error(error))


def make_contained_task(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Future[Any]:
    """Task factory for our event loops: tasks created by foreign code cannot end the loop either."""
    if not _FOREIGN.get():
        return asyncio.Task(work, loop=loop, **options)
    task = asyncio.Task(_run_guarded(work), loop=loop, **options)
    task.add_done_callback(lambda done: work.close())  # never started if the task was cancelled before
    return task


def is_ours(error: BaseException) -> bool:
    """Return whether the outcome of foreign code is addressed to us: our task was cancelled, our coroutine was closed,
    or a person pressed Ctrl-C. Must be called in the frame that called the foreign code.
    """
    match error:
        case asyncio.CancelledError():
            task = _find_current_task()
            return task is not None and task.cancelling() > 0
        case GeneratorExit():  # our own frames below were closed before this one
            return error.__traceback__ is None or error.__traceback__.tb_next is None
        case KeyboardInterrupt():
            default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
            return default and threading.current_thread() is threading.main_thread()
    return False


def describe_error(error: BaseException) -> str:
    """Return the error's type and text, even if foreign code defines them; for Retinue's own errors, only the text."""
    try:
        text = str(error)
        told = isinstance(error, ForeignExit | ToolError)
        return text if told else f"{type(error).__name__}: {text}".removesuffix(": ")
    except BaseException:
        return type(error).__name__


def is_own_error(error: BaseException) -> bool:
    """Return whether it is one of Retinue's own errors, whose text is self-explanatory."""
    return isinstance(error, RetinueError) and not isinstance(error, ForeignExit)


def exit_forked_child(process: int, error: BaseException | None = None) -> None:
    """Exit at once if this process is a fork of `process`."""
    if os.getpid() != process:
        code = error.code if isinstance(error, SystemExit) else None if error is None else 1
        os._exit(code & 0xFF if isinstance(code, int) else int(code is not None))


async def _run_guarded(work: Awaitable[T]) -> T:
    try:
        return await _run_steps(work)
    except (SystemExit, KeyboardInterrupt) as error:
        if is_ours(error):
            raise
        raise make_foreign_exit(error) from error


async def _read_outcome(work: Awaitable[T]) -> tuple[T | None, BaseException | None]:
    """Return the outcome of `work`; no exception reaches the task that awaits it."""
    try:
        return await _run_steps(work), None
    except BaseException as error:
        return None, error


@types.coroutine
def _run_steps(work: Awaitable[T]) -> Generator[Any, Any, T]:
    """Await `work`, checking for a forked process after each step."""
    process, steps = os.getpid(), work.__await__()
    thrown: BaseException | None = None
    while True:
        try:
            awaited = next(steps) if thrown is None else steps.throw(thrown)
        except StopIteration as end:
            exit_forked_child(process)
            value: T = end.value
            return value
        except BaseException as error:
            exit_forked_child(process, error)
            raise
        exit_forked_child(process)
        try:
            thrown = None
            yield awaited
        except BaseException as error:
            thrown = error


async def _cancel_task(task: asyncio.Task[Any]) -> None:
    """Cancel `task`, and abandon it if it does not end."""
    task.cancel()
    try:
        await asyncio.wait({task}, timeout=GRACE)
    finally:
        if not task.done():
            _abandoned.add(task)
            task.add_done_callback(_abandoned.discard)
            logger.warning("a tool or component ignored its cancellation and still runs; its result is discarded")


def _find_current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # this thread has no loop
        return None
