"""What becomes of a copy of a database before a server opens it, and what a copy holds."""

from __future__ import annotations

import time
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, inspect, select

from .migrations import version_of
from .processes import database_time
from .run_queries import shift_expiry
from .tables import processes, runs

UNDER_WAY = ("queued", "in_progress", "cancelling")


class Contents(NamedTuple):
    """What a database holds: its schema's `version`, and how many `runs`, of which so many are `under_way` or
    `waiting` for a person or a client."""

    version: int
    runs: int
    under_way: int
    waiting: int


def contents_of(connection: Connection) -> Contents:
    """Return what a database holds, whatever Retinue made it."""
    found = connection.execute(select(runs.c.status, func.count()).group_by(runs.c.status))
    counts: dict[str, int] = dict(row.tuple() for row in found)
    under_way = sum(counts.get(status, 0) for status in UNDER_WAY)
    return Contents(version_of(connection) or 0, sum(counts.values()), under_way, counts.get("requires_action", 0))


def settle_copy(connection: Connection) -> float | None:
    """Free a copy of the servers that had the original open, and give its runs the time that they have lost since.
    Return when the copy was made, in Unix seconds; `None` if no server had the original open."""
    if not inspect(connection).has_table(processes.name):
        return None
    made: float | None = connection.execute(select(func.max(processes.c.seen_at))).scalar()
    connection.execute(delete(processes))
    if made is None:
        return None
    if (age := database_time(connection) - made) > 0:
        shift_expiry(connection, round(age))
    return min(made, time.time())


def unfinished_ids(connection: Connection) -> list[str]:
    """Return the ids of the runs that are queued or under way, oldest first: callers before their members."""
    query = select(runs.c.id).where(runs.c.status.in_(UNDER_WAY)).order_by(runs.c.number)
    return list(connection.execute(query).scalars())
