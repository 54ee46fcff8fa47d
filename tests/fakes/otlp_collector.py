"""A collector that takes OTLP over HTTP, as Protocol Buffers, with opentelemetry-proto's own messages.

with OtlpCollector() as collector:
    telemetry.enable(collector.url)
    ...
    telemetry.flush()
    assert collector.tree() == ["invoke_agent agent", "  chat m"]
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from .loopback import Served


@dataclass(frozen=True, slots=True)
class Span:
    """A span that arrived; ids are hexadecimal, and `parent` is empty if it has none."""

    trace: str
    id: str
    parent: str
    name: str
    start: int
    end: int
    kind: int
    values: Mapping[str, Any]
    events: tuple[tuple[str, Mapping[str, Any]], ...]
    failed: bool
    problem: str
    state: str
    resource: Mapping[str, Any]


class OtlpCollector(Served):
    """The collector, while its `with` lasts. `arrived` has the spans in the order of arrival, `metrics` the points of
    the last request by metric, `headers` those of each request. `status` is what it answers; it `hangs` until told
    otherwise."""

    def __init__(self) -> None:
        self.arrived: list[Span] = []
        self.metrics: dict[str, list[tuple[Mapping[str, Any], Any]]] = {}
        self.headers: list[Mapping[str, str]] = []
        self.paths: list[str] = []
        self.status = 200
        self.hangs = False
        app = web.Application(client_max_size=2**28)
        app.router.add_post("/{path:.*}", self._take)
        super().__init__(app)

    async def _take(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.headers.append(dict(request.headers))
        self.paths.append(request.path)
        if self.hangs:
            await self._loopback.closing.wait()
        if self.status != 200:
            return web.Response(status=self.status, text="no, thank you")
        if body[:2] == b"\x1f\x8b":
            body = gzip.decompress(body)
        assert request.content_type == "application/x-protobuf"
        if request.path.endswith("/v1/traces"):
            self.arrived += _spans(ExportTraceServiceRequest.FromString(body))
        else:
            self.metrics = _metrics(ExportMetricsServiceRequest.FromString(body))
        return web.Response(body=b"", content_type="application/x-protobuf")

    @property
    def spans(self) -> list[Span]:
        """Each span once: what arrived last of each id."""
        return list({one.id: one for one in self.arrived}.values())

    def tree(self) -> list[str]:
        """The names of all spans, each indented below its parent, in the order in which they began."""
        known = {one.id for one in self.spans}
        tops = [one for one in self.spans if one.parent not in known]
        return [line for top in sorted(tops, key=_begun) for line in self._below(top, "")]

    def _below(self, span: Span, indent: str) -> Iterator[str]:
        yield f"{indent}{span.name}"
        for one in sorted(self.spans, key=_begun):
            if one.parent == span.id:
                yield from self._below(one, f"{indent}  ")

    def named(self, name: str) -> list[Span]:
        """The spans of this name, in the order in which they began."""
        return sorted((one for one in self.spans if one.name == name), key=_begun)


def _begun(span: Span) -> tuple[int, int, str]:
    return span.start, -span.end, span.name


def _spans(request: ExportTraceServiceRequest) -> Iterator[Span]:
    for resource in request.resource_spans:
        about = _values(resource.resource.attributes)
        for scope in resource.scope_spans:
            assert scope.scope.name == "retinue"
            for one in scope.spans:
                yield Span(
                    one.trace_id.hex(),
                    one.span_id.hex(),
                    one.parent_span_id.hex(),
                    one.name,
                    one.start_time_unix_nano,
                    one.end_time_unix_nano,
                    one.kind,
                    _values(one.attributes),
                    tuple((event.name, _values(event.attributes)) for event in one.events),
                    one.status.code == 2,
                    one.status.message,
                    one.trace_state,
                    about,
                )


def _metrics(request: ExportMetricsServiceRequest) -> dict[str, list[tuple[Mapping[str, Any], Any]]]:
    found: dict[str, list[tuple[Mapping[str, Any], Any]]] = {}
    for resource in request.resource_metrics:
        for metric in (one for scope in resource.scope_metrics for one in scope.metrics):
            points = metric.sum.data_points if metric.HasField("sum") else metric.histogram.data_points
            found[metric.name] = [(_values(point.attributes), point) for point in points]
    return found


def _values(attributes: Iterable[Any]) -> dict[str, Any]:
    found = {one.key: _value(one.value) for one in attributes}
    assert len(found) == len(list(attributes)), "an attribute is there twice"
    return found


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind)
