"""What spans say in numbers: how long requests took and how many tokens, how runs ended, what came of calls.

The SDK's instruments take some 10 µs a value, so an endpoint of our own gets sums that are kept here.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import conventions as names
from .span_record import SpanRecord, Value

_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
_MOST = 2_000  # combinations of attributes; what comes later is counted together
_OVERFLOW = (("otel.metric.overflow", True),)
_ONE = (1,)
_BY = (names.OPERATION, names.PROVIDER, names.REQUEST_MODEL)

Labels = tuple[tuple[str, Value], ...]


class Metric(NamedTuple):
    """A metric; `bounds` are those of a histogram's buckets, and a counter has none."""

    name: str
    unit: str
    about: str
    bounds: tuple[float, ...] = ()


METRICS: Mapping[str, Metric] = {
    one.name: one
    for one in (
        Metric(names.DURATION_METRIC, "s", "GenAI operation duration.", _SECONDS),
        Metric(names.TOKENS_METRIC, "{token}", "Number of input and output tokens used.", _TOKENS),
        Metric(names.FIRST_CHUNK_METRIC, "s", "Time to receive the first chunk.", _SECONDS),
        Metric(names.RUNS_METRIC, "{run}", "Runs that ended, by their stop reasons."),
        Metric(names.TOOL_CALLS_METRIC, "{call}", "Calls of tools, by their outcomes."),
    )
}


def series_of(record: SpanRecord) -> list[tuple[str, Labels]]:
    """Return the metrics to which a span adds, each with its attributes; `amounts_of` says how much."""
    shared, own = record.shared.values, record.own
    operation = shared[names.OPERATION]
    if operation == names.EXECUTE_TOOL:
        outcome = own[names.OUTCOME]
        tool = "unknown" if outcome == "unknown_tool" else own[names.TOOL_NAME]  # a model's invention
        return [(names.TOOL_CALLS_METRIC, ((names.TOOL_NAME, tool), (names.OUTCOME, outcome)))]
    by: Labels = tuple((name, shared[name]) for name in _BY if name in shared)
    duration = (names.DURATION_METRIC, by + (((names.ERROR_TYPE, record.error),) if record.error else ()))
    if operation == names.INVOKE_AGENT:
        agent = (names.AGENT, shared.get(names.AGENT, "unknown"))
        return [duration, (names.RUNS_METRIC, (agent, (names.STOP_REASON, own[names.STOP_REASON])))]
    tokens = [(names.TOKENS_METRIC, (*by, (names.TOKEN_TYPE, kind))) for kind in ("input", "output")]
    return [duration, *tokens, (names.FIRST_CHUNK_METRIC, by)]


def amounts_of(record: SpanRecord) -> tuple[Any, ...]:
    """Return what a span adds to its series; `None` for what it does not say."""
    operation, own = record.shared.values[names.OPERATION], record.own
    if operation == names.EXECUTE_TOOL:
        return _ONE
    seconds = (record.end - record.start) / 1e9
    if operation == names.INVOKE_AGENT:
        return seconds, 1
    return seconds, own.get(names.INPUT_TOKENS), own.get(names.OUTPUT_TOKENS), own.get(names.FIRST_CHUNK)


class Sum:
    """The sum of one metric with one combination of attributes; `counts` by bucket, if it is a histogram."""

    __slots__ = ("_bounds", "count", "counts", "least", "most", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.count, self.total, self.least, self.most = 0, 0.0, float("inf"), float("-inf")

    def add(self, value: float) -> None:
        """Add a value."""
        self.counts[bisect_left(self._bounds, value)] += 1
        self.count += 1
        self.total += value
        if value < self.least:
            self.least = value
        if value > self.most:
            self.most = value


class Measurements:
    """The sums since this process began (`since`, in Unix nanoseconds)."""

    def __init__(self) -> None:
        self.since = time.time_ns()
        self.sums: dict[tuple[str, Labels], Sum] = {}
        self._known: dict[tuple[Any, ...], list[Sum]] = {}  # by what makes the series of a span differ

    def add(self, record: SpanRecord) -> None:
        """Add what a span says."""
        shared, own = record.shared.values, record.own
        what = own.get(names.TOOL_NAME) or own.get(names.STOP_REASON)
        model = shared.get(names.REQUEST_MODEL), shared.get(names.PROVIDER)
        key = what, own.get(names.OUTCOME), shared.get(names.AGENT), *model, record.error
        sums = self._known.get(key) or self._new(key, record)
        for one, value in zip(sums, amounts_of(record), strict=True):
            if value is not None:
                one.add(value)

    def _new(self, key: tuple[Any, ...], record: SpanRecord) -> list[Sum]:
        found = []
        for name, labels in series_of(record):
            kept = labels if len(self.sums) < _MOST or (name, labels) in self.sums else _OVERFLOW
            found.append(self.sums.setdefault((name, kept), Sum(METRICS[name].bounds)))
        if len(self._known) < _MOST:
            self._known[key] = found
        return found
