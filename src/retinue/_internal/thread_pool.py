"""Runs synchronous functions in threads, so that they do not block the event loop.

A `ThreadPoolExecutor` wakes the loop once per call, and its futures lock. Waking a thread, and the loop again, is the
main cost. So here calls that are ready together share a thread as long as each ends quickly, and the loop waits briefly
for them instead of being woken. No call keeps the process from exiting.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from .containment import call_contained
from .forks import in_forked_child

T = TypeVar("T")
_KEPT = 64  # idle threads kept; others exit
_AWAITED = 0.0002  # seconds the loop waits for calls of a kind that ended at once the last time
_SHARED = 0.001  # seconds after which slow calls stop sharing a thread
_QUICK = 0.00005  # seconds per call


async def run_in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Call `function` in a thread with the caller's context variables. Whatever it raises becomes an `Exception`.

    A slow call gets a thread for itself, so one that waits for another (e.g. a function that runs a pipeline) never
    prevents it from starting.
    """
    loop = asyncio.get_running_loop()
    if loop not in _calls:
        _calls[loop] = _Calls()
    future: asyncio.Future[T] = loop.create_future()
    _calls[loop].begin(_Call(function, arguments, contextvars.copy_context(), future))
    return await future


class _Call(NamedTuple):
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    context: contextvars.Context
    future: asyncio.Future[Any]


class _Calls:
    """A loop's calls on their way to a thread, and their results on the way back."""

    def __init__(self) -> None:  # a reference to the loop would keep it alive
        self._ready: deque[_Call] = deque()
        self._ended: deque[tuple[asyncio.Future[Any], Any, Exception | None]] = deque()
        self._expected = False  # whether the loop is about to collect results
        self._awaited = True

    def begin(self, call: _Call) -> None:
        if not self._ready:  # otherwise the earlier ones already trigger it
            call.future.get_loop().call_soon(self._hand_over)
        self._ready.append(call)

    def _hand_over(self) -> None:
        batch, self._ready = _Batch(self._ready), deque()
        done: SimpleQueue[None] = SimpleQueue()
        self._expected = True
        _start(_Work(self, batch, done, time.perf_counter()))
        over = False
        if self._awaited:
            try:
                done.get(timeout=_AWAITED)
                over = True
            except Empty:
                self._awaited = False
        self._deliver()
        if not over:
            self._watch(batch)

    def _watch(self, batch: _Batch) -> None:
        since = time.perf_counter()
        asyncio.get_running_loop().call_later(_SHARED, self._spread, batch, len(batch.left), since)

    def _spread(self, batch: _Batch, before: int, since: float) -> None:
        """Give the remaining calls twice as many threads, unless they are quick."""
        left = len(batch.left)
        now = time.perf_counter()
        batch.shared = (
            now - since < (before - left) * _QUICK
        )  # before results are collected: calls that end later wake the loop
        self._deliver()
        if not left:
            return
        if not batch.shared:
            for _ in range(min(left, batch.threads)):
                _start(_Work(self, batch, SimpleQueue(), now))
            batch.threads *= 2
        self._watch(batch)

    def make_all(self, work: _Work) -> None:
        """Make all calls of `work` that no other thread takes; runs in a thread.

        While calls share the thread, the loop polls for results now and then, and is woken at the end, because each
        wake costs as much as many calls.
        """
        ended: asyncio.Future[Any] | None = None
        while True:
            try:
                call = work.batch.left.popleft()
            except IndexError:
                break
            ended = call.future
            if not ended.cancelled():
                self._ended.append((ended, *_outcome(call)))
            if not work.batch.shared:
                self._wake(ended)
        if ended is not None:
            self._wake(ended)
        self._awaited = time.perf_counter() - work.began < _AWAITED
        work.done.put(None)

    def _wake(self, future: asyncio.Future[Any]) -> None:
        if self._ended and not self._expected:
            self._expected = True
            try:
                future.get_loop().call_soon_threadsafe(self._deliver)
            except RuntimeError:  # the loop was closed meanwhile; nobody waits any more
                self._ended.clear()

    def _deliver(self) -> None:
        self._expected = False  # before the first is taken: a call that ends later wakes the loop again
        while self._ended:
            future, value, error = self._ended.popleft()
            if future.done():  # cancelled
                continue
            if isinstance(error, StopIteration):  # futures cannot carry it
                error = RuntimeError(f"StopIteration was raised: {error}")
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)


class _Batch:
    """Calls that were ready together. `shared`: they are quick, so the loop need not be woken for each."""

    __slots__ = ("left", "shared", "threads")

    def __init__(self, left: deque[_Call]) -> None:
        self.left = left
        self.shared = True
        self.threads = 1


class _Work(NamedTuple):
    calls: _Calls
    batch: _Batch
    done: SimpleQueue[None]
    began: float


_waiting: deque[SimpleQueue[_Work]] = deque()  # a queue for each idle thread
_calls: WeakKeyDictionary[asyncio.AbstractEventLoop, _Calls] = WeakKeyDictionary()
in_forked_child(_waiting.clear)
in_forked_child(_calls.clear)


def _start(work: _Work) -> None:
    try:
        _waiting.pop().put(work)
    except IndexError:
        threading.Thread(target=_run, args=(work,), name="retinue-node", daemon=True).start()


def _run(first: _Work) -> None:
    given: SimpleQueue[_Work] = SimpleQueue()
    given.put(first)
    del first
    while True:
        _make(given.get())
        if len(_waiting) >= _KEPT:
            return
        _waiting.append(given)


def _make(work: _Work) -> None:  # a function of its own, so that no local keeps the last call alive
    work.calls.make_all(work)


def _outcome(call: _Call) -> tuple[Any, Exception | None]:
    try:
        return call_contained(call.context.run, call.function, *call.arguments), None
    except Exception as raised:
        return None, raised
