"""Taking a run's next epoch, and what the first second of a drive decides."""

from __future__ import annotations

import secrets
import time
from typing import Any

from sqlalchemy import Connection

from ..store.log import alter, find, length
from ..store.rows import RunRow, Status

_DEATHS = 5  # drives in a row that brought nothing: something about this run ends the process
_PROCESS = secrets.token_hex(4)
_DRIVEN = ("queued", "in_progress", "cancelling")


def claim(connection: Connection, run_id: str) -> RunRow | None:
    """The run, from now on under its next epoch, `in_progress`; `None` if there is nothing to drive. One whose
    drives died again and again without a new event gets `state["give_up"]`: why."""
    run = find(connection, run_id)
    if run is None or run.status not in _DRIVEN or not run.holds:
        return None
    state: dict[str, Any] = {**run.state, "started_at": run.state.get("started_at") or int(time.time())}
    now = length(connection, run_id)
    before, count, process = state.get("claims", (-1, 0, ""))
    if process != _PROCESS:  # the one before has ended
        count = count + 1 if before == now else 1
    state["claims"] = [now, count, _PROCESS]
    if state["claims"][1] > _DEATHS:
        state["give_up"] = f"the process that drove this run ended {_DEATHS} times without coming any further"
    status: Status = "cancelling" if run.status == "cancelling" else "in_progress"
    return alter(connection, run, epoch=run.epoch + 1, status=status, state=state)


def is_new(run: RunRow) -> bool:
    """Whether a run that was claimed has no log yet."""
    return bool(run.state["claims"][0] == 0)
