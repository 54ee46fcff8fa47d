"""Queries over many runs: what to drive, what is late or old, and a tenant's lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, bindparam, exists, func, null, select, update

from .due import DRIVEN
from .prepared_statements import Prepared
from .run_row import ACTIVE, ENDED, Kind, RunRow, Status
from .run_store import COLUMNS, delete_runs, find_run, read_runs
from .tables import events, run_metadata, runs
from .tenant_view import Page, TenantView

_AT_ONCE = 500  # ids per statement
_NO_LIMIT = 2**31 - 1
ROWS = select(*(runs.c[name] for name in COLUMNS))
_MEMBERS = Prepared(
    select(runs.c.id, runs.c.status).where(runs.c.parent_id == bindparam("run"), runs.c.holds).order_by(runs.c.number)
)
_OF_THREAD = runs.c.thread_id == bindparam("thread")
_HOLDING = select(runs.c.id).where(_OF_THREAD, runs.c.holds)
_HOLDER, _LOCK_HOLDER = Prepared(_HOLDING), Prepared(_HOLDING.with_for_update(key_share=True))
_QUEUED = select(runs.c.id).where(_OF_THREAD, runs.c.status == "queued", ~exists(_HOLDING))
_NEXT = Prepared(_QUEUED.order_by(runs.c.number).limit(1))
_SUSPENDED = (runs.c.status == "queued", runs.c.error.is_not(null()))


# what every server asks again and again
_last = select(func.max(events.c.seq)).where(events.c.run_id == runs.c.id).scalar_subquery()
_MARKS = select(runs.c.id, runs.c.epoch, runs.c.status, _last).where(
    runs.c.id.in_(bindparam("ids", expanding=True))  # each time another number of them, so it cannot be prepared
)


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which of a tenant's runs a list has. `threaded` says whether they have a thread, and `members` whether runs
    that others called are among them; fields that are `None` or empty exclude nothing."""

    thread_id: str | None = None
    parent_id: str | None = None
    forked_from: str | None = None
    threaded: bool | None = None
    kind: Kind | None = None
    agent: str | None = None
    stored: bool | None = None
    statuses: Sequence[str] = ()
    created_after: int | None = None
    created_before: int | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    members: bool = True


def page_runs(connection: Connection, scope: TenantView, page: Page, wanted: RunFilter) -> tuple[list[RunRow], bool]:
    """Return a page of the tenant's runs, in its order, and whether more follow."""
    ids, more = scope.page_ids(connection, runs, page, *conditions(scope, wanted))
    found = {run.id: run for run in read_runs(connection, ROWS.where(runs.c.id.in_(ids)))}
    return [found[run_id] for run_id in ids], more


def own_run_ids(connection: Connection, scope: TenantView, run_ids: Iterable[str]) -> set[str]:
    """Return those of the ids that are runs of the tenant."""
    mine = select(runs.c.id).where(runs.c.tenant == scope.tenant, runs.c.id.in_(sorted(run_ids)))
    return set(connection.execute(mine).scalars())


def count_runs(connection: Connection, scope: TenantView, wanted: RunFilter) -> int:
    """Return how many of the tenant's runs `wanted` selects."""
    mine = (runs.c.tenant == scope.tenant, *conditions(scope, wanted))
    return connection.execute(select(func.count()).select_from(runs).where(*mine)).scalar() or 0


def thread_holder(connection: Connection, thread_id: str, *, lock: bool = False) -> RunRow | None:
    """Return the run that holds a thread, or `None`. `lock` locks it until the transaction ends."""
    found = (_LOCK_HOLDER if lock else _HOLDER).rows(connection, {"thread": thread_id})
    return find_run(connection, found[0][0]) if found else None


def next_waiting_run(connection: Connection, thread_id: str) -> str | None:
    """Return the id of the oldest run that waits for a thread; `None` if the thread is held or no run waits."""
    found = _NEXT.rows(connection, {"thread": thread_id})
    return found[0][0] if found else None


def active_members(connection: Connection, run_id: str) -> dict[str, Status]:
    """Return the status of each run of a run's members that has not ended, by its id, oldest first."""
    return dict(_MEMBERS.rows(connection, {"run": run_id}))


def active_team(connection: Connection, run_id: str) -> list[RunRow]:
    """Return the runs of a run's members, at all levels, that have not ended."""
    members = [run for one in active_members(connection, run_id) if (run := find_run(connection, one)) is not None]
    return [*members, *(below for one in members for below in active_team(connection, one.id))]


def last_handoff(connection: Connection, run: RunRow, beginning: str) -> str | None:
    """Return the path of the agent to which the last run on the run's thread before it handed the conversation over, or
    `None`. The names of such members begin with `beginning`."""
    caller, member = runs.alias(), runs.alias()
    now = select(runs.c.number).where(runs.c.id == run.id).scalar_subquery()
    before = (caller.c.thread_id == run.thread_id, caller.c.agent == run.agent, caller.c.number < now)
    query = select(member.c.id, member.c.agent).join(caller, member.c.parent_id == caller.c.id)
    found = query.where(*before, member.c.status == "completed").order_by(member.c.number.desc())
    path = None
    for run_id, agent in connection.execute(found.limit(_AT_ONCE)):
        if agent.rpartition("/")[2].startswith(beginning):
            path = _last_of_chain(connection, run_id, agent, beginning)
            break
    return path


def _last_of_chain(connection: Connection, run_id: str, path: str, beginning: str) -> str:
    """Return where a conversation ended up that was handed over within one run."""
    below = select(runs.c.id, runs.c.agent).where(runs.c.parent_id == run_id, runs.c.status == "completed")
    for member_id, agent in connection.execute(below.order_by(runs.c.number.desc())):
        if agent.rpartition("/")[2].startswith(beginning):
            return _last_of_chain(connection, member_id, agent, beginning)
    return path


class RunMark(NamedTuple):
    """What changes when a run has news: its epoch, its status, and the number of its log's last event."""

    epoch: int
    status: str = ""
    last: int = 0


def marks_of(connection: Connection, run_ids: Sequence[str]) -> dict[str, RunMark]:
    """Return the mark of each of the runs that exist."""
    found: dict[str, RunMark] = {}
    for start in range(0, len(run_ids), _AT_ONCE):
        for run_id, epoch, status, last in connection.execute(_MARKS, {"ids": run_ids[start : start + _AT_ONCE]}):
            found[run_id] = RunMark(epoch, status, last or 0)
    return found


def suspended_runs(connection: Connection) -> list[RunRow]:
    """Return the runs of all tenants that are suspended since their agents changed, oldest first."""
    return read_runs(connection, ROWS.where(*_SUSPENDED).order_by(runs.c.number))


def shift_expiry(connection: Connection, by: int) -> None:
    """Shift the expiry of all runs by as many seconds as the clock was changed."""
    connection.execute(update(runs).where(runs.c.expires_at.is_not(None)).values(expires_at=runs.c.expires_at + by))


def delete_old_runs(connection: Connection, before: int | None, unstored_before: int | None, most: int) -> int:
    """Delete at most `most` runs that have ended, with those of their members. Return how many.

    Args:
        connection: A connection.
        before: Deletes runs created before this time, in Unix seconds; `None`: none of them.
        unstored_before: Deletes runs created before this time that have no thread and are not stored, likewise.
        most: The size of a batch.
    """
    tops = runs.c.parent_id.is_(None)  # members go with their callers, which find their answers there
    unstored = (runs.c.thread_id.is_(None), ~runs.c.stored, runs.c.status.not_in(ACTIVE))
    of_status = [(runs.c.status == one, runs.c.created_at < before) for one in ENDED] if before is not None else []
    of_chats = [(*unstored, runs.c.created_at < unstored_before)] if unstored_before is not None else []
    found: list[str] = []
    for old in (*of_chats, *of_status):  # one after the other, so that an index finds each
        query = select(runs.c.id).where(*old, tops, runs.c.id.not_in(found))
        found += connection.execute(query.limit(most - len(found))).scalars()
    if found:
        delete_runs(connection, found)
    return len(found)


def delete_thread_runs(connection: Connection, scope: TenantView, thread_id: str) -> list[RunRow]:
    """Delete the runs of a thread. Return those that held it, and those of their members that had not ended."""
    mine = (runs.c.tenant == scope.tenant, runs.c.thread_id == thread_id)
    there = read_runs(connection, ROWS.where(*mine, runs.c.holds))
    there += [member for run in there for member in active_team(connection, run.id)]
    delete_runs(connection, connection.execute(select(runs.c.id).where(*mine)).scalars().all())
    return there


def count_of_key(connection: Connection, key_id: str | None) -> int:
    """Return how many runs of an API key are active or queued; those that wait for a person or their agent do not
    count."""
    mine = (runs.c.key_id == key_id, runs.c.status.in_(DRIVEN), runs.c.error.is_(null()))
    query = select(func.count()).select_from(runs).where(*mine)
    return connection.execute(query).scalar() or 0


def count_by_status(connection: Connection, scope: TenantView) -> dict[str, int]:
    """Return the number of the tenant's runs by status."""
    query = select(runs.c.status, func.count()).where(runs.c.tenant == scope.tenant).group_by(runs.c.status)
    return {row[0]: row[1] for row in connection.execute(query)}


def count_all_by_status(connection: Connection) -> dict[str, int]:
    """Return the number of all tenants' runs by status."""
    return {row[0]: row[1] for row in connection.execute(select(runs.c.status, func.count()).group_by(runs.c.status))}


def conditions(scope: TenantView, wanted: RunFilter) -> list[ColumnElement[bool]]:
    """Return the conditions of a filter, in a query of the tenant's runs."""
    same = {
        "thread_id": wanted.thread_id,
        "parent_id": wanted.parent_id,
        "forked_from": wanted.forked_from,
        "kind": wanted.kind,
        "agent": wanted.agent,
        "stored": wanted.stored,
    }
    found: list[ColumnElement[bool]] = [runs.c[name] == value for name, value in same.items() if value is not None]
    if wanted.threaded is not None:  # phrased so that no index over all tenants' threads is used
        none = func.coalesce(runs.c.thread_id, "") == ""
        found.append(~none if wanted.threaded else none)
    if len(wanted.statuses) == 1:  # so that an index gives them in the list's order
        found.append(runs.c.status == wanted.statuses[0])
    elif wanted.statuses:
        found.append(runs.c.status.in_(wanted.statuses))
    if not wanted.members:
        found.append(runs.c.parent_id.is_(null()))
    if wanted.created_after is not None:
        found.append(runs.c.created_at > wanted.created_after)
    if wanted.created_before is not None:
        found.append(runs.c.created_at < wanted.created_before)
    for name, value in wanted.metadata.items():
        one = (run_metadata.c.tenant == scope.tenant, run_metadata.c.name == name, run_metadata.c.value == value)
        found.append(runs.c.id.in_(select(run_metadata.c.run_id).where(*one)))
    return found
