"""Spans and metrics as OpenTelemetry's SDK has them, and the exporter for an app that has set up its providers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from opentelemetry.metrics import Counter, Histogram, MeterProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, Tracer, TracerProvider
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags, TraceState
from opentelemetry.trace.status import Status, StatusCode

from ..errors import UsageError
from . import conventions as names
from .span_content import write_value
from .span_record import CLIENT, SpanRecord, Value

_SCOPE = InstrumentationScope("retinue", names.read_version())
_LONGEST = 1_000  # characters of an attribute that is no content
_LARGEST = 2**63 - 1  # of a whole number in OTLP
_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
_BY = (names.OPERATION, names.PROVIDER, names.REQUEST_MODEL)


class SdkExporter:
    """Passes spans to the processors of a `TracerProvider`, and metrics to a `MeterProvider`, if there is one. Raises
    `UsageError` for a provider that is not the SDK's."""

    def __init__(self, tracers: TracerProvider | None, meters: MeterProvider | None) -> None:
        tracer = None if tracers is None else tracers.get_tracer("retinue", names.read_version())
        if tracer is not None and not isinstance(tracer, Tracer):
            raise UsageError("tracer_provider: want a TracerProvider of opentelemetry.sdk.trace")
        self._tracer = tracer
        self._instruments = None if meters is None else Instruments(meters)

    def send(self, records: Sequence[SpanRecord]) -> None:
        """Pass on spans."""
        if self._tracer is not None:
            for record in records:
                self._tracer.span_processor.on_end(make_readable_span(record, self._tracer.resource))

    def measure(self, record: SpanRecord) -> None:
        """Record what a span says."""
        if self._instruments is not None:
            self._instruments.measure(record)

    def send_metrics(self) -> None:
        """Do nothing: the provider sends them when it is time."""

    def close(self) -> None:
        """Do nothing: the providers are the app's."""


# ── spans ────────────────────────────────────────────────────────────────────────────────────────


def make_readable_span(record: SpanRecord, resource: Resource) -> ReadableSpan:
    """Return a span as processors and encoders of the SDK read it."""
    parent = record.parent
    trace_id = int.from_bytes(parent.trace_id)
    state = TraceState.from_header([parent.state]) if parent.state else TraceState()
    flags = TraceFlags(TraceFlags.SAMPLED)
    values = _encode_attributes(record.shared) | _encode_attributes(record.own)
    if record.content is not None:
        values |= {name: _drop_surrogates(write_value(value)) for name, value in record.content.values.items()}
    if record.error:
        values[names.ERROR_TYPE] = _drop_surrogates(record.error)
    caller = SpanContext(trace_id, int.from_bytes(parent.span_id), True, flags, state) if parent.span_id else None
    problem = _drop_surrogates(write_value(record.problem)) or None
    return ReadableSpan(
        name=_drop_surrogates(record.name[:_LONGEST]),
        context=SpanContext(trace_id, int.from_bytes(record.span_id), False, flags, state),
        parent=caller,
        resource=resource,
        attributes=values,
        events=[Event(one.name, _encode_attributes(one.values), one.at) for one in record.events],
        kind=SpanKind.CLIENT if record.kind == CLIENT else SpanKind.INTERNAL,
        status=Status(StatusCode.ERROR, problem) if record.error else Status(StatusCode.UNSET),
        start_time=record.start,
        end_time=record.end,
        instrumentation_scope=_SCOPE,
    )


def _encode_attributes(values: Mapping[str, Value]) -> dict[str, Any]:
    return {_drop_surrogates(name): _encode_attribute(value) for name, value in values.items()}


def _encode_attribute(value: Value) -> Value:
    match value:
        case str():
            return _drop_surrogates(value[:_LONGEST])
        case bool() | float():
            return value
        case int():
            return max(~_LARGEST, min(value, _LARGEST))
    return tuple(_drop_surrogates(one[:_LONGEST]) for one in value)


def _drop_surrogates(text: str) -> str:
    """Return a text without halves of surrogate pairs, which a model may write."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


# ── metrics ──────────────────────────────────────────────────────────────────────────────────────


class Metric(NamedTuple):
    """A metric; `bounds` are those of a histogram's buckets, and a counter has none."""

    name: str
    unit: str
    about: str
    bounds: tuple[float, ...] = ()


METRICS = (
    Metric(names.DURATION_METRIC, "s", "GenAI operation duration.", _SECONDS),
    Metric(names.TOKENS_METRIC, "{token}", "Number of input and output tokens used.", _TOKENS),
    Metric(names.FIRST_CHUNK_METRIC, "s", "Time to receive the first chunk.", _SECONDS),
    Metric(names.RUNS_METRIC, "{run}", "Runs that ended, by their stop reasons."),
    Metric(names.TOOL_CALLS_METRIC, "{call}", "Calls of tools, by their outcomes."),
)


class Instruments:
    """What spans say in numbers: how long requests took and how many tokens, how runs ended, what came of calls."""

    def __init__(self, meters: MeterProvider) -> None:
        meter = meters.get_meter("retinue", names.read_version())
        self._counters: dict[str, Counter] = {}
        self._histograms: dict[str, Histogram] = {}
        for one in METRICS:
            if one.bounds:
                self._histograms[one.name] = meter.create_histogram(
                    one.name, one.unit, one.about, explicit_bucket_boundaries_advisory=one.bounds
                )
            else:
                self._counters[one.name] = meter.create_counter(one.name, one.unit, one.about)

    def measure(self, record: SpanRecord) -> None:
        """Record what a span says."""
        for name, value, labels in _list_measurements(record):
            if name in self._counters:
                self._counters[name].add(value, labels)
            else:
                self._histograms[name].record(value, labels)


def _list_measurements(record: SpanRecord) -> Iterator[tuple[str, float, dict[str, Any]]]:
    """Yield the metrics to which a span adds: how much, and with which attributes."""
    shared, own = _encode_attributes(record.shared), _encode_attributes(record.own)
    operation = shared[names.OPERATION]
    if operation == names.EXECUTE_TOOL:
        outcome = own[names.OUTCOME]
        tool = "unknown" if outcome == "unknown_tool" else own[names.TOOL_NAME]  # a model's invention
        yield names.TOOL_CALLS_METRIC, 1, {names.TOOL_NAME: tool, names.OUTCOME: outcome}
        return
    by = {name: shared[name] for name in _BY if name in shared}
    error = {names.ERROR_TYPE: record.error} if record.error else {}
    yield names.DURATION_METRIC, (record.end - record.start) / 1e9, by | error
    if operation == names.INVOKE_AGENT:
        agent = shared.get(names.AGENT, "unknown")
        yield names.RUNS_METRIC, 1, {names.AGENT: agent, names.STOP_REASON: own[names.STOP_REASON]}
        return
    for kind, name in (("input", names.INPUT_TOKENS), ("output", names.OUTPUT_TOKENS)):
        if name in own:
            yield names.TOKENS_METRIC, own[name], by | {names.TOKEN_TYPE: kind}
    if names.FIRST_CHUNK in own:
        yield names.FIRST_CHUNK_METRIC, own[names.FIRST_CHUNK], by
