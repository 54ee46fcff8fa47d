"""Recovery: resumes the previous process's runs, so that one that kills processes does not take others with it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from functools import partial
from operator import itemgetter

from ..core.events import Said
from ..store.event_log import Entry
from ..store.run_row import RunRow
from .driver import Runs
from .leases import is_suspect, unfinished_runs


async def recover_runs(runs: Runs) -> int:
    """Drive the runs that the previous process left, and return their number. Runs whose last drives made no progress
    start one at a time, fewest attempts first, each once the one before it has made progress. A run that kills the
    process is thereby identified, and the others are driven before it."""
    found = await runs.database.read(unfinished_runs)
    suspects = [(run, tries) for _, run, tries in found if run is not None and is_suspect(tries)]
    for run_id, run, tries in found:
        if run is None or not is_suspect(tries):
            runs.start(run_id, run)
    if suspects:
        in_turn = [run for run, _ in sorted(suspects, key=itemgetter(1))]
        runs.beside("starting the runs that may kill the process", partial(_one_by_one, runs, in_turn))
    return len(found)


async def _one_by_one(runs: Runs, suspects: Sequence[RunRow]) -> None:
    for run in suspects:
        further = asyncio.create_task(_further(runs, run))
        try:
            await asyncio.wait([runs.start(run.id, run), further], return_when=asyncio.FIRST_COMPLETED)
        finally:
            further.cancel()


async def _further(runs: Runs, run: RunRow) -> None:
    """Wait until the run has made progress."""
    async with aclosing(runs.followers.follow(run.id, run.progress or 0, listens=False)) as items:
        async for item in items:
            if isinstance(item, Entry) and not isinstance(item.event, Said):
                return
