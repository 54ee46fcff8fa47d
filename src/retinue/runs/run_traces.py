"""The spans of stored runs, as a fold of what is committed to their logs, whichever process drives them.

A run's place in its trace follows from its row: so each process computes the same spans, with the same ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..core.run_context import (
    TraceParent,
    current_run,
    derive_span_id,
    derive_trace_id,
    enter_run_context,
    read_stored_parent,
)
from ..store.event_log import Entry
from ..store.run_row import RunRow
from ..telemetry.activation import Recorder, find_recorder, name_provider
from ..telemetry.spans import RunSpans, Traced


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
