"""Ending a run from outside: cancelled, out of its time, or no longer wanted."""

from __future__ import annotations

import time

from sqlalchemy import Connection, update

from ..core.events import Stopped
from ..core.values import StopReason
from ..errors import DataError
from ..store.event_log import Change, Entry, alter, append, read
from ..store.run_row import RunRow
from ..store.tables import runs
from .run_status import ended
from .thread_messages import messages_of


def halt(connection: Connection, run: RunRow, ending: str = "") -> RunRow:
    """`run`, ended: at once if nothing is being done for it, else it is marked (`cancelling`), and who drives it must
    be interrupted. `ending` is "expired" for one whose time is up, else it is cancelled."""
    state = {**run.state, "ending": ending} if ending else dict(run.state)
    if run.status in ("in_progress", "cancelling"):
        return alter(connection, run, state=state, status=run.status if ending else "cancelling")
    run = alter(connection, run, epoch=run.epoch + 1, state=state)
    try:
        log = read(connection, run.id)
    except DataError as error:
        return set_aside(connection, run, str(error))
    entry = Entry(log[-1].seq + 1 if log else 1, time.time(), Stopped(StopReason.CANCELLED))

    def change(now: RunRow) -> Change:
        values = ended(now, [*log, entry], {})
        return Change(values, list(messages_of(now, [*log, entry], values["status"])))

    after = append(connection, run, [entry], change)
    assert after is not None
    return after


def set_aside(connection: Connection, run: RunRow, problem: str, code: str = "server_error") -> RunRow:
    """`run`, failed: nobody can begin it or go on with it, and nothing is added to its log. `code` is OpenAI's."""
    now = int(time.time())
    state = {**run.state, "failed_at": now, "last_error": {"code": code, "message": problem}}
    return alter(connection, run, epoch=run.epoch + 1, status="failed", holds=False, expires_at=None, state=state)


def discard(connection: Connection, run_id: str, problem: str) -> None:
    """The run failed: its row is not what we wrote. What of it cannot be read is replaced."""
    state = {"failed_at": int(time.time()), "last_error": {"code": "server_error", "message": problem}}
    values = {"status": "failed", "holds": False, "expires_at": None, "epoch": runs.c.epoch + 1, "state": state}
    connection.execute(update(runs).where(runs.c.id == run_id).values(values))
