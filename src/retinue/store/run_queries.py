"""All queries about runs, in sections: rows; what is to be driven; lists; what lists say beside rows; trees and ended
runs; what limits and metrics count; what is deleted; and copies.

Every update of a run is guarded by what the caller read: its epoch, its status and whether it holds its thread. If any
of these is no longer so, nothing is written, and the caller is told. `metadata` and `deleted` belong to the client
rather than to a drive, so each is written alone, whatever else happens.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple, Unpack

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    null,
    or_,
    select,
    update,
)

from ..core.events import Observed, request_usage
from ..core.serialization import load
from ..core.values import Usage
from ..errors import DataError, StoreConflict
from .due import DRIVEN, may_take
from .memory_states import forget_thread
from .prepared_statements import Prepared, bound_insert
from .processes import count_alive, is_leader
from .run_row import (
    ACTIVE,
    ENDED,
    Kind,
    RunRow,
    RunValues,
    Status,
    Submission,
    column_values,
    dump_submission,
    load_submission,
    run_values,
)
from .tables import (
    conversations,
    events,
    items,
    messages,
    run_metadata,
    runs,
    submissions,
    threads,
)
from .tenant_view import Page, TenantView
from .usage_sums import USING

# --- rows: find, insert, update, delete

COLUMNS = tuple(name for name in RunRow._fields if name != "submissions")
_CHANGES = tuple(name for name in COLUMNS if name != "request")  # `request` may be large and never changes
_USER = COLUMNS.index("user")
_ID = runs.c.id == bindparam("run")
_ROW, _REST = (select(*(runs.c[name] for name in names)).where(_ID) for names in (COLUMNS, _CHANGES))
_OWN = _ROW.where(runs.c.tenant == bindparam("tenant"))
_FIND, _LOCK = Prepared(_ROW), Prepared(_ROW.with_for_update(key_share=True))
_FIND_OWN, _LOCK_OWN = Prepared(_OWN), Prepared(_OWN.with_for_update(key_share=True))
_FIND_REST, _LOCK_REST = Prepared(_REST), Prepared(_REST.with_for_update(key_share=True))
_INSERT = bound_insert(runs, COLUMNS)
_SUBMIT = bound_insert(submissions)
_SUBMITTED = tuple(Submission.__slots__)
_SUBMISSIONS = Prepared(
    select(*(submissions.c[name] for name in _SUBMITTED))
    .where(submissions.c.run_id == bindparam("run"))
    .order_by(submissions.c.number)
)
_MARK = Prepared(
    insert(run_metadata).from_select(
        ["run_id", "tenant", "number", "name", "value"],
        select(
            *(runs.c.id, runs.c.tenant, runs.c.number),
            *(bindparam("key", type_=run_metadata.c.name.type), bindparam("said", type_=run_metadata.c.value.type)),
        ).where(_ID),
    )
)
_ANY_LENGTH = 500  # ids per statement
_GUARD = {"held": "epoch", "was": "status", "held_thread": "holds"}


def find_run(
    connection: Connection, run_id: str, request: Mapping[str, Any] | None = None, *, lock: bool = False
) -> RunRow | None:
    """Return the run, of whatever tenant, or `None`. Passing its `request` saves reading it. `lock` locks the row until
    the transaction ends. Raises one of `UNREADABLE` if the row holds data that we did not write."""
    if request is None:
        rows = (_LOCK if lock else _FIND).rows(connection, {"run": run_id})
        return _run(connection, COLUMNS, rows[0]) if rows else None
    rows = (_LOCK_REST if lock else _FIND_REST).rows(connection, {"run": run_id})
    return _run(connection, (*_CHANGES, "request"), (*rows[0], request)) if rows else None


def find_own_run(connection: Connection, scope: TenantView, run_id: str, *, lock: bool = False) -> RunRow | None:
    """Return the run if `scope` sees it, or `None`; `lock` and the errors are those of `find_run`."""
    rows = (_LOCK_OWN if lock else _FIND_OWN).rows(connection, {"run": run_id, "tenant": scope.tenant})
    if not rows or (scope.user is not None and rows[0][_USER] != scope.user):
        return None
    return _run(connection, COLUMNS, rows[0])


def read_runs(connection: Connection, query: Select[Any]) -> list[RunRow]:
    """Return the runs that a query of all `COLUMNS` selects."""
    found = [_row(COLUMNS, row) for row in connection.execute(query)]
    resumed = [run.id for run in found if run.turns]
    further: dict[str, list[Submission]] = {}
    for start in range(0, len(resumed), _ANY_LENGTH):
        some = submissions.c.run_id.in_(resumed[start : start + _ANY_LENGTH])
        wanted = select(submissions.c.run_id, *(submissions.c[name] for name in _SUBMITTED)).where(some)
        for run_id, *values in connection.execute(wanted.order_by(submissions.c.run_id, submissions.c.number)):
            further.setdefault(run_id, []).append(_submission(values))
    return [run._replace(submissions=tuple(further[run.id])) if run.id in further else run for run in found]


def insert_run(connection: Connection, run: RunRow) -> None:
    """Insert a new run."""
    values = {name: getattr(run, name) for name in COLUMNS}
    _INSERT.run(connection, column_values(values))
    _index_metadata(connection, run)


def update_run(connection: Connection, run: RunRow, **values: Unpack[RunValues]) -> RunRow:
    """Update the run with `values`, and nothing else of it. Return the new row. Raises `StoreConflict` if its epoch,
    its status or its hold on its thread is no longer what `run` says."""
    given = {f"new_{name}": value for name, value in column_values(values).items()}
    guard = {name: getattr(run, read) for name, read in _GUARD.items()}
    if not _updating(tuple(sorted(values))).run(connection, {"run": run.id, **guard, **given}):
        raise StoreConflict(f"the run {run.id} was changed by another writer")
    return run._replace(**values)


def insert_submission(connection: Connection, run: RunRow, submission: Submission) -> RunRow:
    """Insert a submission. Return the run with it."""
    _SUBMIT.run(connection, {"run_id": run.id, "tenant": run.tenant, **dump_submission(submission)})
    return run._replace(submissions=(*run.submissions, submission))


def set_metadata(connection: Connection, run: RunRow, metadata: Mapping[str, str]) -> RunRow:
    """Replace the run's metadata. Return the new row."""
    changed = run._replace(metadata=metadata)
    connection.execute(update(runs).where(runs.c.id == run.id).values(metadata=dict(metadata)))
    connection.execute(delete(run_metadata).where(run_metadata.c.run_id == run.id))
    _index_metadata(connection, changed)
    return changed


def set_deleted(connection: Connection, run: RunRow, deleted: Iterable[int]) -> RunRow:
    """Replace the numbers of the run's deleted responses. Return the new row."""
    changed = run._replace(deleted=tuple(deleted))
    connection.execute(update(runs).where(runs.c.id == run.id).values(deleted=list(changed.deleted)))
    return changed


def discard_values(connection: Connection, run_id: str, error: Mapping[str, Any], ended_at: int) -> None:
    """Fail a run whose row cannot be read, whatever its values are, unless it has ended."""
    values: dict[str, Any] = dict.fromkeys((*RunValues.__annotations__, "deleted"))
    values |= {"metadata": {}, "turns": 0, "attempts": 0, "status": "failed", "holds": False}
    values |= {"error": error, "ended_at": ended_at, "epoch": runs.c.epoch + 1}
    connection.execute(update(runs).where(runs.c.id == run_id, runs.c.status.in_(ACTIVE)).values(values))


def delete_runs(connection: Connection, run_ids: Sequence[str]) -> None:
    """Delete runs with all that belongs to them, and those of their members. Messages on threads and items of
    conversations remain."""
    for start in range(0, len(run_ids), _ANY_LENGTH):
        connection.execute(delete(runs).where(runs.c.id.in_(run_ids[start : start + _ANY_LENGTH])))


def _index_metadata(connection: Connection, run: RunRow) -> None:
    for name, value in run.metadata.items():
        if _findable(name, 64) and _findable(value, 512):
            _MARK.run(connection, {"run": run.id, "key": name, "said": value})


def _findable(given: str, most: int) -> bool:
    """Whether a request can ask for this text, and a column can hold it."""
    return len(given) <= most and "\0" not in given and given.encode("utf-8", "replace").decode() == given


@cache
def _updating(names: tuple[str, ...]) -> Prepared:
    guard = [runs.c[read] == bindparam(name, type_=runs.c[read].type) for name, read in _GUARD.items()]
    values = {name: bindparam(f"new_{name}", type_=runs.c[name].type) for name in names}
    return Prepared(update(runs).where(_ID, *guard).values(values))


def _run(connection: Connection, names: Sequence[str], values: Sequence[Any]) -> RunRow:
    run = _row(names, values)
    if not run.turns:
        return run
    found = _SUBMISSIONS.rows(connection, {"run": run.id})
    return run._replace(submissions=tuple(map(_submission, found)))


def _row(names: Sequence[str], values: Sequence[Any]) -> RunRow:
    return RunRow(**run_values(dict(zip(names, values, strict=True))))


def _submission(values: Sequence[Any]) -> Submission:
    return load_submission(dict(zip(_SUBMITTED, values, strict=True)))


# --- many runs: threads, drives, members, expiry, retention

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
    user: str | None = None
    statuses: Sequence[str] = ()
    created_after: int | None = None
    created_before: int | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    members: bool = True


def page_runs(connection: Connection, scope: TenantView, page: Page, wanted: RunFilter) -> tuple[list[RunRow], bool]:
    """Return a page of the tenant's runs, in its order, and whether more follow."""
    query, number = _in_order(scope, wanted)
    ids, more = scope.select_page(connection, runs, page, query, number)
    return runs_in_order(connection, [row.id for row in ids]), more


def runs_in_order(connection: Connection, ids: Sequence[str]) -> list[RunRow]:
    """Return the runs with these ids, in the order of the ids; those that are not there are left out."""
    found = {run.id: run for run in read_runs(connection, ROWS.where(runs.c.id.in_(ids)))}
    return [found[run_id] for run_id in ids if run_id in found]


def _in_order(scope: TenantView, wanted: RunFilter) -> tuple[Select[Any], ColumnElement[int]]:
    """Return the query of the ids of the runs that `wanted` selects, and the number by which an index has them in
    order."""
    if not wanted.metadata:
        return select(runs.c.id).where(*conditions(scope, wanted)), runs.c.number
    (name, value), *more = wanted.metadata.items()
    rest = conditions(scope, replace(wanted, metadata=dict(more)))
    marked = (run_metadata.c.tenant == scope.tenant, run_metadata.c.name == name, run_metadata.c.value == value)
    query = select(runs.c.id).join(run_metadata, run_metadata.c.run_id == runs.c.id)
    return query.where(*marked, *rest), run_metadata.c.number


def own_run_ids(connection: Connection, scope: TenantView, run_ids: Iterable[str]) -> set[str]:
    """Return those of the ids that are runs of the tenant."""
    mine = select(runs.c.id).where(*scope.own(runs), runs.c.id.in_(sorted(run_ids)))
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
    for run_id, agent in connection.execute(found.limit(_ANY_LENGTH)):
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
    for start in range(0, len(run_ids), _ANY_LENGTH):
        for run_id, epoch, status, last in connection.execute(_MARKS, {"ids": run_ids[start : start + _ANY_LENGTH]}):
            found[run_id] = RunMark(epoch, status, last or 0)
    return found


def suspended_runs(connection: Connection) -> list[RunRow]:
    """Return the runs of all tenants that are suspended since their agents changed, oldest first."""
    return read_runs(connection, ROWS.where(*_SUSPENDED).order_by(runs.c.number))


def shift_expiry(connection: Connection, by: int) -> None:
    """Shift the expiry of all runs by as many seconds as the clock was changed."""
    connection.execute(update(runs).where(runs.c.expires_at.is_not(None)).values(expires_at=runs.c.expires_at + by))


def old_runs(connection: Connection, most: int, before: int | None, unstored_before: int | None) -> list[str]:
    """Return the ids of at most `most` runs that have ended and were created before a time in Unix seconds; of those
    that have no thread and are not stored, also before another one. `None`: none of them. Members go with their
    callers, which find their answers there."""
    old: list[tuple[ColumnElement[bool], ...]] = []
    old += [(runs.c.status == one, runs.c.created_at < before) for one in ENDED] if before is not None else []
    if unstored_before is not None:
        unstored = (runs.c.thread_id.is_(None), ~runs.c.stored, runs.c.status.not_in(ACTIVE))
        old.append((*unstored, runs.c.created_at < unstored_before))
    found: list[str] = []
    for one in old:  # one after the other, so that an index finds each
        query = select(runs.c.id).where(*one, runs.c.parent_id.is_(None), runs.c.id.not_in(found))
        found += connection.execute(query.limit(most - len(found))).scalars()
    return found


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
    query = select(runs.c.status, func.count()).where(*scope.own(runs)).group_by(runs.c.status)
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
        "user": wanted.user,
    }
    found = [*scope.of_user(runs), *(runs.c[name] == value for name, value in same.items() if value is not None)]
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


# --- lists for operators, and for whoever reads a run with those below it


def member_runs(connection: Connection, run_id: str) -> list[RunRow]:
    """Return the runs of a run's members, oldest first."""
    return read_runs(connection, ROWS.where(runs.c.parent_id == run_id).order_by(runs.c.number))


def newest_runs(connection: Connection, wanted: RunFilter, tenant: str | None, most: int) -> list[RunRow]:
    """Return the newest runs of a tenant, or of all tenants, without those of members."""
    mine = (runs.c.tenant == tenant,) if tenant is not None else ()
    query = ROWS.where(runs.c.parent_id.is_(None), *mine, *conditions(TenantView(tenant or ""), wanted))
    return read_runs(connection, query.order_by(runs.c.number.desc()).limit(most))


# --- what lists say of runs beside their rows: questions, requests to models, and what these cost

_SHOWN = 2_000  # characters of a stored question that are read
_PRICED = '%"cost":%'
SEARCHED = 5_000
"""The most runs that a search looks at."""
_QUESTION = re.compile(
    r'\{"question":("(?:[^"\\]|\\[^u]|\\u[0-9a-fA-F]{4})*)'
)  # the first field of a log's first event
_ASKED = (events.c.seq == 1) & (events.c.kind == "started")
_BEGINNING = func.substr(events.c.payload, 1, _SHOWN).label("payload")


class RunFigures(NamedTuple):
    """What is said of a run: its question (the beginning of a long one), the replies of models, and their cost."""

    question: str | None = None
    replies: int = 0
    cost: float = 0.0


def figures_of(connection: Connection, run_ids: Sequence[str]) -> dict[str, RunFigures]:
    """Return the figures of each run."""
    asked = _questions_of(connection, run_ids)
    counted = select(events.c.run_id, func.count()).where(events.c.run_id.in_(run_ids), events.c.kind == "replied")
    replies = {row[0]: row[1] for row in connection.execute(counted.group_by(events.c.run_id))}
    costs: dict[str, float] = {}
    for run_id, cost in _costs(connection, run_ids):
        costs[run_id] = costs.get(run_id, 0.0) + cost
    return {one: RunFigures(asked.get(one), replies.get(one, 0), costs.get(one, 0.0)) for one in run_ids}


def search_runs(
    connection: Connection,
    scope: TenantView,
    page: Page,
    wanted: RunFilter,
    text: str,
    may_show: Callable[[RunRow], bool],
) -> tuple[list[RunRow], bool]:
    """Return a page of the runs whose question contains `text`, whatever the case, and `may_show`, and whether more
    follow. At most `SEARCHED` runs are looked at."""
    query, number = _in_order(scope, wanted)
    asked = query.add_columns(_BEGINNING).join(events, (events.c.run_id == runs.c.id) & _ASKED)
    sought = text.casefold()
    rows, _ = scope.select_page(connection, runs, page._replace(limit=SEARCHED), asked, number)
    matching = [row.id for row in rows if sought in (_question(row.payload) or "").casefold()]
    found: list[RunRow] = []
    for start in range(0, len(matching), page.limit + 1):
        some = runs_in_order(connection, matching[start : start + page.limit + 1])
        found += filter(may_show, some)
        if len(found) > page.limit:
            break
    return found[: page.limit], len(found) > page.limit


def _questions_of(connection: Connection, run_ids: Sequence[str]) -> dict[str, str]:
    rows = connection.execute(select(events.c.run_id, _BEGINNING).where(events.c.run_id.in_(run_ids), _ASKED))
    read = {run_id: _question(payload) for run_id, payload in rows}
    return {run_id: question for run_id, question in read.items() if question is not None}


def _question(payload: str) -> str | None:
    found = _QUESTION.match(payload)
    return None if found is None else str(json.loads(found[1] + '"', strict=False))


def _costs(connection: Connection, run_ids: Sequence[str]) -> Iterator[tuple[str, float]]:
    kinds = events.c.kind.in_(USING)
    priced = (events.c.run_id.in_(run_ids), kinds, events.c.payload.like(_PRICED))
    for run_id, kind, payload in connection.execute(
        select(events.c.run_id, events.c.kind, events.c.payload).where(*priced)
    ):
        with suppress(DataError):
            match load(kind, payload):
                case Observed(observation=seen):
                    yield run_id, seen.usage.cost
                case event:
                    yield run_id, (request_usage(event) or Usage()).cost


# --- trees, and runs that have ended


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


# --- what waits in the whole database: for metrics, by indexes on what is active alone

MOST_COUNTED = 100_000
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
_driven_runs = (
    select(case((_free, 1), else_=0).label("free"), case((_asleep, 1), else_=0).label("asleep"))
    .where(or_(*(runs.c.status == one for one in DRIVEN)))
    .limit(MOST_COUNTED)
    .subquery()
)
_WAITING = select(func.sum(_driven_runs.c.free), func.sum(_driven_runs.c.asleep))
_people = (
    select(runs.c.id)
    .where(runs.c.status == "requires_action", runs.c.parent_id.is_(null()))
    .limit(MOST_COUNTED)
    .subquery()
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


# --- threads and conversations in which nothing was said for long

_SAID = ((threads, messages, messages.c.thread_id), (conversations, items, items.c.conversation_id))


def silent_threads(connection: Connection, most: int, before: int) -> list[str]:
    """Return the ids of at most `most` threads and conversations that have only messages, items and runs from before
    this time, in Unix seconds, and no run that is active."""
    found: list[str] = []
    for at in range(len(_SAID)):
        query = _silent(at, before).limit(most - len(found))
        found += [id_ for _, id_ in connection.execute(query)]
    return found


def delete_silent(connection: Connection, ids: Collection[str], before: int) -> int:
    """Delete those of the threads and conversations that are still silent, with all that belongs to them. Return how
    many."""
    deleted = 0
    for at, (table, _, _) in enumerate(_SAID):
        query = _silent(at, before).where(table.c.id.in_(ids)).with_for_update(of=table)
        for tenant, id_ in connection.execute(query).all():
            scope = TenantView(tenant)
            delete_thread_runs(connection, scope, id_)
            scope.remove(connection, table, table.c.id == id_)
            forget_thread(connection, tenant, id_)
            deleted += 1
    return deleted


def _silent(at: int, before: int) -> Select[str, str]:
    table, parts, owner = _SAID[at]
    late_run: ColumnElement[bool] = (runs.c.created_at >= before) | runs.c.status.in_(ACTIVE)
    news = (
        exists().where(owner == table.c.id, parts.c.created_at >= before),
        exists().where(runs.c.thread_id == table.c.id, late_run),
    )
    return select(table.c.tenant, table.c.id).where(table.c.created_at < before, *(~one for one in news))
