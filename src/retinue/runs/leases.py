"""Leases on runs: acquiring the next epoch, and giving up on runs that keep killing their process."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from ..store.clock import CLOCK
from ..store.event_log import last_milestone
from ..store.processes import is_alive
from ..store.run_belongings import SnapshotWriter
from ..store.run_queries import DRIVEN, find_run, runs_to_drive, update_run
from ..store.run_row import BY_MEMBERS, UNREADABLE, RunRow, RunValues
from .concurrency_limits import ConcurrencyLimits

_DEATHS = 5  # drives in a row that died in the same tool call: the tool kills the process
_ELSEWHERE = 10  # drives in a row without progress outside a tool call: other runs kill processes, too
SUSPECT = 2  # drives without progress after which a run is watched more closely


class Lease(NamedTuple):
    """A run with its new epoch. `give_up` says why it must be given up, if its drives died repeatedly without a new
    event (reply deltas do not count). `begins` says whether it is the run's first drive, and `taken_over` whether the
    process died that had the run before."""

    run: RunRow
    give_up: str = ""
    begins: bool = False
    taken_over: bool = False


def acquire_epoch(
    connection: Connection,
    run_id: str,
    process: str,
    request: Mapping[str, Any] | None = None,
    snapshots: SnapshotWriter | None = None,
    limits: ConcurrencyLimits | None = None,
) -> Lease | None:
    """Acquire the run's next epoch for `process`. Return its row, `in_progress`; `None` if there is nothing to drive,
    another living process drives it, or `limits` leave no room for it. Passing its `request` saves reading it. The row
    of a run that begins gets its snapshot of `snapshots`. Raises `StoreConflict` if another process acquired the same
    epoch first."""
    claim = limits.claim(connection, run_id) if limits is not None else None
    run = find_run(connection, run_id, request, lock=True)
    if run is None or run.status not in DRIVEN or not run.holds or run.driver == BY_MEMBERS:
        return None
    if run.driver not in (None, process) and is_alive(connection, run.driver):
        return None
    if claim is not None and not claim.admits(run):
        return None
    now, kind = last_milestone(connection, run_id) if run.epoch else (0, "")
    attempts = run.attempts
    if run.driver != process:  # the previous process has ended
        attempts = _tries(run, now) + 1
    values = _held(run, process, attempts, now)
    if run.started_at is None:
        values["started_at"] = int(time.time())
    if run.expires_at is not None and run.expires_at <= CLOCK.now():  # it expired while no process was running
        values["ending"] = "expired"
    if run.status == "queued":
        values["status"] = "in_progress"
    if run.suspended:
        values["error"] = None
    if not now and snapshots is not None:
        values["snapshot"] = snapshots.write(connection, run)
    most = _DEATHS if kind == "called" else _ELSEWHERE
    reason = f"the process that drove this run ended {most} times without making progress" if attempts > most else ""
    left = run.driver not in (None, process)  # by a process that is dead, as was found above
    return Lease(update_run(connection, run, **values), reason, begins=run.started_at is None, taken_over=left)


def acquired_new(connection: Connection, run: RunRow, process: str, snapshots: SnapshotWriter) -> RunRow:
    """Return the row of a run that is to be inserted in this transaction, acquired by `process`."""
    values = _held(run, process, 1, 0) | RunValues(status="in_progress", started_at=int(time.time()))
    values["snapshot"] = snapshots.write(connection, run)
    return run._replace(**values)


def acquired_again(connection: Connection, run: RunRow, process: str) -> RunValues:
    """Return the values with which `process` acquires a run that has begun, and that nobody drives."""
    return _held(run, process, 1, last_milestone(connection, run.id)[0])


def _held(run: RunRow, process: str, attempts: int, progress: int) -> RunValues:
    return RunValues(driver=process, attempts=attempts, progress=progress, epoch=run.epoch + 1)


def park_runs(connection: Connection, run_ids: Sequence[str], process: str) -> None:
    """Let others drive the runs that `process` parks. Their attempts are reset, since they did not kill it."""
    for run_id in run_ids:
        run = find_run(connection, run_id, lock=True)
        if run is not None and run.status in DRIVEN and run.driver == process:
            update_run(connection, run, driver=None, attempts=0, progress=None)


def unfinished_runs(
    connection: Connection,
    process: str,
    but: Collection[str],
    most: int | None = None,
    limits: ConcurrencyLimits | None = None,
) -> list[tuple[str, RunRow | None, int]]:
    """Return the runs that `process` may drive, except those in `but`, oldest first, or as `limits` choose, and at most
    so many: id, row, and number of drives since it last made progress. An unreadable row is `None`: the driver handles
    it, and the other runs still start."""
    beside = None if most is None else most + len(but)
    if limits is None:
        free = runs_to_drive(connection, process, beside)
    else:
        free = limits.next_runs(connection, process, beside)
    found = [run_id for run_id in free if run_id not in but]
    return [(run_id, *standing(connection, run_id)) for run_id in found[:most]]


def standing(connection: Connection, run_id: str) -> tuple[RunRow | None, int]:
    """Return a run, or `None` if it is gone or cannot be read, and its number of drives since it last made
    progress."""
    try:
        run = find_run(connection, run_id)
        return run, 0 if run is None else _tries(run, last_milestone(connection, run_id)[0])
    except UNREADABLE:
        return None, 0


def _tries(run: RunRow, now: int) -> int:
    return run.attempts if run.progress == now else 0


def is_suspect(tries: int) -> bool:
    """Whether a run may be what kills the process, given its number of drives without progress."""
    return tries >= SUSPECT


def is_new(run: RunRow) -> bool:
    """Whether an acquired run has an empty log."""
    return run.progress == 0
