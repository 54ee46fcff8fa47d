"""Cancellation, expiry and failure of runs from outside their drive."""

from __future__ import annotations

import time

from sqlalchemy import Connection, update

from ..core.events import Stopped
from ..core.values import StopReason
from ..errors import DataError
from ..store.event_log import Change, Entry, append_entries, read_events, update_run
from ..store.run_row import RunRow
from ..store.tables import runs
from .run_status import final_values
from .thread_messages import messages_of


def cancel_run(connection: Connection, run: RunRow, ending: str = "") -> RunRow:
    """Cancel `run` and return its new row. An idle run ends at once; a driven one is marked `cancelling`, and its
    driver must then be interrupted. `ending="expired"` ends the run as expired instead of cancelled."""
    state = {**run.state, "ending": ending} if ending else dict(run.state)
    if run.status in ("in_progress", "cancelling"):
        return update_run(connection, run, state=state, status=run.status if ending else "cancelling")
    run = update_run(connection, run, epoch=run.epoch + 1, state=state)
    try:
        log = read_events(connection, run.id)
    except DataError as error:
        return fail_run(connection, run, str(error))
    entry = Entry(log[-1].seq + 1 if log else 1, time.time(), Stopped(StopReason.CANCELLED))

    def change(now: RunRow) -> Change:
        values = final_values(now, [*log, entry], {})
        return Change(values, list(messages_of(now, [*log, entry], values["status"])))

    after = append_entries(connection, run, [entry], change)
    assert after is not None
    return after


def fail_run(connection: Connection, run: RunRow, problem: str, code: str = "server_error") -> RunRow:
    """Mark `run` as failed when it cannot be started or resumed. Its log is left unchanged. `code` is OpenAI's error
    code."""
    now = int(time.time())
    state = {**run.state, "failed_at": now, "last_error": {"code": code, "message": problem}}
    return update_run(connection, run, epoch=run.epoch + 1, status="failed", holds=False, expires_at=None, state=state)


def discard_run(connection: Connection, run_id: str, problem: str) -> None:
    """Fail a run whose row is unreadable, replacing its state."""
    state = {"failed_at": int(time.time()), "last_error": {"code": "server_error", "message": problem}}
    values = {"status": "failed", "holds": False, "expires_at": None, "epoch": runs.c.epoch + 1, "state": state}
    connection.execute(update(runs).where(runs.c.id == run_id).values(values))
