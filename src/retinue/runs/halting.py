"""Ending a run from outside: cancelled, out of its time, or no longer wanted."""

from __future__ import annotations

import time

from sqlalchemy import Connection

from ..events import Stopped
from ..schema import StopReason
from ..store.log import Change, Entry, alter, append, read
from ..store.rows import RunRow
from .ending import ended
from .messages import messages_of


def halt(connection: Connection, run: RunRow, ending: str = "") -> RunRow:
    """`run`, ended: at once if nothing is being done for it, else it is marked (`cancelling`), and who drives it must
    be interrupted. `ending` is "expired" for one whose time is up, else it is cancelled."""
    state = {**run.state, "ending": ending} if ending else dict(run.state)
    if run.status in ("in_progress", "cancelling"):
        return alter(connection, run, state=state, status=run.status if ending else "cancelling")
    run = alter(connection, run, epoch=run.epoch + 1, state=state)
    log = read(connection, run.id)
    entry = Entry(log[-1].seq + 1 if log else 1, time.time(), Stopped(StopReason.CANCELLED))

    def change(now: RunRow) -> Change:
        values = ended(now, [*log, entry], {})
        return Change(values, list(messages_of(now, [*log, entry], values["status"])))

    after = append(connection, run.id, run.epoch, [entry], change)
    assert after is not None
    return after
