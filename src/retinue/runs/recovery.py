"""Going on with what the last process left, so that a run that ends processes does not take others along."""

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
    """Drive what the last process left; how many runs that are. Those whose last drives brought nothing come one by
    one, those that were driven least first, each as soon as the one before has come any further: what ends the
    process is then known, and the others have their turn before it."""
    found = await runs.database.read(unfinished_runs)
    suspects = [(run, tries) for _, run, tries in found if run is not None and is_suspect(tries)]
    for run_id, run, tries in found:
        if run is None or not is_suspect(tries):
            runs.start(run_id, run)
    if suspects:
        in_turn = [run for run, _ in sorted(suspects, key=itemgetter(1))]
        runs.beside("the beginning of runs that may end the process", partial(_one_by_one, runs, in_turn))
    return len(found)


async def _one_by_one(runs: Runs, suspects: Sequence[RunRow]) -> None:
    for run in suspects:
        further = asyncio.create_task(_further(runs, run))
        try:
            await asyncio.wait([runs.start(run.id, run), further], return_when=asyncio.FIRST_COMPLETED)
        finally:
            further.cancel()


async def _further(runs: Runs, run: RunRow) -> None:
    """Wait until a run has come further."""
    async with aclosing(runs.followers.follow(run.id, run.state["claims"][0], listens=False)) as items:
        async for item in items:
            if isinstance(item, Entry) and not isinstance(item.event, Said):
                return
