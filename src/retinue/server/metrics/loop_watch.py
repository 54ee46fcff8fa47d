"""Measures how late the event loop is: how long whatever runs in it keeps others waiting."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

EVERY = 0.25  # seconds
KEPT = 40  # measurements: those of ten seconds


class LoopWatch:
    """Wakes regularly in the event loop (`keep_watch`), and says how late that was. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._late: deque[float] = deque(maxlen=KEPT)
        self._due: float | None = None

    async def keep_watch(self) -> None:
        """Measure until cancelled."""
        while True:
            self._due = self._clock() + EVERY
            await asyncio.sleep(EVERY)
            self._late.append(max(0.0, self._clock() - self._due))

    @property
    def overdue(self) -> float:
        """The seconds for which the loop has been late by now, as seen from another thread."""
        return 0.0 if self._due is None else max(0.0, self._clock() - self._due)

    @property
    def lag(self) -> float:
        """The most seconds by which it was late within ten seconds."""
        return max([self.overdue, *tuple(self._late)])
