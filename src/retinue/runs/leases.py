"""Taking a run's next epoch, and what the first second of a drive decides."""

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

_DEATHS = 5  # drives in a row that ended in the same call of a tool: it ends the process
_ELSEWHERE = 10  # drives in a row that brought nothing, while no tool was called: others end processes, too
_SUSPECT = 2  # such drives after which a run is watched more closely
_START = secrets.token_hex(4)
_DRIVEN = ("queued", "in_progress", "cancelling")


def acquire_epoch(connection: Connection, run_id: str, request: Mapping[str, Any] | None = None) -> RunRow | None:
    """The run, from now on under its next epoch, `in_progress`; `None` if there is nothing to drive. One whose
    drives died again and again without a new event (pieces of a reply are none) gets `state["give_up"]`: why.
    `request`: what it was asked for, if that is at hand."""
    run = find_run(connection, run_id, request, lock=True)
    if run is None or run.status not in _DRIVEN or not run.holds:
        return None
    state: dict[str, Any] = {**run.state, "started_at": run.state.get("started_at") or int(time.time())}
    now, kind = last_milestone(connection, run_id) if run.epoch else (0, "")
    _, count, process = state.get("claims", (-1, 0, ""))
    if process != _process():  # the one before has ended
        count = _tries(run, now) + 1
    state["claims"] = [now, count, _process()]
    most = _DEATHS if kind == "called" else _ELSEWHERE
    if count > most:
        state["give_up"] = f"the process that drove this run ended {most} times without coming any further"
    if run.expires_at is not None and run.expires_at <= CLOCK.now():  # while nobody was there to see it
        state["ending"] = "expired"
    status: Status = "cancelling" if run.status == "cancelling" else "in_progress"
    return update_run(connection, run, epoch=run.epoch + 1, status=status, state=state)


def _process() -> str:
    """This process: one that was forked is another than the one that began it."""
    return f"{_START}-{os.getpid()}"


def clear_attempts(connection: Connection, run_ids: Sequence[str]) -> None:
    """Note of runs that this process parks that they do not end it."""
    for run_id in run_ids:
        run = find_run(connection, run_id, lock=True)
        if run is not None and run.status in _DRIVEN:
            state = {name: value for name, value in run.state.items() if name != "claims"}
            update_run(connection, run, state=state)


def unfinished_runs(connection: Connection) -> list[tuple[str, RunRow | None, int]]:
    """The runs to be driven, oldest first: their ids, their rows, and how often each was driven since it came any
    further. A row that is not what we wrote is `None`: who drives it sees to that, and the others begin."""
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
    """Whether a run that was driven so often without coming any further may be what ends the process."""
    return tries >= _SUSPECT


def is_new(run: RunRow) -> bool:
    """Whether a run that was claimed has no log yet."""
    return bool(run.state["claims"][0] == 0)
