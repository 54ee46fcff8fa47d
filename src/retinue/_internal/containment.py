"""Calling code that is not ours (tools, components, strategies, callbacks, memories, models), so that it ends no more
than its own call.

Whatever it raises comes out as an `Exception`: `SystemExit`, `KeyboardInterrupt`, `GeneratorExit`, a
`BaseExceptionGroup` and a `CancelledError` of its own come out as `ForeignExit`. Of these asyncio lets the first two
end the event loop, with everything that runs on it, and takes the last for a cancel of the task that awaits it.
A child that such code forked off ends where that code returns or waits, and runs nothing of ours.
What ends the process itself (`os._exit`, a signal) can only be contained in another process (`tools/separate.py`).
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
GRACE = 2.0  # seconds that what was cancelled may take to clean up; then it is left behind
logger = logging.getLogger(__name__)
_FOREIGN: ContextVar[bool] = ContextVar("FOREIGN", default=False)
_left_behind: set[asyncio.Task[Any]] = set()  # tasks that did not end when they were cancelled; asyncio keeps none


class TimedOut(TimeoutError):
    """The time that was given is up: unlike a `TimeoutError` that foreign code raised itself."""


def call_contained(function: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """What `function` returns. Raises an `Exception` for whatever it raises."""
    process = os.getpid()
    try:
        value = function(*arguments, **options)
    except BaseException as error:
        exit_forked_child(process, error)
        if isinstance(error, Exception) or is_ours(error):
            raise
        raise foreign_exit(error) from error
    exit_forked_child(process)
    return value


async def await_contained(work: Awaitable[T]) -> T:
    """What `work` gives, awaited in the caller's task. Raises an `Exception` for whatever it raises."""
    try:
        return await _steps(work)
    except BaseException as error:
        if isinstance(error, Exception) or is_ours(error):
            raise
        raise foreign_exit(error) from error


async def await_isolated(work: Awaitable[T], seconds: float | None = None) -> T:
    """What `work` gives, awaited in a task of its own: it may cancel that, or refuse to be cancelled.

    Raises `TimedOut` if it takes more than `seconds`, and an `Exception` for whatever it raises. When time is up, or
    the caller is cancelled, it is cancelled and has `GRACE` seconds to clean up.
    """
    foreign = _FOREIGN.set(True)
    task = asyncio.ensure_future(_outcome(work))
    _FOREIGN.reset(foreign)
    expired = True
    try:
        await asyncio.wait({task}, timeout=seconds)
        expired = not task.done()
    finally:
        if not task.done():
            await _cancelled(task)
    if not task.done() or task.cancelled():
        raise TimedOut if expired else foreign_exit(asyncio.CancelledError())
    value, error = task.result()
    try:
        if error is None:
            return value  # type: ignore[return-value]
        if expired:
            raise TimedOut from error
        if isinstance(error, Exception):
            raise error
        raise foreign_exit(error) from error
    finally:
        del error, task  # the error's traceback holds this frame


def foreign_exit(error: BaseException) -> ForeignExit:
    """What stands for an error that is no `Exception`."""
    within = isinstance(error, asyncio.CancelledError)
    return ForeignExit("it was cancelled from within" if within else describe_error(error))


def contained_task_factory(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Future[Any]:
    """A task factory for loops of ours: a task that foreign code makes cannot end the loop either."""
    if not _FOREIGN.get():
        return asyncio.Task(work, loop=loop, **options)
    task = asyncio.Task(_guarded(work), loop=loop, **options)
    task.add_done_callback(lambda done: work.close())  # it was never begun, if the task was cancelled before
    return task


def is_ours(error: BaseException) -> bool:
    """Whether what a call of foreign code ended with is meant for us: our task was cancelled, our coroutine was closed,
    or a person pressed Ctrl-C. To be asked in the frame that called it."""
    match error:
        case asyncio.CancelledError():
            task = _current_task()
            return task is not None and task.cancelling() > 0
        case GeneratorExit():  # what is closed is told so itself: the frames below were closed before
            return error.__traceback__ is None or error.__traceback__.tb_next is None
        case KeyboardInterrupt():
            default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
            return default and threading.current_thread() is threading.main_thread()
    return False


def describe_error(error: BaseException) -> str:
    """The error's type and text, on which foreign code has a say, too; of one that is made to be told, its text."""
    try:
        text = str(error)
        told = isinstance(error, ForeignExit | ToolError)
        return text if told else f"{type(error).__name__}: {text}".removesuffix(": ")
    except BaseException:
        return type(error).__name__


def is_own_error(error: BaseException) -> bool:
    """Whether it is an error of Retinue's own, whose text says all by itself."""
    return isinstance(error, RetinueError) and not isinstance(error, ForeignExit)


def exit_forked_child(process: int, error: BaseException | None = None) -> None:
    """End this process at once if it is not `process`, but a child that was forked off it since."""
    if os.getpid() != process:
        code = error.code if isinstance(error, SystemExit) else None if error is None else 1
        os._exit(code & 0xFF if isinstance(code, int) else int(code is not None))


async def _guarded(work: Awaitable[T]) -> T:
    try:
        return await _steps(work)
    except (SystemExit, KeyboardInterrupt) as error:
        if is_ours(error):
            raise
        raise foreign_exit(error) from error


async def _outcome(work: Awaitable[T]) -> tuple[T | None, BaseException | None]:
    """What came of `work`: nothing is left to the task that it is awaited in."""
    try:
        return await _steps(work), None
    except BaseException as error:
        return None, error


@types.coroutine
def _steps(work: Awaitable[T]) -> Generator[Any, Any, T]:
    """Await `work`, with a look at the process after each of its steps."""
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


async def _cancelled(task: asyncio.Task[Any]) -> None:
    """Cancel `task`, and leave it behind if it does not end."""
    task.cancel()
    try:
        await asyncio.wait({task}, timeout=GRACE)
    finally:
        if not task.done():
            _left_behind.add(task)
            task.add_done_callback(_left_behind.discard)
            logger.warning("a call goes on although it was cancelled; it is left behind")


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # this thread has no loop
        return None
