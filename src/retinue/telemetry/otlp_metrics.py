"""Metrics in the format of OTLP."""

from __future__ import annotations

import time

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    Histogram,
    HistogramDataPoint,
    Metric as OtlpMetric,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum as OtlpSum,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from .conventions import version
from .measurements import METRICS, Labels, Measurements, Metric, Sum


def encode_metrics(resource: bytes, sums: Measurements) -> bytes:
    """Return the body of a request with all sums so far."""
    now = time.time_ns()
    by_metric: dict[str, list[tuple[Labels, Sum]]] = {}
    for (name, labels), one in sums.sums.items():
        if one.count:
            by_metric.setdefault(name, []).append((labels, one))
    metrics = [_metric(METRICS[name], points, sums.since, now) for name, points in by_metric.items()]
    scope = ScopeMetrics(scope=InstrumentationScope(name="retinue", version=version()), metrics=metrics)
    by_resource = ResourceMetrics(resource=Resource.FromString(resource), scope_metrics=[scope])
    return bytes(ExportMetricsServiceRequest(resource_metrics=[by_resource]).SerializeToString())


def _metric(metric: Metric, points: list[tuple[Labels, Sum]], since: int, now: int) -> OtlpMetric:
    made = OtlpMetric(name=metric.name, unit=metric.unit, description=metric.about)
    if metric.bounds:
        found = [_histogram(metric, by, one, since, now) for by, one in points]
        whole = Histogram(data_points=found, aggregation_temporality=AGGREGATION_TEMPORALITY_CUMULATIVE)
        made.histogram.CopyFrom(whole)
        return made
    numbers = [
        NumberDataPoint(attributes=_labels(by), as_int=one.count, start_time_unix_nano=since, time_unix_nano=now)
        for by, one in points
    ]
    temporality = AGGREGATION_TEMPORALITY_CUMULATIVE
    made.sum.CopyFrom(OtlpSum(data_points=numbers, aggregation_temporality=temporality, is_monotonic=True))
    return made


def _histogram(metric: Metric, by: Labels, one: Sum, since: int, now: int) -> HistogramDataPoint:
    return HistogramDataPoint(
        attributes=_labels(by),
        start_time_unix_nano=since,
        time_unix_nano=now,
        count=one.count,
        sum=one.total,
        min=one.least,
        max=one.most,
        bucket_counts=one.counts,
        explicit_bounds=metric.bounds,
    )


def _labels(labels: Labels) -> list[KeyValue]:
    return [
        KeyValue(
            key=name,
            value=AnyValue(bool_value=value) if isinstance(value, bool) else AnyValue(string_value=str(value)),
        )
        for name, value in labels
    ]
