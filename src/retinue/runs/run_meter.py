"""Meters count the work on runs while a process is watched; `Runs` has none otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..store.event_log import Entry
from ..store.run_row import RunRow


class DriveMeter(Protocol):
    """Counts what one drive commits to its run's log. What it replays is not passed, and no entry is passed twice."""

    def see(self, entries: Sequence[Entry]) -> None:
        """Count entries that are committed."""
        ...


class RunMeter(Protocol):
    """Counts what becomes of runs in this process. Its methods are called in the event loop, after the commit."""

    def drive(self, run: RunRow, log: Sequence[Entry]) -> DriveMeter:
        """Return what counts a drive that found `log`."""
        ...

    def acquired(self, run: RunRow, *, begins: bool, taken_over: bool) -> None:
        """Count a run that this process drives: for the first time of all, or after a process that died."""
        ...

    def drove(self, end: str, seconds: float) -> None:
        """Count a drive that is over, by how it ended."""
        ...

    def ended(self, run: RunRow) -> None:
        """Count a run that this process has ended."""
        ...
