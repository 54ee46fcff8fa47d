"""Redispatch: finds the runs whose dispatch was lost, and those that nobody drives any more."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

from sqlalchemy import Connection

from ..runs import Runs
from ..runs.concurrency_limits import ConcurrencyLimits
from ..store.processes import is_leader
from ..store.run_queries import runs_of_the_dead, runs_to_drive, suspended_runs

_FIRST, _MOST = 2.0, 60.0  # seconds from one look at a run to the next dispatch, which doubles
_AT_ONCE = 1_000


class Ensures(Protocol):
    """Sees to it that a run has a workflow, and returns whether it could."""

    async def ensure(self, run_id: str) -> bool:
        """See to it."""
        ...


@dataclass(frozen=True, slots=True)
class _Due:
    at: float  # seconds of the clock
    wait: float


class _Left(NamedTuple):
    leads: bool
    free: list[str]
    orphans: frozenset[str]
    suspended: list[str]


class Redispatch:
    """Dispatches the runs that are to be driven and that no living process has, if this process leads.

    Most of them have a workflow, and wait in a queue of Temporal's. So a run is dispatched once it has been found for
    two seconds, or at once if a process died that drove it, and then after twice as long each time. If it has a
    workflow, this costs Temporal nothing but the answer.

    Every process that `drives` tries each run once whose agent had changed: it may have the agent that the run began
    with. `clock` returns seconds.
    """

    def __init__(
        self, runs: Runs, dispatcher: Ensures, *, drives: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._runs = runs
        self._dispatcher = dispatcher
        self._drives = drives
        self._due: dict[str, _Due] = {}
        self._tried: set[str] = set()

    async def recover(self) -> int:
        """Dispatch the runs that are due. Return their number."""
        process, limits = self._runs.database.process, self._runs.limits
        left = await self._runs.database.read(partial(_left, process=process, limits=limits))
        if self._drives:
            for run_id in {*left.suspended} - self._tried:
                self._runs.start(run_id)
        self._tried |= {*left.suspended}
        if not left.leads:
            self._due.clear()
            return 0
        now, free = self._clock(), [one for one in left.free if one not in self._runs.here]
        found = {one: _Due(now if one in left.orphans else now + _FIRST, _FIRST) for one in free}
        self._due = {one: self._due.get(one) or due for one, due in found.items()}
        return await self._ensure(now)

    async def _ensure(self, now: float) -> int:
        late = [one for one, due in self._due.items() if due.at <= now]
        for number, run_id in enumerate(late):
            if not await self._dispatcher.ensure(run_id):
                return number  # it is away; the others would only wait for it
            wait = min(_MOST, self._due[run_id].wait * 2)
            self._due[run_id] = _Due(now + wait, wait)
        return len(late)


def _left(connection: Connection, process: str, limits: ConcurrencyLimits | None) -> _Left:
    leads = is_leader(connection, process)
    suspended = [run.id for run in suspended_runs(connection)]
    free: list[str] = []
    orphans: frozenset[str] = frozenset()
    if leads and limits is not None:  # nobody else dispatches a run that gets room since a worker died
        free = limits.next_runs(connection, process, _AT_ONCE + len(suspended))
        orphans = frozenset(free)
    elif leads:
        free = runs_to_drive(connection, process, _AT_ONCE + len(suspended))
        orphans = frozenset(runs_of_the_dead(connection, process))
    return _Left(leads, [one for one in free if one not in {*suspended}], orphans, suspended)
