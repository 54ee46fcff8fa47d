"""What waits in the whole database, and how many processes live: for metrics, by indexes on what is active alone."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, case, func, null, or_, select

from .due import DRIVEN, may_take
from .processes import count_alive, is_leader
from .tables import runs, submissions

MOST = 100_000
"""At most so many active runs are looked at, so that a long queue costs no more than that."""
_OLDEST = 1_000  # runs among which the one is looked for that waits longest


class QueueFigures(NamedTuple):
    """The figures of a database.

    Args:
        queued: Runs that wait for a process.
        suspended: Runs that wait for their agents.
        for_people: Runs that wait for a person or their client, without those of members.
        since: When the run that waits longest for a process was created or last answered, in Unix seconds.
        alive: Processes that show they are alive.
        leads: Whether this process leads.
    """

    queued: int
    suspended: int
    for_people: int
    since: float | None
    alive: int
    leads: bool


def queue_figures(connection: Connection, process: str) -> QueueFigures:
    """Return the figures, as `process` sees them."""
    queued, suspended = connection.execute(_WAITING).one()
    for_people = connection.execute(_FOR_PEOPLE).scalar() or 0
    since = connection.execute(_SINCE).scalar() if queued else None
    alive, leads = count_alive(connection), is_leader(connection, process)
    return QueueFigures(queued or 0, suspended or 0, for_people, since, alive, leads)


_asleep = (runs.c.status == "queued") & runs.c.error.is_not(null())
_free = runs.c.holds & runs.c.error.is_(null()) & may_take("")
_driven = (
    select(case((_free, 1), else_=0).label("free"), case((_asleep, 1), else_=0).label("asleep"))
    .where(or_(*(runs.c.status == one for one in DRIVEN)))
    .limit(MOST)
    .subquery()
)
_WAITING = select(func.sum(_driven.c.free), func.sum(_driven.c.asleep))
_people = (
    select(runs.c.id).where(runs.c.status == "requires_action", runs.c.parent_id.is_(null())).limit(MOST).subquery()
)
_FOR_PEOPLE = select(func.count()).select_from(_people)
_answered = select(func.max(submissions.c.at)).where(submissions.c.run_id == runs.c.id).scalar_subquery()
_queue = (
    select(func.coalesce(_answered, runs.c.created_at).label("since"))
    .where(runs.c.status == "queued", runs.c.holds, runs.c.error.is_(null()))
    .order_by(runs.c.created_at)
    .limit(_OLDEST)
    .subquery()
)
_SINCE = select(func.min(_queue.c.since))
