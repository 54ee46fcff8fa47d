"""Spans and metrics for the OpenTelemetry SDK of an app that has set it up: its providers, processors and exporters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opentelemetry.metrics import Counter, Histogram, MeterProvider
from opentelemetry.sdk.trace import Event, ReadableSpan, Tracer, TracerProvider
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags, TraceState
from opentelemetry.trace.status import Status, StatusCode

from ..errors import UsageError
from .conventions import ERROR_TYPE, version
from .measurements import METRICS, Metric, amounts_of, series_of
from .span_content import written
from .span_record import CLIENT, SpanRecord

_SCOPE = InstrumentationScope("retinue", version())


class SdkExporter:
    """Passes spans to the processors of a `TracerProvider`, and metrics to a `MeterProvider`, if there is one. Raises
    `UsageError` for a provider that is not the SDK's."""

    def __init__(self, tracers: TracerProvider | None, meters: MeterProvider | None) -> None:
        tracer = None if tracers is None else tracers.get_tracer("retinue", version())
        if tracer is not None and not isinstance(tracer, Tracer):
            raise UsageError("tracer_provider: want a TracerProvider of opentelemetry.sdk.trace")
        self._tracer = tracer
        self._instruments: dict[str, Counter | Histogram] = {}
        if meters is not None:
            meter = meters.get_meter("retinue", version())
            self._instruments = {name: _instrument(meter, one) for name, one in METRICS.items()}

    def send(self, records: Sequence[SpanRecord]) -> None:
        """Pass on spans."""
        if self._tracer is not None:
            for record in records:
                self._tracer.span_processor.on_end(_readable(self._tracer, record))

    def measure(self, record: SpanRecord) -> None:
        """Record what a span says."""
        if self._instruments:
            for (name, labels), value in zip(series_of(record), amounts_of(record), strict=True):
                instrument = self._instruments[name]
                if isinstance(instrument, Counter):
                    instrument.add(value, dict(labels))
                elif value is not None:
                    instrument.record(value, dict(labels))

    def send_metrics(self) -> None:
        """Do nothing: the provider sends them when it is time."""

    def close(self) -> None:
        """Do nothing: the providers are the app's."""


def _instrument(meter: Any, metric: Metric) -> Counter | Histogram:
    about = {"unit": metric.unit, "description": metric.about}
    if not metric.bounds:
        counter: Counter = meter.create_counter(metric.name, **about)
        return counter
    histogram: Histogram = meter.create_histogram(
        metric.name, **about, explicit_bucket_boundaries_advisory=metric.bounds
    )
    return histogram


def _readable(tracer: Tracer, record: SpanRecord) -> ReadableSpan:
    parent = record.parent
    trace_id = int.from_bytes(parent.trace_id)
    state = TraceState.from_header([parent.state]) if parent.state else TraceState()
    flags = TraceFlags(TraceFlags.SAMPLED)
    values: dict[str, Any] = {**record.shared.values, **record.own}
    if record.content is not None:
        values |= {name: written(value) for name, value in record.content.values.items()}
    if record.error:
        values[ERROR_TYPE] = record.error
    caller = SpanContext(trace_id, int.from_bytes(parent.span_id), True, flags, state) if parent.span_id else None
    return ReadableSpan(
        name=record.name,
        context=SpanContext(trace_id, int.from_bytes(record.span_id), False, flags, state),
        parent=caller,
        resource=tracer.resource,
        attributes=values,
        events=[Event(one.name, dict(one.values), one.at) for one in record.events],
        kind=SpanKind.CLIENT if record.kind == CLIENT else SpanKind.INTERNAL,
        status=Status(StatusCode.ERROR, written(record.problem) or None) if record.error else Status(StatusCode.UNSET),
        start_time=record.start,
        end_time=record.end,
        instrumentation_scope=_SCOPE,
    )
