"""Where functions without async run, so that none of them holds up the event loop.

A `ThreadPoolExecutor` wakes the loop once a call, and its futures lock: side by side, a pipeline's functions cost
half as much again with it. It also keeps a process from ending as long as one of them runs.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
_KEPT = 64  # threads that wait for something to do; more end


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """What `function` returns, called in a thread of its own, with the caller's context variables.

    There are as many threads as there are calls under way: one that waits for another (a function that
    runs a pipeline, say) never keeps that other from beginning. None keeps the process from ending.
    """
    loop = asyncio.get_running_loop()
    if loop not in _returns:
        _returns[loop] = _Returns()
    future: asyncio.Future[T] = loop.create_future()
    call = _Call(function, arguments, contextvars.copy_context(), future, _returns[loop])
    try:
        _waiting.pop().put(call)
    except IndexError:
        threading.Thread(target=_work, args=(call,), name="retinue-node", daemon=True).start()
    return await future


class _Returns:
    """What came of a loop's calls, on its way there: however many come at once, the loop is woken once."""

    def __init__(self) -> None:  # a reference to the loop would keep it for ever
        self._left: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._woken = False

    def put(self, future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
        self._left.append((future, value, error))
        if not self._woken:
            self._woken = True
            try:
                future.get_loop().call_soon_threadsafe(self._deliver)
            except RuntimeError:  # the loop was closed meanwhile: nobody waits any more
                self._left.clear()

    def _deliver(self) -> None:
        self._woken = False  # before the first is taken: one that comes later wakes the loop again
        while self._left:
            future, value, error = self._left.popleft()
            if future.done():  # cancelled
                continue
            if isinstance(error, StopIteration):  # which no future can carry
                error = RuntimeError(f"StopIteration was raised: {error}")
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)


class _Call(NamedTuple):
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    context: contextvars.Context
    future: asyncio.Future[Any]
    returns: _Returns


_waiting: deque[SimpleQueue[_Call]] = deque()  # a queue for each thread that has nothing to do
_returns: WeakKeyDictionary[asyncio.AbstractEventLoop, _Returns] = WeakKeyDictionary()


def _work(first: _Call) -> None:
    calls: SimpleQueue[_Call] = SimpleQueue()
    calls.put(first)
    del first
    while True:
        _make(calls.get())
        if len(_waiting) >= _KEPT:
            return
        _waiting.append(calls)


def _make(call: _Call) -> None:
    try:
        value, error = call.context.run(call.function, *call.arguments), None
    except BaseException as raised:
        value, error = None, raised
    call.returns.put(call.future, value, error)
