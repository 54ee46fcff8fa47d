"""What commands change of runs in SQLite's file while a server has it open. On PostgreSQL, `Peers` sees to it."""

from __future__ import annotations

from functools import partial

from ..store.run_queries import RunMark, marks_of
from .driver import Runs


class OutsideChanges:
    """Finds the runs that were changed otherwise than through `runs`."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._marks: dict[str, RunMark] = {}

    async def heed(self) -> None:
        """Interrupt the runs that were cancelled, and tell the subscribers of those that are not driven what is new."""
        runs = self._runs
        if runs.database.is_shared:
            return
        if runs.here:
            await runs.interrupt_cancelled()
        resting = [run_id for run_id in runs.followers.followed if run_id not in runs.here]
        marks = await runs.database.read(partial(marks_of, run_ids=resting)) if resting else {}
        for run_id, mark in marks.items():
            if self._marks.get(run_id) != mark:  # or is followed since
                runs.followers.look(run_id)
        self._marks = marks
