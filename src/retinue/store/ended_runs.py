"""Queries on runs that have ended."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, func, select

from .run_row import ACTIVE, RunRow
from .run_store import COLUMNS, find_run, read_runs
from .tables import runs


def run_tree(connection: Connection, run_id: str) -> list[RunRow]:
    """Return a run and those of its members, at all levels."""
    run = find_run(connection, run_id)
    if run is None:
        return []
    members = connection.execute(select(runs.c.id).where(runs.c.parent_id == run_id)).scalars().all()
    return [run, *(one for member in members for one in run_tree(connection, member))]


def last_ended_by(connection: Connection, drivers: Sequence[str], seconds: int) -> list[RunRow]:
    """Return the runs that have ended and that one of these processes drove last: those of the last `seconds` before
    the last of them ended."""
    theirs = (runs.c.driver.in_(drivers), runs.c.status.not_in(ACTIVE))
    last = connection.execute(select(func.max(runs.c.ended_at)).where(*theirs)).scalar()
    if last is None:
        return []
    columns = (runs.c[name] for name in COLUMNS)
    return read_runs(connection, select(*columns).where(*theirs, runs.c.ended_at >= last - seconds))
