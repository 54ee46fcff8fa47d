"""Metrics of runs, their drives, models and tools: a fold of what this process commits. `Runs.meter` has them while a
process is watched; what is replayed is not counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram

from ..core.events import Asked, Called, Event, Finished, Observed, Replied, Retried, Started, Stopped
from ..core.values import Observation, Reply, StopReason
from ..store.clock import CLOCK
from ..store.event_log import Entry
from ..store.run_row import RunRow

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
WHOLE = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0)  # of times in whole seconds
OTHER = "other"  # the label of what would be one too many
MOST_MODELS = 100


class RunMetrics:
    """Counts what becomes of runs in this process. Its methods are called in the event loop, after the commit.
    `is_known` says whether a tool is one of the operator's: names that models invent, or that clients and tenants
    declare, are no labels, since there is no end of them."""

    def __init__(self, registry: CollectorRegistry, is_known: Callable[[str], bool]) -> None:
        def counter(name: str, about: str, *labels: str) -> Counter:
            return Counter(f"retinue_{name}", about, labels, registry=registry)

        def seconds(name: str, about: str, *labels: str, buckets: Sequence[float] = SECONDS) -> Histogram:
            return Histogram(f"retinue_{name}", about, labels, unit="seconds", buckets=buckets, registry=registry)

        self._is_known = is_known
        self._models: set[str] = set()
        self._begun = counter("runs_begun", "Runs that this process was the first to drive.", "kind")
        self._ended = counter("runs_ended", "Runs that this process ended.", "kind", "status")
        self._waited = seconds("run_queue", "From a run's request to its first drive.", "kind", buckets=WHOLE)
        self._took = seconds("run_duration", "From a run's request to its end.", "kind", "status", buckets=WHOLE)
        self._takeovers = counter("run_takeovers", "Runs that this process took over from one that died.")
        self._drives = seconds("drive_duration", "Drives of runs, by how they ended.", "end")
        self.steps = counter("steps", "Steps of runs: replies of models in them.")
        self._asked = counter("model_requests", "Requests to models.", "model", "outcome")
        self._replied = seconds("model_request_duration", "Requests to models that were answered.", "model")
        self._first = seconds("model_first_token", "Until the first piece of a model's reply.", "model")
        self._tokens = counter("model_tokens", "Tokens of models; `input` includes `cached`.", "model", "type")
        self._cost = counter("model_cost", "Cost of requests, in the currency of the prices.", "model")
        self._retries = counter("model_retries", "Requests that were repeated after a failure.", "model")
        self._calls = counter("tool_calls", "Calls of tools.", "tool", "outcome")
        self._called = seconds("tool_call_duration", "Calls of tools that were made.", "tool")

    def drive(self, run: RunRow, log: Sequence[Entry]) -> LogMetrics:
        """Return what counts a drive that found `log`."""
        return LogMetrics(self, [entry.event for entry in log])

    def acquired(self, run: RunRow, *, begins: bool, taken_over: bool) -> None:
        """Count a run that this process drives: for the first time of all, or after a process that died."""
        if begins:
            self._begun.labels(run.kind).inc()
            self._waited.labels(run.kind).observe(max(0.0, int(CLOCK.now()) - run.created_at))
        if taken_over:
            self._takeovers.inc()

    def drove(self, end: str, seconds: float) -> None:
        """Count a drive that is over, by how it ended."""
        self._drives.labels(end).observe(seconds)

    def ended(self, run: RunRow) -> None:
        """Count a run that this process has ended."""
        self._ended.labels(run.kind, run.status).inc()
        if run.ended_at is not None:
            self._took.labels(run.kind, run.status).observe(max(0, run.ended_at - run.created_at))

    def replied(self, model: str, reply: Reply, seconds: float) -> None:
        """Count a request to a model that was answered after so many seconds."""
        name, used = self._label(model), reply.usage
        self._asked.labels(name, "replied").inc()
        self._replied.labels(name).observe(seconds)
        self._first.labels(name).observe(reply.first_token_seconds)
        for kind, number in (
            ("input", used.input_tokens),
            ("output", used.output_tokens),
            ("cached", used.cached_tokens),
        ):
            self._tokens.labels(name, kind).inc(max(0, number))
        self._cost.labels(name).inc(max(0.0, used.cost))

    def failed(self, model: str, outcome: str) -> None:
        """Count a request to a model that was not answered."""
        self._asked.labels(self._label(model), outcome).inc()

    def retried(self, model: str) -> None:
        """Count a request to a model that was repeated."""
        self._retries.labels(self._label(model)).inc()

    def called(self, tool: str, seen: Observation) -> None:
        """Count a call that has ended."""
        name = "unknown" if seen.outcome == "unknown_tool" else tool if self._is_known(tool) else OTHER
        self._calls.labels(name, seen.outcome).inc()
        if seen.outcome in ("result", "failed", "timed_out"):
            self._called.labels(name).observe(seen.seconds)

    def _label(self, model: str) -> str:
        """Return a model's label, which those share that are too many."""
        label = model if model in self._models or len(self._models) < MOST_MODELS else OTHER
        if label not in self._models:
            self._models.add(label)
            self._retries.labels(label)
            for outcome in ("replied", "failed", "too_long", "interrupted"):
                self._asked.labels(label, outcome)  # from zero on, so that an increase is seen
        return label


class LogMetrics:
    """Counts what one drive commits to a log that had `before` in it."""

    def __init__(self, metrics: RunMetrics, before: Sequence[Event]) -> None:
        self._metrics = metrics
        self._model = "none"
        self._asked: float | None = None  # when the request was made that is under way
        self._step = 0
        self._tools: dict[str, str] = {}  # of calls under way, by their ids
        now = CLOCK.now()  # of a request that another process made, only the rest is measured
        for event in before:
            self._note(now, event)

    def see(self, entries: Sequence[Entry]) -> None:
        """Count entries that are committed. None is passed twice."""
        for _, at, event in entries:
            self._count(at, event)
            self._note(at, event)

    def _note(self, at: float, event: Event) -> None:
        match event:
            case Started(model=model):
                self._model = model or "none"
            case Asked():
                self._asked = at
            case Replied(step=step):
                self._asked, self._step = None, max(self._step, step)
            case Called(action=action):
                self._tools[action.id] = action.tool
            case Observed(observation=seen):
                self._tools.pop(seen.call_id, None)
            case Finished() | Stopped():
                self._asked = None

    def _count(self, at: float, event: Event) -> None:
        match event:
            case Replied(step=step, reply=reply):
                seconds = max(0.0, at - (at if self._asked is None else self._asked))
                self._metrics.replied(reply.model or self._model, reply, seconds)
                if step > self._step:
                    self._metrics.steps.inc(step - self._step)
            case Observed(observation=seen):
                self._metrics.called(self._tools.get(seen.call_id, ""), seen)
            case Retried():
                self._metrics.retried(self._model)
            case Asked() if self._asked is not None:  # the one before was too long for the window
                self._metrics.failed(self._model, "too_long")
            case Stopped(reason=reason) if self._asked is not None:
                self._metrics.failed(self._model, "failed" if reason is StopReason.ERROR else "interrupted")
