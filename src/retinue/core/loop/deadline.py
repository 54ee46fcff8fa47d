"""The deadline of a run: whatever it waits for ends when its time is up, or when it is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, TypeVar

from ..._internal.containment import is_ours, make_foreign_exit
from ..values import StopReason

T = TypeVar("T")


class Interrupted(Exception):
    """The run timed out or was cancelled."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True)
class Deadline:
    """Ends whatever a run waits for when it times out or is cancelled. Every wait of the loop goes through `wait`, and
    nothing else does, so an event in the reader's hands is never interrupted. One timer serves the whole run:
    `asyncio.timeout` would set one for each delta."""

    _at: float | None = None
    _cancelled: bool = False
    _expired: bool = False
    _loop: asyncio.AbstractEventLoop | None = None
    _waiting: asyncio.Task[Any] | None = None
    _timer: asyncio.TimerHandle | None = None

    def start(self, seconds: float | None) -> None:
        """Start the timer, which expires after `seconds` (`None`: never)."""
        self.stop()
        self._loop = asyncio.get_running_loop()
        self._at = None if seconds is None else self._loop.time() + seconds
        self._timer = None if self._at is None else self._loop.call_at(self._at, self._end)

    def stop(self) -> None:
        """Stop the timer; the run is over."""
        if self._timer is not None:
            self._timer.cancel()

    @property
    def left(self) -> float | None:
        """The seconds until the timer expires, or `None` without a limit."""
        return None if self._at is None or self._loop is None else max(0.0, self._at - self._loop.time())

    @property
    def is_over(self) -> bool:
        """Whether nothing may begin any more."""
        return self._expired or self._cancelled

    def cancel(self) -> None:
        """End the run as `CANCELLED`, at once. Thread-safe and idempotent."""
        self._cancelled = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        if not self._expired and self._waiting is not None:
            self._waiting.cancel()
        self._expired = True

    def check(self) -> None:
        """Raise `Interrupted` if nothing may begin any more."""
        if self.is_over:
            raise self._make_interrupted()

    async def wait(self, awaitable: Awaitable[T]) -> T:
        """Return the awaitable's result. On a timeout or cancellation, cancels the awaitable and raises `Interrupted`.
        Whatever foreign code in it raises becomes an `Exception`."""
        if self.is_over:
            close = getattr(awaitable, "close", None) or getattr(awaitable, "cancel", None)
            if close is not None:  # a coroutine that was never started
                close()
            raise self._make_interrupted()
        task = self._waiting = asyncio.current_task()
        assert task is not None
        cancelled_by_others = task.cancelling()
        try:
            return await awaitable
        except Exception:
            raise
        except BaseException as error:
            if not is_ours(error):
                raise make_foreign_exit(error) from error
            if isinstance(error, asyncio.CancelledError) and self._expired and task.uncancel() <= cancelled_by_others:
                raise self._make_interrupted() from error
            raise
        finally:
            self._waiting = None

    def _make_interrupted(self) -> Interrupted:
        return Interrupted(StopReason.CANCELLED if self._cancelled else StopReason.MAX_EXECUTION_TIME_EXCEEDED)
