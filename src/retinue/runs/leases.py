"""Leases on runs: acquiring the next epoch, and giving up on runs that keep killing their process."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from ..limits.places import Offer, RunLimits
from ..store.clock import CLOCK
from ..store.due import DRIVEN, Driven, driven_runs, lock_free
from ..store.engines import CLAIMING, lock_until_end
from ..store.event_log import last_milestone
from ..store.processes import is_alive
from ..store.run_belongings import SnapshotWriter
from ..store.run_queries import find_run
from ..store.run_row import BY_MEMBERS, UNREADABLE, RunRow, RunValues
from .status import step_values, take_step

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


class Claimed(NamedTuple):
    """What came of a claim: the runs that were `chosen`, the leases on those that nobody else had, and the ids of rows
    that hold data which we did not write."""

    chosen: Sequence[str]
    leases: Sequence[Lease]
    unreadable: Sequence[str]


def acquire_epoch(
    connection: Connection,
    run_id: str,
    process: str,
    request: Mapping[str, Any] | None = None,
    snapshots: SnapshotWriter | None = None,
    limits: RunLimits | None = None,
) -> Lease | None:
    """Acquire the run's next epoch for `process`. Return its row, `in_progress`; `None` if there is nothing to drive,
    another living process drives it, or `limits` leave no room for it. Passing its `request` saves reading it. The row
    of a run that begins gets its snapshot of `snapshots`. Raises `StoreConflict` if another process acquired the same
    epoch first."""
    run = find_run(connection, run_id, request, lock=limits is None)
    if limits is not None:
        if run is None or not (run.status == "cancelling" or run.ending or limits.admit(connection, run)):
            return None
        run = find_run(connection, run_id, run.request, lock=True)
    if run is None or run.status not in DRIVEN or not run.holds or run.driver == BY_MEMBERS:
        return None
    if run.driver not in (None, process) and is_alive(connection, run.driver):
        return None
    now, kind = last_milestone(connection, run_id) if run.epoch else (0, "")
    attempts = run.attempts
    if run.driver != process:  # the previous process has ended
        attempts = _tries(run, now) + 1
    values = RunValues(driver=process, attempts=attempts, progress=now)
    if run.started_at is None:
        values["started_at"] = int(time.time())
    if run.expires_at is not None and run.expires_at <= CLOCK.now():  # it expired while no process was running
        values["ending"] = "expired"
    if not now and snapshots is not None:
        values["snapshot"] = snapshots.write(connection, run)
    most = _DEATHS if kind == "called" else _ELSEWHERE
    reason = f"the process that drove this run ended {most} times without making progress" if attempts > most else ""
    left = run.driver not in (None, process)  # by a process that is dead, as was found above
    return Lease(take_step(connection, run, "acquire", **values), reason, run.started_at is None, left)


def claim_runs(connection: Connection, offer: Offer, process: str, snapshots: SnapshotWriter) -> Claimed:
    """Acquire the next epochs of the runs of `offer` that come next, as far as nobody else has them by now: of two
    processes that claim at once, each passes by what the other one has locked."""
    driven: Sequence[Driven] = ()
    if offer.is_limited:
        lock_until_end(connection, CLAIMING)
        driven = driven_runs(connection)
    chosen = offer.choose(driven)
    leases: list[Lease] = []
    unreadable: list[str] = []
    for run_id in lock_free(connection, chosen, process):
        try:
            lease = acquire_epoch(connection, run_id, process, snapshots=snapshots)
        except UNREADABLE:
            unreadable.append(run_id)
        else:
            leases += [lease] if lease is not None else []
    return Claimed([one.run_id for one in chosen], leases, unreadable)


def acquired_new(connection: Connection, run: RunRow, process: str, snapshots: SnapshotWriter) -> RunRow:
    """Return the row of a run that is to be inserted in this transaction, acquired by `process`."""
    held = RunValues(driver=process, attempts=1, progress=0, started_at=int(time.time()))
    held["snapshot"] = snapshots.write(connection, run)
    return run._replace(**step_values(run, "acquire", **held))


def acquired_again(connection: Connection, run: RunRow, process: str) -> RunValues:
    """Return the values with which `process` acquires a run that has begun, and that nobody drives."""
    progress = last_milestone(connection, run.id)[0]
    return RunValues(driver=process, attempts=1, progress=progress, epoch=run.epoch + 1)


def park_runs(connection: Connection, run_ids: Sequence[str], process: str) -> None:
    """Let others drive the runs that `process` parks. Their attempts are reset, since they did not kill it."""
    for run_id in run_ids:
        run = find_run(connection, run_id, lock=True)
        if run is not None and run.status in DRIVEN and run.driver == process:
            take_step(connection, run, "park")


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
