"""The spans of stored runs, as a fold of what is committed to their logs, whichever process drives them.

A run's place in its trace follows from its row: so each process computes the same spans, with the same ids. Spans that
no drive sends, of runs that were ended from outside or right before their process died, are sent by others.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from sqlalchemy import Connection

from ..core.run_context import (
    TraceParent,
    current_run,
    derive_span_id,
    derive_trace_id,
    enter_run_context,
    read_stored_parent,
)
from ..errors import DataError, StoreUnavailable
from ..store.database import Database
from ..store.event_log import Entry, read_events
from ..store.processes import dead_processes
from ..store.run_queries import last_ended_by, run_tree
from ..store.run_row import RunRow
from ..telemetry.activation import Recorder, find_recorder, name_provider
from ..telemetry.spans import RunSpans, SpanRecord, Traced

_WINDOW = 30  # seconds before a process's last run ended: older spans were sent


class RunTrace:
    """Folds the committed entries of a run that this process drives into spans; `log` is what its drive found.

    Of entries that others wrote, it may be that they ended before their spans were sent. Those are sent again when the
    run ends, unless this process has sent them itself.
    """

    def __init__(self, recorder: Recorder, spans: RunSpans, run: RunRow, log: Sequence[Entry]) -> None:
        self._recorder = recorder
        self._spans = spans
        self._run = run
        sent = recorder.find_last_exported(run.id)
        before = [(nanoseconds(one.at), one.event) for one in log]
        known = sum(one.seq <= sent for one in log)
        spans.replay(before[:known], before[known:])

    def see(self, entries: Sequence[Entry]) -> None:
        """Take note of entries that are committed."""
        for _, at, event in entries:
            self._spans.see(nanoseconds(at), event)
        if entries:
            self._recorder.has_exported(self._run.id, entries[-1].seq)


def trace_run(run: RunRow, log: Sequence[Entry], model: object = None) -> RunTrace | None:
    """Return what records a run that the current task drives, and have the servers that it calls told of its span;
    `None` if telemetry is off, or its trace is not recorded. `model` is its agent's, if that is known."""
    here = find_recorder()
    if here is None:
        _enter_trace(read_stored_parent(run.request))  # what the caller said is passed on
        return None
    traced = here.decide_recording(place_of_run(run))
    _enter_trace(traced.span)
    spans = here.make_spans(traced, name_provider(model))
    return None if spans is None else RunTrace(here, spans, run, log)


def _enter_trace(span: TraceParent | None) -> None:
    enter_run_context(replace(current_run(), trace=span))


def place_of_run(run: RunRow) -> Traced:
    """Return the place of a stored run in its trace."""
    caller = read_stored_parent(run.request)
    parent = caller or TraceParent(derive_trace_id(run.root_id or run.id), b"")
    if run.parent_id is not None:
        parent = parent._replace(span_id=derive_span_id("tool", f"{run.parent_id}/{run.call_id}"))
    return Traced(run.id, parent, run.thread_id or "", rests=True)


def nanoseconds(at: float) -> int:
    """Return a time in Unix seconds as spans have it."""
    return int(at * 1e9)


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
        dead = dead_processes(connection, self._database.process, alone=not self._database.is_shared)
        new = [one for one in dead if one not in self._buried]
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
