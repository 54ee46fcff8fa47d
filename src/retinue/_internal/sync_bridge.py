"""The synchronous entry point for callers without an event loop: scripts, notebooks, threads.

All asynchronous work runs on one background loop per process. So connections outlive a call, and a notebook with a
running loop can call as well. Ctrl-C in the caller cancels the work it waits for.

Foreign code can stop a loop: its task or callback raises `SystemExit`, or it calls `stop()`. The loops run here
continue.

What is raised to a caller has no frames of Retinue's own in its traceback.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import logging
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, cast

from ..errors import RetinueError, UsageError
from .containment import describe_error, exit_forked_child, is_ours, make_contained_task
from .processes import call_in_forked_child, keep_from_parent

T = TypeVar("T")
E = TypeVar("E", bound=RetinueError)
_PACKAGES = (Path(__file__).parents[1], Path(asyncio.__file__).parent, Path(concurrent.futures.__file__).parent)
_OURS = tuple(str(folder) + os.sep for folder in _PACKAGES)
logger = logging.getLogger(__name__)


def run_to_completion(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work` on a new event loop in this thread, as `asyncio.run` does; for our own programs.

    Unless a handler is set for it, Ctrl-C cancels `work`, and is raised once that has ended.
    """
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        task, going = loop.create_task(work), True
        task.add_done_callback(lambda done: loop.stop() if going else None)
        try:
            _run_loop(loop, task.done)
        except KeyboardInterrupt:
            task.cancel()
            _run_loop(loop, task.done)
            raise
        finally:
            going = False
        return task.result()


def limit_exit(seconds: float = 5.0) -> None:
    """Have this process end within so many seconds of its exit, whatever foreign code does then: what has to be done at
    the end is done, and a supervisor waits."""

    def begin() -> None:
        timer = threading.Timer(seconds, os._exit, [0])
        timer.daemon = True
        timer.start()

    atexit.register(begin)  # what is registered last is called first


def _run_loop(loop: asyncio.AbstractEventLoop, over: Callable[[], bool]) -> None:
    """Run `loop` until it is `over`, whatever is raised in it. Raises a person's `KeyboardInterrupt`."""
    process = os.getpid()
    loop.set_task_factory(make_contained_task)
    while not over() and not loop.is_closed():
        try:
            loop.run_forever()
            exit_forked_child(process)
        except (SystemExit, KeyboardInterrupt) as error:
            exit_forked_child(process, error)
            if is_ours(error):
                raise
            logger.warning("%s was raised in a foreign task or callback; the loop goes on", describe_error(error))


def run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`. Raises what it raises, and `UsageError` when called on the loop's own thread.

    If the caller is interrupted, `work` is cancelled and cleans up before the interruption propagates.
    """
    loop = _background.start()
    if threading.current_thread() is _background.thread:
        work.close()
        raise UsageError("this call blocks, and it was made from asynchronous code of Retinue; use the _async form")
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
        raise shorten_traceback(error) from error.__cause__
    except BaseException:
        if future.cancel():
            ended.wait(timeout=5.0)
        raise
    finally:
        del future  # it holds the exception, whose traceback references this frame


async def run_in_background(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`, run on the background loop whatever loop the caller uses; cancelled with the caller.

    For resources that outlive the caller's loop, such as a connection shared by several runs.
    """
    loop = _background.start()
    if threading.current_thread() is _background.thread:
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


def start_in_background(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Start `work` and return; it ends with the process at the latest."""
    return asyncio.run_coroutine_threadsafe(work, _background.start())


def iterate_blocking(source: AsyncGenerator[T, None]) -> Iterator[T]:
    """Yield the items of `source` as they arrive."""
    try:
        while (item := run_blocking(_fetch_next(source))) is not _END:
            yield cast(T, item)
    finally:
        run_blocking(source.aclose())


_END = object()


async def _fetch_next(source: AsyncGenerator[T, None]) -> T | object:
    return await anext(source, _END)


class _BackgroundLoop:
    """The event loop on which blocking callers' work runs, in a thread that starts on first use."""

    def __init__(self) -> None:
        self.thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over = threading.Event()

    def start(self) -> asyncio.AbstractEventLoop:
        """Return the running loop."""
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                arguments = self._loop, self._over.is_set
                self.thread = threading.Thread(target=_run_loop, args=arguments, name="retinue", daemon=True)
                self.thread.start()
            return self._loop

    def reset(self) -> None:
        """Forget the loop in a forked child. Closing it there would unregister what the parent polls."""
        keep_from_parent(self._loop)
        self._starting, self._over = threading.Lock(), threading.Event()
        self._loop = self.thread = None

    def end(self) -> None:
        """Cancel what still runs, and end the thread."""
        loop, thread = self._loop, self.thread
        if loop is None or thread is None:
            return
        self._loop = self.thread = None

        async def end_tasks() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            await loop.shutdown_asyncgens()

        asyncio.run_coroutine_threadsafe(end_tasks(), loop).result(timeout=5.0)
        self._over.set()
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=5.0)
        loop.close()
        self._over = threading.Event()


_background = _BackgroundLoop()
atexit.register(_background.end)  # before whatever uses it registers itself, so after that at the exit
call_in_forked_child(_background.reset)


def shorten_traceback(error: E) -> E:
    """Remove all frames from the traceback of `error` except foreign ones, such as those of a custom model.

    These errors are self-explanatory. With `RETINUE_DEBUG` set, all frames stay.
    """
    if os.environ.get("RETINUE_DEBUG"):
        return error
    links = [] if error.__traceback__ is None else [error.__traceback__]
    while links and (following := links[-1].tb_next) is not None:
        links.append(following)
    kept: TracebackType | None = None
    for one in reversed(links):
        if not one.tb_frame.f_code.co_filename.startswith(_OURS):
            kept = TracebackType(kept, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return error.with_traceback(kept)
