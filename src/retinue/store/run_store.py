"""The rows of runs: found, inserted, updated and deleted.

Every update of a run is guarded by what the caller read: its epoch, its status and whether it holds its thread. If any
of these is no longer so, nothing is written, and the caller is told. `metadata` and `deleted` belong to the client
rather than to a drive, so each is written alone, whatever else happens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Unpack

from sqlalchemy import Connection, Select, bindparam, delete, insert, select, update

from ..errors import StoreConflict
from .prepared_statements import Prepared, bound_insert
from .run_row import ACTIVE, RunRow, RunValues, Submission, column_values, dump_submission, load_submission, run_values
from .tables import contents, events, run_images, run_metadata, run_tools, runs, submissions
from .tenant_view import TenantView
from .usage_sums import note_gaps

COLUMNS = tuple(name for name in RunRow._fields if name != "submissions")
_CHANGES = tuple(name for name in COLUMNS if name != "request")  # `request` may be large and never changes
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
_OF_A_RUN = (
    *(runs.c.id, submissions.c.run_id, run_metadata.c.run_id, events.c.run_id, contents.c.id, run_images.c.run_id),
    run_tools.c.run_id,
)
"""The row comes first: without it, or waiting for its lock, nobody adds to the others."""
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
    """Return the run if it is the tenant's, or `None`; `lock` and the errors are those of `find_run`."""
    rows = (_LOCK_OWN if lock else _FIND_OWN).rows(connection, {"run": run_id, "tenant": scope.tenant})
    return _run(connection, COLUMNS, rows[0]) if rows else None


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
    _SUBMIT.run(connection, {"run_id": run.id, **dump_submission(submission)})
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
        some = run_ids[start : start + _ANY_LENGTH]
        if below := connection.execute(select(runs.c.id).where(runs.c.parent_id.in_(some))).scalars().all():
            delete_runs(connection, below)
        _note_gaps(connection, some)
        for column in _OF_A_RUN:
            connection.execute(delete(column.table).where(column.in_(some)))


def _note_gaps(connection: Connection, run_ids: Sequence[str]) -> None:
    spans = select(runs.c.tenant, runs.c.created_at, runs.c.ended_at).where(runs.c.id.in_(run_ids))
    note_gaps(connection, (tuple(row) for row in connection.execute(spans)))


def _index_metadata(connection: Connection, run: RunRow) -> None:
    rows = [
        {"run_id": run.id, "tenant": run.tenant, "name": name, "value": value}
        for name, value in run.metadata.items()
        if _findable(name, 64) and _findable(value, 512)
    ]
    if rows:
        connection.execute(insert(run_metadata), rows)


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
