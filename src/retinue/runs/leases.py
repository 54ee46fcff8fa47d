"""Leases on runs: acquiring the next epoch, and giving up on runs that keep killing their process."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, select

from ..store.clock import CLOCK
from ..store.event_log import find_run, last_milestone, update_run
from ..store.run_row import RunRow, Status
from ..store.tables import runs

_DEATHS = 5  # drives in a row that died in the same tool call: the tool kills the process
_ELSEWHERE = 10  # drives in a row without progress outside a tool call: other runs kill processes, too
_SUSPECT = 2  # drives without progress after which a run is watched more closely
_START = secrets.token_hex(4)
_DRIVEN = ("queued", "in_progress", "cancelling")


def acquire_epoch(connection: Connection, run_id: str, request: Mapping[str, Any] | None = None) -> RunRow | None:
    """Acquire the run's next epoch and return its row, `in_progress`; `None` if there is nothing to drive. A run whose
    drives died repeatedly without a new event (reply deltas do not count) gets the reason in `state["give_up"]`.
    Passing its `request` saves reading it."""
    run = find_run(connection, run_id, request, lock=True)
    if run is None or run.status not in _DRIVEN or not run.holds:
        return None
    state: dict[str, Any] = {**run.state, "started_at": run.state.get("started_at") or int(time.time())}
    now, kind = last_milestone(connection, run_id) if run.epoch else (0, "")
    _, count, process = state.get("claims", (-1, 0, ""))
    if process != _process():  # the previous process has ended
        count = _tries(run, now) + 1
    state["claims"] = [now, count, _process()]
    most = _DEATHS if kind == "called" else _ELSEWHERE
    if count > most:
        state["give_up"] = f"the process that drove this run ended {most} times without making progress"
    if run.expires_at is not None and run.expires_at <= CLOCK.now():  # it expired while no process was running
        state["ending"] = "expired"
    status: Status = "cancelling" if run.status == "cancelling" else "in_progress"
    return update_run(connection, run, epoch=run.epoch + 1, status=status, state=state)


def _process() -> str:
    """Return an id of this process; a forked process has another."""
    return f"{_START}-{os.getpid()}"


def clear_attempts(connection: Connection, run_ids: Sequence[str]) -> None:
    """Reset the attempts of runs that this process parks, since they did not kill it."""
    for run_id in run_ids:
        run = find_run(connection, run_id, lock=True)
        if run is not None and run.status in _DRIVEN:
            state = {name: value for name, value in run.state.items() if name != "claims"}
            update_run(connection, run, state=state)


def unfinished_runs(connection: Connection) -> list[tuple[str, RunRow | None, int]]:
    """Return the runs to drive, oldest first: id, row, and number of drives since it last made progress. An unreadable
    row is `None`: the driver handles it, and the other runs still start."""
    query = select(runs.c.id).where(runs.c.holds, runs.c.status.in_(_DRIVEN)).order_by(runs.c.number)
    return [(run_id, *_left(connection, run_id)) for run_id in connection.execute(query).scalars()]


def _left(connection: Connection, run_id: str) -> tuple[RunRow | None, int]:
    try:
        run = find_run(connection, run_id)
        return run, 0 if run is None else _tries(run, last_milestone(connection, run_id)[0])
    except (ValueError, TypeError, AttributeError):
        return None, 0


def _tries(run: RunRow, now: int) -> int:
    before, count, _ = run.state.get("claims", (-1, 0, ""))
    return count if before == now else 0


def is_suspect(tries: int) -> bool:
    """Whether a run may be what kills the process, given its number of drives without progress."""
    return tries >= _SUSPECT


def is_new(run: RunRow) -> bool:
    """Whether an acquired run has an empty log."""
    return bool(run.state["claims"][0] == 0)
