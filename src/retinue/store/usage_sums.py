"""What each tenant used and keeps, as sums, which the transactions change that write what is counted. Runs, tokens and
money are counted by day, bytes as they are. `limits/quotas.py` says how much of it there may be.

A run's log is counted by appends to it, and `runs.counted` says how far: where a drive ends, after a number of entries,
and with each append if the tenant has a quota. The append, the sum and that number are one transaction, so a drive that
was fenced, or died before its commit, has counted nothing, and the next one counts what it left. A member's use is in
its own log, so what its caller observes of it is not counted again. Days are those of UTC.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from sqlalchemy import ColumnElement, Connection, Integer, Table, bindparam, delete, func, select, text, update

from ..core.events import Event, Observed, request_usage
from ..core.values import Usage
from .clock import CLOCK
from .prepared_statements import Prepared, insert_once
from .processes import is_free
from .run_row import RunRow
from .tables import runs, storage_used, usage_sums, user_sums

DAY = 86_400
NANOS = 1_000_000_000
"""Money is counted in billionths, as whole numbers: their sum does not depend on the order."""
SHARED = ""
"""The part of what ended processes counted, and of SQLite's one writer."""
_MOST = 2**62
_USERS_DAYS = 62  # for which users' sums are kept
_KEY = (
    usage_sums.c.tenant == bindparam("of"),
    usage_sums.c.day == bindparam("on"),
    usage_sums.c.part == bindparam("by"),
)
_COUNTS = ("runs", "tokens", "cost")


def _added(table: Table) -> dict[str, ColumnElement[int]]:
    return {name: table.c[name] + bindparam(f"more_{name}") for name in _COUNTS}


_ADD = Prepared(update(usage_sums).where(*_KEY).values(_added(usage_sums)))
_ADD_OF_USER = Prepared(
    update(user_sums)
    .where(
        user_sums.c.tenant == bindparam("of"),
        user_sums.c.user == bindparam("whose"),
        user_sums.c.day == bindparam("on"),
        user_sums.c.part == bindparam("by"),
    )
    .values(_added(user_sums))
)
_USED_BY = Prepared(
    select(*(func.sum(user_sums.c[name]) for name in _COUNTS)).where(
        user_sums.c.tenant == bindparam("of"),
        user_sums.c.user == bindparam("whose"),
        user_sums.c.day == bindparam("on"),
    )
)
_USED = Prepared(
    select(
        usage_sums.c.day,
        *(func.sum(usage_sums.c[name]) for name in _COUNTS),
    )
    .where(usage_sums.c.tenant == bindparam("of"), usage_sums.c.day >= bindparam("since"))
    .group_by(usage_sums.c.day)
)

_COUNTED = Prepared(select(runs.c.counted).where(runs.c.id == bindparam("run")))
_MARK = Prepared(update(runs).where(runs.c.id == bindparam("run")).values(counted=bindparam("upto", type_=Integer())))
_OF_TENANT = storage_used.c.tenant == bindparam("of")
_SUM = select(func.sum(storage_used.c.bytes)).where(_OF_TENANT)
_KEPT, _KEPT_OF_A_KIND = Prepared(_SUM), Prepared(_SUM.where(storage_used.c.what == bindparam("kind")))
_FOLD = text("""
    WITH ended AS (
        DELETE FROM storage_used WHERE part <> 0 AND part NOT IN (SELECT pid FROM pg_stat_activity) RETURNING *
    )
    INSERT INTO storage_used SELECT tenant, what, 0, sum(bytes) FROM ended GROUP BY tenant, what ORDER BY tenant, what
    ON CONFLICT (tenant, what, part) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes
""")
_MEMBERS = Prepared(select(runs.c.call_id).where(runs.c.parent_id == bindparam("run")))


class Used(NamedTuple):
    """Runs that began, tokens of requests to models, and what these cost, in billionths."""

    runs: int = 0
    tokens: int = 0
    cost: int = 0

    def plus(self, more: Used) -> Used:
        """Return the sum."""
        return Used(self.runs + more.runs, self.tokens + more.tokens, self.cost + more.cost)


NOTHING = Used()


def day_of(at: float) -> int:
    """Return the day of a time in Unix seconds, in UTC."""
    return int(at // DAY)


def month_begin(at: float) -> int:
    """Return the first day of the month that a time in Unix seconds is in, in UTC."""
    return day_of(at) - datetime.fromtimestamp(at, UTC).day + 1


USING = ("replied", "observed", "retried", "stopped", "judged", "compacted")
"""The kinds of events that may say what was used."""


def use_of(event: Event, members: Container[str]) -> Usage | None:
    """Return what an event says was used; `None` if nothing. `members` are calls of members, whose own logs say it."""
    match event:
        case Observed(observation=seen):
            return seen.usage if seen.usage and seen.call_id not in members else None
    return request_usage(event)


def used_by(usage: Usage) -> Used:
    """Return what a request used, as it is counted. What no sum could hold counts as nothing."""
    cost = usage.cost * NANOS
    tokens = usage.total_tokens
    return Used(0, tokens if 0 <= tokens < _MOST else 0, round(cost) if 0 <= cost < _MOST else 0)


def count_use(connection: Connection, run: RunRow, log: Sequence[tuple[int, float, Event]], length: int) -> None:
    """Count what the first `length` entries of a run's log say was used and was not counted yet, in the transaction
    that appends the last of them. `log` has them: numbers from 1, times and events."""
    rows = _COUNTED.rows(connection, {"run": run.id})
    if not rows or rows[0][0] >= length:
        return
    days: dict[int, Used] = {}
    members: Container[str] | None = None
    for _, at, event in log[rows[0][0] : length]:
        if members is None and isinstance(event, Observed) and event.observation.usage:
            members = {call for (call,) in _MEMBERS.rows(connection, {"run": run.id})}
        if (usage := use_of(event, members or ())) is not None:
            day = day_of(at)
            days[day] = days.get(day, NOTHING).plus(used_by(usage))
    for day in sorted(days):
        if days[day] != NOTHING:
            add_to_sum(connection, run.tenant, day, run.driver or SHARED, days[day], run.user)
    mark_counted(connection, run.id, length)


def mark_counted(connection: Connection, run_id: str, length: int) -> None:
    """Note that the first `length` entries of a run's log are counted, or are copies that are not to be."""
    _MARK.run(connection, {"run": run_id, "upto": length})


def count_run(connection: Connection, tenant: str, created_at: int, process: str, user: str | None) -> None:
    """Count a run for `user`, in the transaction of `process` that inserts it."""
    add_to_sum(connection, tenant, day_of(created_at), process, Used(runs=1), user)


def add_to_sum(
    connection: Connection, tenant: str, day: int, process: str, more: Used, user: str | None = None
) -> None:
    """Add to the parts that are `process`'s of the tenant's sum and the user's."""
    part = SHARED if connection.dialect.name == "sqlite" else process  # SQLite has one writer
    first = {"tenant": tenant, "day": day, "part": part, **more._asdict()}
    values = {"of": tenant, "on": day, "by": part} | {f"more_{name}": value for name, value in more._asdict().items()}
    while not _ADD.run(connection, values):
        if insert_once(connection, usage_sums, first):
            break
    while user and not _ADD_OF_USER.run(connection, values | {"whose": user}):
        if insert_once(connection, user_sums, first | {"user": user}):
            break


def used_by_user(connection: Connection, tenant: str, user: str, day: int) -> Used:
    """Return what a user used on a day."""
    return Used(*(int(one or 0) for one in _USED_BY.rows(connection, {"of": tenant, "whose": user, "on": day})[0]))


def used_since(connection: Connection, tenant: str, day: int) -> dict[int, Used]:
    """Return what a tenant used on each day from `day` on."""
    rows = _USED.rows(connection, {"of": tenant, "since": day})
    return {row[0]: Used(*map(int, row[1:])) for row in rows}


def fold_parts(connection: Connection) -> None:
    """Add the sums of processes that have ended to the common ones, and drop those of users of past months. Only one
    process may do so at a time."""
    connection.execute(delete(user_sums).where(user_sums.c.day < day_of(CLOCK.now()) - _USERS_DAYS))
    if connection.dialect.name == "sqlite":
        return
    past = (usage_sums.c.day < day_of(CLOCK.now()), usage_sums.c.part != SHARED)
    ended = delete(usage_sums).where(*past, is_free(usage_sums.c.part, ""))
    rows = connection.execute(ended.returning(*usage_sums.c)).all()
    for row in sorted(rows, key=lambda one: (one.tenant, one.day)):
        add_to_sum(connection, row.tenant, row.day, SHARED, Used(row.runs, row.tokens, row.cost))


# ── bytes ────────────────────────────────────────────────────────────────────────────────────────

Stored = Literal["texts", "files", "images", "memories", "workspaces"]
"""What triggers count (`schema`), wherever rows are written or deleted. Texts are what clients wrote: runs' requests,
imported logs, threads, messages, items, assistants, tools."""


def bytes_used(connection: Connection, tenant: str, what: Stored) -> int:
    """Return the bytes that a tenant keeps of `what`."""
    return int(_KEPT_OF_A_KIND.rows(connection, {"of": tenant, "kind": what})[0][0] or 0)


def bytes_kept(connection: Connection, tenant: str) -> int:
    """Return the bytes of files, images, memories, workspaces and texts that a tenant keeps."""
    return int(_KEPT.rows(connection, {"of": tenant})[0][0] or 0)


def fold_sessions(connection: Connection) -> None:
    """Add what sessions counted that have ended to the common part, so that there are few parts to add up."""
    if connection.dialect.name == "postgresql":
        connection.execute(_FOLD)
