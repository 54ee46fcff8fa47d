"""What spans say in numbers: how long requests took and how many tokens, how runs ended, what came of calls.

The SDK's instruments take some 10 µs a value, so an endpoint of our own gets sums that are kept here.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from . import conventions as names
from .span_record import SpanRecord, Value

_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
_MOST = 2_000  # combinations of attributes; what comes later is counted together
_OVERFLOW = (("otel.metric.overflow", True),)
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


def values_of(record: SpanRecord) -> Iterator[tuple[str, float, Labels]]:
    """Yield what a span adds to metrics: the metric, the value and its attributes."""
    shared, own = record.shared.values, record.own
    operation = shared[names.OPERATION]
    if operation == names.EXECUTE_TOOL:
        outcome = own[names.OUTCOME]
        tool = "unknown" if outcome == "unknown_tool" else own[names.TOOL_NAME]  # a model's invention
        yield names.TOOL_CALLS_METRIC, 1, ((names.TOOL_NAME, tool), (names.OUTCOME, outcome))
        return
    by: Labels = tuple((name, shared[name]) for name in _BY if name in shared)
    failed: Labels = ((names.ERROR_TYPE, record.error),) if record.error else ()
    yield names.DURATION_METRIC, (record.end - record.start) / 1e9, by + failed
    if operation == names.INVOKE_AGENT:
        agent = (names.AGENT, shared.get(names.AGENT, "unknown"))
        yield names.RUNS_METRIC, 1, (agent, (names.STOP_REASON, own[names.STOP_REASON]))
        return
    for kind, name in (("input", names.INPUT_TOKENS), ("output", names.OUTPUT_TOKENS)):
        if isinstance(tokens := own.get(name), int):
            yield names.TOKENS_METRIC, tokens, (*by, (names.TOKEN_TYPE, kind))
    if isinstance(first := own.get(names.FIRST_CHUNK), float):
        yield names.FIRST_CHUNK_METRIC, first, by


class Sum:
    """The sum of one metric with one combination of attributes; `counts` by bucket, if it is a histogram."""

    __slots__ = ("count", "counts", "least", "most", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.counts = [0] * (len(bounds) + 1)
        self.count, self.total, self.least, self.most = 0, 0.0, float("inf"), float("-inf")


class Measurements:
    """The sums since this process began (`since`, in Unix nanoseconds)."""

    def __init__(self) -> None:
        self.since = time.time_ns()
        self.sums: dict[tuple[str, Labels], Sum] = {}

    def add(self, record: SpanRecord) -> None:
        """Add what a span says."""
        for name, value, labels in values_of(record):
            bounds = METRICS[name].bounds
            one = self.sums.get((name, labels))
            if one is None:
                labels = labels if len(self.sums) < _MOST else _OVERFLOW
                one = self.sums.setdefault((name, labels), Sum(bounds))
            one.counts[bisect_left(bounds, value)] += 1
            one.count += 1
            one.total += value
            one.least, one.most = min(one.least, value), max(one.most, value)
