"""Suspension of runs whose agents changed: they stay as they are until the agents are back, or an operator decides."""

from __future__ import annotations

from sqlalchemy import Connection

from ..errors import UsageError
from ..store.clock import CLOCK
from ..store.event_log import Fenced
from ..store.run_queries import find_run, update_run
from ..store.run_row import REGARDLESS, RunError, RunRow, RunValues

AGENT_CHANGED = "agent_changed"  # the `cause` of a suspended run's error


def suspend_run(connection: Connection, held: RunRow, problem: str, ttl: int) -> RunRow | None:
    """Suspend the run acquired as `held` because of `problem`; it expires in `ttl` seconds. Return its new row, or
    `None` if it has to end instead. Raises `Fenced` if another drive has it by now."""
    run = find_run(connection, held.id, held.request, lock=True)
    if run is None or run.epoch != held.epoch:
        raise Fenced(held.id)
    if run.status == "cancelling" or run.ending:
        return None
    error = RunError("server_error", problem, AGENT_CHANGED)
    values = RunValues(status="queued", error=error, expires_at=int(CLOCK.now()) + ttl)
    values |= RunValues(driver=None, attempts=0, progress=None)  # this drive did not die
    return update_run(connection, run, **values)


def continue_run(connection: Connection, run_id: str, ttl: int, *, regardless: bool = False) -> RunRow:
    """Let a suspended run go on within `ttl` seconds: if it can by now, or `regardless` of what changed. A run that
    waits for a person goes on regardless when the person has decided. Return its new row.

    Raises `UsageError` if there is nothing to continue, and `StoreConflict` if the run is being changed."""
    run = find_run(connection, run_id, lock=True)
    if run is None:
        raise UsageError(f"there is no run {run_id[:80]!r}")
    if not run.suspended and not (regardless and run.status == "requires_action"):
        raise UsageError(f"the run {run.id} is not suspended: its status is {run.status!r}")
    values = RunValues(snapshot=REGARDLESS) if regardless else RunValues()
    if run.suspended:
        values |= RunValues(error=None, expires_at=int(CLOCK.now()) + ttl)
    return update_run(connection, run, **values)
