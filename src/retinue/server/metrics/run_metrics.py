"""Metrics of runs, their drives, models and tools: a fold of what this process commits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Histogram

from ...core.events import Asked, Called, Event, Finished, Observed, Replied, Retried, Started, Stopped
from ...core.values import Observation, Reply, StopReason
from ...store.clock import CLOCK
from ...store.event_log import Entry
from ...store.run_row import RunRow

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
WHOLE = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0)  # of times in whole seconds
OTHER = "other"  # the label of what would be one too many
MOST_MODELS = 100
_TOKENS = ("input", "output", "cached")


class RunMetrics:
    """Counts what becomes of runs in this process, as `RunMeter` says. `is_known` says whether a tool is one of the
    operator's: names that models invent, or that clients and tenants declare, are no labels, since there is no end of
    them."""

    def __init__(self, registry: CollectorRegistry, is_known: Callable[[str], bool]) -> None:
        def counter(name: str, about: str, *labels: str) -> Counter:
            return Counter(f"retinue_{name}", about, labels, registry=registry)

        def seconds(
            name: str, about: str, *labels: str, what: str = "_duration", buckets: Sequence[float] = SECONDS
        ) -> Histogram:
            return Histogram(f"retinue_{name}{what}", about, labels, unit="seconds", buckets=buckets, registry=registry)

        self._is_known = is_known
        self._begun = counter("runs_begun", "Runs that this process was the first to drive.", "kind")
        self._ended = counter("runs_ended", "Runs that this process ended.", "kind", "status")
        self._waited = seconds("run", "From a run's request to its first drive.", "kind", what="_queue", buckets=WHOLE)
        self._took = seconds("run", "From a run's request to its end.", "kind", "status", buckets=WHOLE)
        self._takeovers = counter("run_takeovers", "Runs that this process took over from one that died.")
        self._drives = seconds("drive", "Drives of runs, by how they ended.", "end")
        self.steps = counter("steps", "Steps of runs: replies of models in them.")
        asked = counter("model_requests", "Requests to models.", "model", "outcome")
        took = seconds("model_request", "Requests to models that were answered.", "model")
        first = seconds("model", "Until the first piece of a model's reply.", "model", what="_first_token")
        tokens = counter("model_tokens", "Tokens of models; `input` includes `cached`.", "model", "type")
        cost = counter("model_cost", "Cost of requests, in the currency of the prices.", "model")
        retries = counter("model_retries", "Requests that were repeated after a failure.", "model")
        self.calls = counter("tool_calls", "Calls of tools.", "tool", "outcome")
        self.call_seconds = seconds("tool_call", "Calls of tools that were made.", "tool")

        @cache
        def of_model(name: str) -> ModelSeries:
            return ModelSeries(name, (asked, took, first, tokens, cost, retries))

        self._of_model = of_model
        self._models: set[str] = set()

    def drive(self, run: RunRow, log: Sequence[Entry]) -> LogMetrics:
        """Return what counts a drive that found `log`."""
        return LogMetrics(self, [entry.event for entry in log])

    def acquired(self, run: RunRow, *, begins: bool, taken_over: bool) -> None:
        """Count a run that this process drives."""
        if begins:
            self._begun.labels(run.kind).inc()
            self._waited.labels(run.kind).observe(max(0.0, int(CLOCK.now()) - run.created_at))
        if taken_over:
            self._takeovers.inc()

    def drove(self, end: str, seconds: float) -> None:
        """Count a drive that is over."""
        self._drives.labels(end).observe(seconds)

    def ended(self, run: RunRow) -> None:
        """Count a run that this process has ended."""
        self._ended.labels(run.kind, run.status).inc()
        if run.ended_at is not None:
            self._took.labels(run.kind, run.status).observe(max(0, run.ended_at - run.created_at))

    def model(self, name: str) -> ModelSeries:
        """Return the series of a model, or those of the models that are one too many."""
        if name not in self._models:
            if len(self._models) >= MOST_MODELS:
                return self._of_model(OTHER)
            self._models.add(name)
        return self._of_model(name)

    def called(self, tool: str, seen: Observation) -> None:
        """Count a call that has ended."""
        name = "unknown" if seen.outcome == "unknown_tool" else tool if self._is_known(tool) else OTHER
        self.calls.labels(name, seen.outcome).inc()
        if seen.outcome in ("result", "failed", "timed_out"):
            self.call_seconds.labels(name).observe(seen.seconds)


class ModelSeries:
    """The series of one model."""

    __slots__ = ("_asked", "_cost", "_first", "_tokens", "_took", "name", "retries")

    def __init__(self, name: str, of: tuple[Counter, Histogram, Histogram, Counter, Counter, Counter]) -> None:
        asked, took, first, tokens, cost, retries = of
        self.name = name
        self._asked = {one: asked.labels(name, one) for one in ("replied", "failed", "too_long", "interrupted")}
        self._took, self._first = took.labels(name), first.labels(name)
        self._tokens = [tokens.labels(name, one) for one in _TOKENS]
        self._cost, self.retries = cost.labels(name), retries.labels(name)

    def replied(self, reply: Reply, seconds: float) -> None:
        """Count a request that was answered after so many seconds."""
        used = reply.usage
        self._asked["replied"].inc()
        self._took.observe(seconds)
        self._first.observe(reply.first_token_seconds)
        for series, number in zip(
            self._tokens, (used.input_tokens, used.output_tokens, used.cached_tokens), strict=True
        ):
            if number:
                series.inc(number)
        if used.cost:
            self._cost.inc(used.cost)

    def failed(self, outcome: str) -> None:
        """Count a request without an answer."""
        self._asked[outcome].inc()


class LogMetrics:
    """Counts what one drive commits to a log that had `before` in it."""

    __slots__ = ("_asked", "_metrics", "_name", "_step", "_tools")

    def __init__(self, metrics: RunMetrics, before: Sequence[Event]) -> None:
        self._metrics = metrics
        self._name = "none"
        self._asked: float | None = None  # when the request was made that is under way
        self._step = 0
        self._tools: dict[str, str] = {}  # of calls under way, by their ids
        now = CLOCK.now()  # of a request that another process made, only the rest is measured
        for event in before:
            self._note(now, event)

    def see(self, entries: Sequence[Entry]) -> None:
        """Count entries that are committed."""
        for _, at, event in entries:
            self._count(at, event)
            self._note(at, event)

    @property
    def _model(self) -> ModelSeries:
        return self._metrics.model(self._name)

    def _note(self, at: float, event: Event) -> None:
        match event:
            case Started(model=model):
                self._name = model or "none"
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
                self._metrics.model(reply.model or self._name).replied(reply, seconds)
                if step > self._step:
                    self._metrics.steps.inc(step - self._step)
            case Observed(observation=seen):
                self._metrics.called(self._tools.get(seen.call_id, ""), seen)
            case Retried():
                self._model.retries.inc()
            case Asked() if self._asked is not None:  # the one before was too long for the window
                self._model.failed("too_long")
            case Stopped(reason=reason) if self._asked is not None:
                self._model.failed("failed" if reason is StopReason.ERROR else "interrupted")
