"""The events of a run in a server's database, and of its members, also while it goes on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..display.run_tree import format_clock_time
from ..errors import UsageError
from .event_lines import EventLine
from .server_database import read_database

if TYPE_CHECKING:
    from ..store.team_logs import TeamRun

_USUAL = "default"  # the tenant of a server that has no others
_EVERY = 0.2  # seconds between two looks at a run that goes on


def stored_run(run_id: str, db: str, *, follow: bool = False) -> tuple[str, Iterator[EventLine]]:
    """Return a title of the run, and its events, which come as long as it goes on if they are to `follow` it. Raises
    `UsageError` if there is no such run."""
    with read_database(db) as connection:
        from ..store.team_logs import find_top

        top = find_top(connection, run_id)
    if top is None:
        raise UsageError(f"the database {db.split('@')[-1]} has no run {run_id}")
    return _title(top), _events(run_id, db, follow=follow)


def _title(run: TeamRun) -> str:
    began = format_clock_time(run.created_at, "%Y-%m-%d %H:%M:%S")
    words = [run.id, run.kind, run.status.replace("_", " "), began]
    return " · ".join([*words, f"tenant {run.tenant}"] if run.tenant != _USUAL else words)


def _events(run_id: str, db: str, *, follow: bool) -> Iterator[EventLine]:
    with read_database(db) as connection:
        from ..store.team_logs import TeamLogs

        logs = TeamLogs(run_id)
        while True:
            for path, entry in logs.read(connection, whole=not follow):
                yield EventLine(path, entry.event, entry.at)
            if not follow or not logs.active:
                return
            time.sleep(_EVERY)
