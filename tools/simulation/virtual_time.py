"""Virtual time: an event loop for each simulated machine, which runs nothing by itself, and the clocks that its code
reads."""

from __future__ import annotations

import asyncio
import secrets
import sys
import time
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context
from heapq import heappop, heappush
from itertools import count
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
BEGAN = 1_700_000_000.0  # Unix seconds at the beginning of each schedule
UPTIME = -1_000_000.0  # what the monotonic clock says then: what is done every few minutes is not due


class Clocks(Protocol):
    """What the time is, now and on the machine whose code runs."""

    now: float

    def skew(self) -> float:
        """How many seconds the system clock of this machine is ahead."""
        ...

    def failed(self, problem: str) -> None:
        """Note an error that nobody handled."""
        ...


class VirtualTask(asyncio.Task[T]):
    """A task whose hash does not depend on its address, for sets of tasks are walked through."""

    _numbers = count(1)

    def __init__(self, coroutine: Coroutine[Any, Any, T], **options: Any) -> None:
        self.number = next(self._numbers)
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self.number


class VirtualLoop(asyncio.BaseEventLoop):
    """The event loop of a simulated machine. As in a real one, what is ready runs in order; `World` says when."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, clocks: Clocks) -> None:
        self.dead = True  # until it is made
        super().__init__()
        self.clocks = clocks
        self.tasks: list[VirtualTask[Any]] = []  # none is garbage before the schedule ends
        self.dead = False

    def time(self) -> float:
        return self.clocks.now

    def is_running(self) -> bool:
        return not self.dead

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> VirtualTask[T]:
        task = VirtualTask(coro, loop=self, name=name or "task", context=context)
        self.tasks.append(task)
        return task

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heappush(self._scheduled, timer)
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.clocks.now + delay, callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    get_debug = bool  # False, in C: asyncio asks this of each handle, future and task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.dead:
            error = context.get("exception")
            self.clocks.failed(f"{context.get('message')}: {error!r}")

    def due(self) -> float:
        """When the next timer is due; infinite without one."""
        scheduled = self._scheduled
        while scheduled:
            if not (first := scheduled[0])._cancelled:
                return first._when  # type: ignore[attr-defined,no-any-return]
            heappop(scheduled)
        return float("inf")

    def ripen(self) -> None:
        """Make the timers ready that are due."""
        now, scheduled = self.clocks.now, self._scheduled
        while scheduled and scheduled[0]._when <= now:  # type: ignore[attr-defined]
            handle = heappop(scheduled)
            handle._scheduled = False  # type: ignore[attr-defined]
            if not handle._cancelled:
                self._ready.append(handle)

    def die(self) -> None:
        """Run nothing any more, not even what cleans up."""
        self.dead = True
        for task in self.tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._ready.clear()
        self._scheduled.clear()

    def dispose(self) -> None:
        """End the loop with its schedule: what it was doing is not found by the garbage collector later."""
        self.die()
        for task in self.tasks:
            if not task.done():
                with suppress(BaseException):  # it cannot clean up: nothing answers any more
                    task.get_coro().close()
        self.tasks.clear()
        self.close()


@contextmanager
def running(loop: VirtualLoop | None) -> Iterator[None]:
    """Make `loop` the running one in the block, in which another may run."""
    before = events._get_running_loop()
    events._set_running_loop(loop)
    try:
        yield
    finally:
        events._set_running_loop(before)


@contextmanager
def virtual_time(clocks: Clocks) -> Iterator[None]:
    """Let the clocks that Python has be those of `clocks` in the block, and count ids. Generators that are left there
    are closed in the loop that left them."""
    named = {
        "time": lambda: BEGAN + clocks.now + clocks.skew(),
        "monotonic": lambda: UPTIME + clocks.now,
        "perf_counter": lambda: clocks.now,
    }
    real = {name: getattr(time, name) for name in named}
    token, numbers = secrets.token_hex, count(1)
    secrets.token_hex = lambda nbytes=None: f"{next(numbers):0{2 * (nbytes or 32)}x}"
    hooks, unraisable = sys.get_asyncgen_hooks(), sys.unraisablehook
    for name, clock in named.items():
        setattr(time, name, clock)
    sys.set_asyncgen_hooks(firstiter=None, finalizer=_close)
    sys.unraisablehook = lambda _: None  # coroutines of machines that died cannot clean up
    try:
        yield
    finally:
        for name, clock in real.items():
            setattr(time, name, clock)
        secrets.token_hex = token
        sys.set_asyncgen_hooks(*hooks)
        sys.unraisablehook = unraisable


def _close(generator: Any) -> None:
    loop = events._get_running_loop()
    if isinstance(loop, VirtualLoop) and not loop.dead:
        loop.create_task(generator.aclose())
