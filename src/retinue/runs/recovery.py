"""Recovery: goes on with the runs of processes that have ended, so that a run that kills processes does not take others
with it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from functools import partial
from operator import itemgetter

from ..core.events import Said
from ..store.event_log import Entry
from ..store.run_queries import suspended_runs
from ..store.run_row import RunRow
from .driver import Runs
from .leases import SUSPECT, is_suspect, unfinished_runs


class Recovery:
    """Drives the runs that other processes left, whenever `recover` is called.

    Runs whose last drives made no progress start one after the other, fewest attempts first, each once the one before
    it has made progress, or has not killed the process for a while. A run that kills the process is thereby
    identified, and the others are driven before it. If something else kills the process, all of them soon go on side
    by side.

    `patience` is the number of seconds for which the first attempt of a suspect is watched; each further one is watched
    four times as long.
    """

    def __init__(self, runs: Runs, patience: float = 0.5) -> None:
        self._runs = runs
        self._patience = patience
        self._suspects: set[str] = set()  # that wait for one another
        self._suspended: set[str] = set()  # that were tried once: their agents had changed
        self._alone = asyncio.Lock()

    async def recover(self) -> int:
        """Start what may be driven and is not: of a database that others share, as much as this process has room for.
        Return the number of runs."""
        runs = self._runs
        if self._suspended:  # some may be to go on regardless by now
            self._suspended &= {run.id for run in await runs.database.read(suspended_runs)}
        but = {*runs.here, *self._suspects, *self._suspended}
        most = max(0, runs.turns.at_once - len(but)) if runs.database.is_shared else None
        left = partial(unfinished_runs, process=runs.database.process, but=but, most=most, limits=runs.limits)
        found = await runs.database.read(left)
        self._suspended |= {run.id for _, run, _ in found if run is not None and run.suspended}
        suspects = [(run, tries) for _, run, tries in found if run is not None and is_suspect(tries)]
        for run_id, run, tries in found:
            if run is None or not is_suspect(tries):
                runs.start(run_id, run)
        if suspects:
            in_turn = sorted(suspects, key=itemgetter(1))
            self._suspects |= {run.id for run, _ in in_turn}
            runs.beside("starting the runs that may kill the process", partial(self._one_by_one, in_turn))
        return len(found)

    async def start(self, run: RunRow, tries: int) -> asyncio.Task[None]:
        """Start a run that was driven `tries` times without progress. If it may be what kills processes, wait for the
        one before it, and then until it has made progress, or was watched for long enough. Return its task."""
        if not is_suspect(tries):
            return self._runs.start(run.id, run)
        async with self._alone:
            further = asyncio.create_task(self._further(run))
            try:
                task = self._runs.start(run.id, run)
                watched = self._patience * 4 ** (tries - SUSPECT)
                await asyncio.wait([task, further], timeout=watched, return_when=asyncio.FIRST_COMPLETED)
                return task
            finally:
                further.cancel()

    async def _one_by_one(self, suspects: Sequence[tuple[RunRow, int]]) -> None:
        for run, tries in suspects:
            try:
                await self.start(run, tries)
            finally:
                self._suspects.discard(run.id)

    async def _further(self, run: RunRow) -> None:
        """Wait until the run has made progress."""
        async with aclosing(self._runs.followers.follow(run.id, run.progress or 0, listens=False)) as items:
            async for item in items:
                if isinstance(item, Entry) and not isinstance(item.event, Said):
                    return


async def recover_runs(runs: Runs) -> int:
    """Drive the runs that the previous process left, and return their number."""
    return await Recovery(runs).recover()
