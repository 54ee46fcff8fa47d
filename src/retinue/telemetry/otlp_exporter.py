"""Sends spans and metrics to a collector over OTLP/HTTP."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import Sequence
from typing import Protocol

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.metrics.view import View
from opentelemetry.sdk.resources import Resource

from .._internal.processes import call_in_forked_child
from .._internal.redaction import redact, strip_address_secrets
from ..errors import UsageError
from ..net.connection_pool import FAILURES, ConnectionPool, describe_failure, read_body
from ..net.proxy_route import Route, route
from ..net.retry import TimeLimits, parse_retry_after
from .environment import Endpoint
from .sdk_export import Instruments, make_readable_span
from .span_record import SpanRecord

_AGAIN = (408, 429, 502, 503, 504)
_MOST = 64_000  # bytes of an answer
_MOST_SERIES = 2_000  # combinations of attributes of a metric; what comes later is counted together
_NO_SUCH_PATH = (404, 405, 415, 501)


class NotSent(Exception):
    """Raised if something could not be sent. `again`: it may be tried again, after `seconds` if the server said so."""

    def __init__(self, problem: str, *, again: bool, seconds: float = 0.0) -> None:
        super().__init__(problem)
        self.again = again
        self.seconds = seconds


class Exporter(Protocol):
    """What is told of spans, in a thread of its own."""

    def send(self, records: Sequence[SpanRecord]) -> None:
        """Send spans. Raises `NotSent`."""

    def measure(self, record: SpanRecord) -> None:
        """Add to the metrics what a span says."""

    def send_metrics(self) -> None:
        """Send the metrics. Raises `NotSent`."""

    def close(self) -> None:
        """Let go of connections."""


class OtlpExporter:
    """Sends to endpoints of its own; what has none is not sent. `resource` describes the process."""

    def __init__(self, traces: Endpoint | None, metrics: Endpoint | None, resource: Resource) -> None:
        self._runner = asyncio.Runner()
        self._traces, self._metrics = (None if one is None else _Poster(one) for one in (traces, metrics))
        self._posters = [one for one in (self._traces, self._metrics) if one is not None]
        self._resource = resource
        self._begin_metrics()
        call_in_forked_child(self._begin_metrics)  # the parent sends what was measured before

    def _begin_metrics(self) -> None:
        views = [View(instrument_name="*", aggregation_cardinality_limit=_MOST_SERIES)]
        self._reader = InMemoryMetricReader()
        meters = MeterProvider([self._reader], self._resource, shutdown_on_exit=False, views=views)
        self._instruments = Instruments(meters)

    def send(self, records: Sequence[SpanRecord]) -> None:
        """Send spans. Raises `NotSent`."""
        if self._traces is not None:
            spans = [make_readable_span(record, self._resource) for record in records]
            self._runner.run(self._traces.post(encode_spans(spans).SerializeToString()))

    def measure(self, record: SpanRecord) -> None:
        """Add to the metrics what a span says."""
        if self._metrics is not None:
            self._instruments.measure(record)

    def send_metrics(self) -> None:
        """Send the metrics. Raises `NotSent`; a collector that takes none is not asked again."""
        if self._metrics is None or (found := self._reader.get_metrics_data()) is None:
            return
        try:
            self._runner.run(self._metrics.post(encode_metrics(found).SerializeToString()))
        except NotSent as error:
            if self._metrics.status in _NO_SUCH_PATH:
                self._metrics = None
                raise NotSent(f"{error}; it takes no metrics, and gets no more of them", again=False) from None
            raise

    def close(self) -> None:
        """Close the connections."""
        for poster in self._posters:
            self._runner.run(poster.close())
        self._runner.close()


class _Poster:
    """Posts to one endpoint; `status` is that of the last answer. Raises `UsageError` if its files are not there."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._way = _route_to(endpoint)
        self._pool: ConnectionPool | None = None
        self._limits = TimeLimits(min(10.0, endpoint.seconds), endpoint.seconds, endpoint.seconds)
        self.status = 0
        self._wait = 0.0
        if endpoint.authority or endpoint.certificate:
            _make_tls_context(endpoint)

    async def post(self, body: bytes) -> None:
        """Post a body. Raises `NotSent`."""
        endpoint = self._endpoint
        headers = {"User-Agent": "retinue", "Content-Type": "application/x-protobuf", **endpoint.headers}
        if endpoint.zipped:
            body, headers["Content-Encoding"] = gzip.compress(body, 1), "gzip"
        said = await self._read_answer(self._way.request("POST", endpoint.url, headers, body))
        if self.status >= 300:
            shown = redact(said.decode("utf-8", "replace"))[:200].strip()
            address, told = strip_address_secrets(endpoint.url), f": {shown!r}" if shown.isprintable() else ""
            problem = f"{address} answered {self.status}{told}"
            raise NotSent(problem, again=self.status in _AGAIN, seconds=self._wait)

    async def _read_answer(self, request: bytes) -> bytes:
        """Return the answer's body; one that is too large is cut, and its connection closed."""
        self.status = 0
        self._pool = self._pool or ConnectionPool(self._way, self._limits, lambda: _make_tls_context(self._endpoint))
        try:
            async with asyncio.timeout(self._endpoint.seconds):
                connection = await self._pool.ask(request)
                try:
                    said = await read_body(connection, _MOST, cut=True)
                finally:
                    self._pool.release(connection)
        except FAILURES as error:
            shown = strip_address_secrets(self._endpoint.url)
            raise NotSent(f"{shown} {describe_failure(error)}", again=True) from None
        self.status = connection.status
        self._wait = parse_retry_after(connection.headers.get("retry-after")) or 0.0
        return said

    async def close(self) -> None:
        """Close the connections."""
        if self._pool is not None:
            self._pool.close()
            await asyncio.sleep(0)  # lets the loop release the sockets


def _route_to(endpoint: Endpoint) -> Route:
    try:
        return route(endpoint.url)
    except ValueError:
        raise UsageError(f"{redact(endpoint.url)[:200]!r} is no address for telemetry") from None


def _make_tls_context(endpoint: Endpoint) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=endpoint.authority or None)
        if endpoint.certificate:
            context.load_cert_chain(endpoint.certificate, endpoint.key or None)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"the certificates for telemetry cannot be read: {error}") from None
    context.set_alpn_protocols(["http/1.1"])
    return context
