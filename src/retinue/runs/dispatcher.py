"""Dispatchers see to it that runs are driven: by this process (`Runs.start`), or by any of several workers."""

from __future__ import annotations

from typing import Protocol

from ..store.run_row import RunRow


class Dispatcher(Protocol):
    """Has runs driven.

    A dispatch carries nothing but the run's id: whatever is to be done stands in the run's row and log, which were
    committed before. So a dispatch may be repeated, be late, or reach two processes, of which the run's epoch admits
    one. One that is lost is made up for by a `Recoverer`.
    """

    def __call__(self, run_id: str, run: RunRow | None = None) -> object:
        """Have the run driven soon, and once more if it is being driven, since it has news: it was created or
        cancelled, a person or its client answered, or the last of its members ended. Return at once, and raise nothing.
        Call it in the event loop. Passing the run's row saves a query."""
        ...


class Recoverer(Protocol):
    """Finds the runs that are to be driven and that no living process drives."""

    async def recover(self) -> int:
        """Have them driven. Return their number. Called once when a process joins, and then every second."""
        ...
