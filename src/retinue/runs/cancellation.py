"""Cancellation, expiry and failure of runs from outside their drive."""

from __future__ import annotations

import time

from sqlalchemy import Connection

from ..core.events import Stopped
from ..core.values import StopReason
from ..errors import DataError
from ..store.database_copies import unfinished_ids
from ..store.event_log import Change, Entry, Fenced, append_entries, read_events
from ..store.run_queries import active_members, discard_values, find_run
from ..store.run_row import BY_MEMBERS, RunError, RunRow, RunValues
from .status import final_values, take_step
from .thread_messages import messages_of


def cancel_run(connection: Connection, run: RunRow, ending: str = "") -> RunRow:
    """Cancel `run`, and its members, and return its new row. An idle run ends at once; a driven one is marked
    `cancelling`, and its driver must then be interrupted. `ending="expired"` ends the run as expired instead of
    cancelled. Raises `StoreConflict` if the run is no longer as it was read."""
    if run.status in ("in_progress", "cancelling") and run.driver != BY_MEMBERS:
        cancel_members(connection, run.id)  # that work beside it
        return take_step(connection, run, "expire" if ending else "cancel")
    run = take_step(connection, run, "fence", ending=ending or run.ending)
    try:
        log = read_events(connection, run.id)
    except DataError as error:
        return fail_run(connection, run, str(error))
    entry = Entry(log[-1].seq + 1 if log else 1, time.time(), Stopped(StopReason.CANCELLED))

    def change(now: RunRow) -> Change:
        values = final_values(now, [*log, entry], {})
        return Change(values, list(messages_of(now, [*log, entry], values["status"])))

    after = append_entries(connection, run, [entry], change, log=[*log, entry])
    assert after is not None
    cancel_members(connection, run.id)
    return after


def cancel_members(connection: Connection, run_id: str) -> bool:
    """Cancel the runs of a run's members, at all levels: it has ended. Return whether there were any."""
    members = active_members(connection, run_id)
    for member_id in members:
        if (member := find_run(connection, member_id, lock=True)) is not None and member.active:
            cancel_run(connection, member)
    return bool(members)


def cancel_unfinished(connection: Connection) -> None:
    """Cancel all runs of a database that no server has open, but those that wait for a person or a client."""
    for run_id in unfinished_ids(connection):
        run = find_run(connection, run_id, lock=True)
        if run is not None and run.status in ("queued", "in_progress"):
            cancel_run(connection, run)


def fail_run(connection: Connection, run: RunRow, problem: str, code: str = "server_error") -> RunRow:
    """Mark `run` as failed when it cannot be started or resumed. Its log is left unchanged. `code` is OpenAI's error
    code. Raises `StoreConflict` if the run is no longer as it was read."""
    cancel_members(connection, run.id)
    end = RunValues(status="failed", ended_at=int(time.time()), error=RunError(code, problem), epoch=run.epoch + 1)
    return take_step(connection, run, "end", **end)


def fail_drive(connection: Connection, held: RunRow, problem: str) -> RunRow:
    """Fail the run acquired as `held`, whatever its status became meanwhile. Raises `Fenced` if another drive has it by
    now, or it has ended."""
    run = find_run(connection, held.id, held.request, lock=True)
    if run is None or run.epoch != held.epoch or not run.active:
        raise Fenced(held.id)
    return fail_run(connection, run, problem)


def discard_run(connection: Connection, run_id: str, problem: str) -> None:
    """Fail a run whose row is unreadable, replacing its values."""
    discard_values(connection, run_id, RunError("server_error", problem)._asdict(), int(time.time()))
