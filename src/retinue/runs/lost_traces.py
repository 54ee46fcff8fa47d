"""Spans that no drive sends: of runs that were ended from outside, and of runs that a process ended right before it
died."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from sqlalchemy import Connection

from ..errors import DataError, StoreUnavailable
from ..store.database import Database
from ..store.event_log import read_events
from ..store.processes import dead_processes
from ..store.run_queries import last_ended_by, run_tree
from ..store.run_row import RunRow
from ..telemetry.activation import Recorder, find_recorder
from ..telemetry.spans import SpanRecord
from .run_traces import nanoseconds, place_of_run

_WINDOW = 30  # seconds before a process's last run ended: older spans were sent


class LostTraces:
    """Sends, when telemetry is on, the spans of runs in `database` that nobody else sends."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._buried: set[str] = set()

    @property
    def is_on(self) -> bool:
        """Whether spans are sent at all."""
        return find_recorder() is not None

    async def find_dead(self) -> Sequence[str]:
        """Return the processes that were found dead since the last time. Call it before they are forgotten."""
        if find_recorder() is None:
            return ()
        return await self._database.read(self._dead)

    def _dead(self, connection: Connection) -> Sequence[str]:
        new = [one for one in dead_processes(connection, self._database.process) if one not in self._buried]
        self._buried.update(new)
        return new

    async def send_of(self, dead: Sequence[str]) -> None:
        """Send the spans of runs that these processes ended last, and may not have told of."""
        if dead:
            await self._send(partial(last_ended_by, drivers=dead, seconds=_WINDOW))

    async def send_ended(self, run: RunRow) -> None:
        """Send the spans of a run, and of its members, that was ended while nobody drove it."""
        await self._send(partial(run_tree, run_id=run.id))

    async def _send(self, chosen: partial[list[RunRow]]) -> None:
        here = find_recorder()
        if here is None:
            return

        def work(connection: Connection) -> None:
            for run in chosen(connection):
                with suppress(DataError):  # its log cannot be read
                    _export(connection, here, run)

        with suppress(StoreUnavailable):
            await self._database.read(work)


def _export(connection: Connection, here: Recorder, run: RunRow) -> None:
    """Send the spans of a run that has ended, unless this process has sent them all."""
    log = read_events(connection, run.id)
    last = log[-1].seq if log else 0
    if run.active or (last and here.find_last_exported(run.id) >= last):
        return
    known = here.find_last_exported(run.id)

    def again(record: SpanRecord) -> None:
        here.queue.put(record._replace(again=True))

    spans = here.make_spans(here.decide_recording(place_of_run(run)), "", again)
    if spans is None:
        return
    spans.replay([(nanoseconds(one.at), one.event) for one in log if one.seq <= known], ())
    for entry in log:
        if entry.seq > known:
            spans.see(nanoseconds(entry.at), entry.event)
    spans.leave(nanoseconds(run.ended_at or 0), run.error.message if run.error else "")
    here.has_exported(run.id, max(last, 1))
