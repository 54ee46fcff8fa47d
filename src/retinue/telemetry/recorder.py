"""What records the runs of this process, while telemetry is on."""

from __future__ import annotations

import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence

from ..core.events import Event
from ..core.run_context import TraceParent, current_run, derive_span_id, derive_trace_id, idempotency_key
from .environment import Sampler
from .run_spans import RunSpans, Traced
from .span_content import SpanTexts
from .span_queue import SpanQueue
from .span_record import SpanRecord

_REMEMBERED = 10_000  # runs
_TOGETHER = 64  # events that are folded at once


class Recorder:
    """Makes the spans of runs, which `queue` sends. With `content`, they have the texts of people, models and tools."""

    def __init__(self, queue: SpanQueue, sampler: Sampler, *, content: bool) -> None:
        self.queue = queue
        self._sampler = sampler
        self._content = content
        self._exported: OrderedDict[str, int] = OrderedDict()
        self._live: set[LiveSpans] = set()
        queue.gather = self._gather

    def _gather(self) -> None:
        for one in list(self._live):
            one.fold()

    def make_live_spans(self, spans: RunSpans, begun: Sequence[Event]) -> LiveSpans:
        """Return what records a run of the library that goes on with the log `begun`."""
        live = LiveSpans(spans, begun, self._live.discard)
        self._live.add(live)
        return live

    def decide_recording(self, traced: Traced) -> Traced:
        """Return the place of a run, with the decision whether its trace is recorded."""
        return traced._replace(parent=traced.parent._replace(sampled=self._sampler(traced.parent)))

    def make_spans(
        self, traced: Traced, provider: str = "", emit: Callable[[SpanRecord], None] | None = None
    ) -> RunSpans | None:
        """Return what folds the events of a run into spans; `None` if its trace is not recorded. `provider` is that of
        its model."""
        if not traced.parent.sampled:
            return None
        return RunSpans(traced, emit or self.queue.put, provider, SpanTexts() if self._content else None)

    def find_last_exported(self, run: str) -> int:
        """Return the number of the last event of a stored run of which this process has made spans."""
        return self._exported.get(run, 0)

    def has_exported(self, run: str, number: int) -> None:
        """Note that this process has made the spans of a stored run up to the event of this number."""
        self._exported[run] = number
        self._exported.move_to_end(run)
        if len(self._exported) > _REMEMBERED:
            self._exported.popitem(last=False)


class LiveSpans:
    """The spans of a run in the library, whose events have the time at which they are seen. It continues a log
    (`begun`), whose spans were sent when it was written.

    Events are folded in groups, which costs half as much as one by one between other work: when there are enough, when
    the queue sends, and at the end (`ended` is called then). The queue has a thread of its own.
    """

    __slots__ = ("_ended", "_folding", "_seen", "_spans")

    def __init__(self, spans: RunSpans, begun: Sequence[Event], ended: Callable[[LiveSpans], None]) -> None:
        self._spans = spans
        self._ended = ended
        self._folding = threading.RLock()
        self._seen: deque[tuple[int, Event]] = deque()
        if begun:
            now = time.time_ns()
            spans.replay(((now, event) for event in begun), ())

    def see(self, event: Event) -> None:
        """Take note of an event that happens."""
        self._seen.append((time.time_ns(), event))
        if len(self._seen) >= _TOGETHER:
            self.fold()

    def fold(self) -> None:
        """Make spans of what was seen. Thread-safe."""
        with self._folding:
            while self._seen:
                self._spans.see(*self._seen.popleft())

    def end(self, problem: str = "") -> None:
        """Note that nothing more happens: the run has ended, could not begin (`problem`), or its reader has left."""
        with self._folding:
            self.fold()
            self._spans.leave(time.time_ns(), problem)
        self._ended(self)


def place_of(key: str, *, member: bool, part: int) -> Traced:
    """Return the place of a run of the library. A member's caller is the call in its key. Otherwise it is the call of a
    tool within which the run begins, or the span of the app around it, if there is one. `part` is the number of events
    with which the run continues a former one."""
    call, outer = key if member else idempotency_key(), current_run().trace
    if call and outer is not None:
        parent = outer._replace(span_id=derive_span_id("tool", call))
    else:
        parent = _find_app_span() or TraceParent(derive_trace_id(key), b"")
    return Traced(key, key, parent, part=part)


def _find_app_span() -> TraceParent | None:
    """Return the current span of OpenTelemetry, if the app has one."""
    api = sys.modules.get("opentelemetry.trace")
    context = None if api is None else api.get_current_span().get_span_context()
    if context is None or not context.is_valid:
        return None
    state = context.trace_state.to_header()
    return TraceParent(
        context.trace_id.to_bytes(16), context.span_id.to_bytes(8), bool(context.trace_flags.sampled), state
    )
