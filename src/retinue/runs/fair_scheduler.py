"""Fair scheduling: limits how many runs are driven at once, and in which order the others wait."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from itertools import count
from typing import TypeVar

from ..store.run_row import RunRow

T = TypeVar("T")
AT_ONCE = 200
_TIMES_FREE = 9  # a tenant drives at most so many times as many runs as there are free places
_SEVERAL, _KEPT = 10, 20  # of several places, one in so many is kept for tenants of which no run is driven


class FairScheduler:
    """Grants turns to at most `at_once` runs at a time, round-robin over tenants and oldest run first.

    Places are shared, too: some are kept for tenants of which no run is driven, and of the others a tenant gets another
    one only while it has less than nine times as many as are free.

    `most` returns the concurrency limit of an API key, given the key's id; `None` means no limit."""

    def __init__(self, at_once: int = AT_ONCE, most: Callable[[str | None], int | None] = lambda key_id: None) -> None:
        self.at_once = at_once
        self._most = most
        self._arrivals = count()
        self._lanes: dict[str, dict[str | None, list[_Turn]]] = {}  # by tenant (next one first) and key
        self._waiting: dict[str, _Turn] = {}
        self._driven: Counter[str | None] = Counter()
        self._driven_of: Counter[str] = Counter()  # by tenant
        self._here: Counter[str | None] = Counter()

    @property
    def driven(self) -> int:
        """The number of runs being driven."""
        return self._driven.total()

    @property
    def queued(self) -> int:
        """The number of runs that wait."""
        return len(self._waiting)

    @property
    def waiting(self) -> list[str]:
        """The ids of the waiting runs."""
        return list(self._waiting)

    def of_key(self, key_id: str | None) -> int:
        """Return how many runs of an API key are driven or waiting."""
        return self._here[key_id]

    @asynccontextmanager
    async def turn(self, run: RunRow, *, waits: bool = True) -> AsyncIterator[None]:
        """Enter the block when it is the run's turn. With `waits=False`, enter at once and do not count the run."""
        turn = _Turn(run, next(self._arrivals))
        self._here[run.key_id] += 1
        try:
            if waits:
                self._waiting[run.id] = turn
                heappush(self._lanes.setdefault(run.tenant, {}).setdefault(run.key_id, []), turn)
                self._call()
                await turn.come
            yield
        finally:
            if self._waiting.get(run.id) is turn:
                del self._waiting[run.id]
            turn.come.cancel()
            _one_less(self._here, run.key_id)
            if turn.counted:
                _one_less(self._driven, run.key_id)
                _one_less(self._driven_of, run.tenant)
            self._call()

    def let_by(self, run_id: str) -> None:
        """Give a waiting run its turn at once, uncounted, because it only has to end."""
        if (turn := self._waiting.pop(run_id, None)) is not None and not turn.come.done():
            turn.come.set_result(None)

    def _call(self) -> None:
        """Grant turns while there is room."""
        while self._driven.total() < self.at_once and (turn := self._next()) is not None:
            self._waiting.pop(turn.run.id, None)
            turn.counted = True
            self._driven[turn.run.key_id] += 1
            self._driven_of[turn.run.tenant] += 1
            turn.come.set_result(None)

    def _next(self) -> _Turn | None:
        kept = max(1, self.at_once // _KEPT) if self.at_once >= _SEVERAL else 0
        most = _TIMES_FREE * (self.at_once - kept - self._driven.total())
        for tenant in list(self._lanes):
            lanes = self._lanes[tenant]
            for key_id, lane in list(lanes.items()):
                while lane and lane[0].come.done():  # let by or abandoned
                    heappop(lane)
                if not lane:
                    del lanes[key_id]
            if not lanes:
                del self._lanes[tenant]
                continue
            open_ = [lane for key_id, lane in lanes.items() if self._has_room(key_id)]
            if open_ and (not self._driven_of[tenant] or self._driven_of[tenant] < most):
                self._lanes[tenant] = self._lanes.pop(tenant)  # moves to the end
                return heappop(min(open_, key=lambda lane: lane[0]))
        return None

    def _has_room(self, key_id: str | None) -> bool:
        most = self._most(key_id)
        return most is None or self._driven[key_id] < most


class _Turn:
    """A run's place in the queue; `come` resolves when its turn comes. Turns sort by age."""

    __slots__ = ("_age", "come", "counted", "run")

    def __init__(self, run: RunRow, arrival: int) -> None:
        self.run = run
        self.come: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.counted = False
        self._age = (run.created_at, arrival)

    def __lt__(self, other: _Turn) -> bool:
        return self._age < other._age


def _one_less(counted: Counter[T], key: T) -> None:
    """Decrement a count, and forget those that reach zero."""
    counted[key] -= 1
    if not counted[key]:
        del counted[key]
