"""Spans and metrics on their way out: a queue whose thread sends them in batches, so that no run waits for it, either
over OTLP/HTTP to a collector, or to the providers of an app that has set up OpenTelemetry's SDK."""

from __future__ import annotations

import asyncio
import gzip
import logging
import ssl
import threading
import time
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics import MeterProvider as SdkMeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.metrics.view import View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, Tracer, TracerProvider
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags, TraceState
from opentelemetry.trace.status import Status, StatusCode

from .._internal.processes import call_in_forked_child, keep_from_parent
from .._internal.redaction import redact, strip_address_secrets
from ..errors import UsageError
from ..net.connection_pool import FAILURES, ConnectionPool, describe_failure, read_body, route
from ..net.retry import Attempts, Retries, TimeLimits, parse_retry_after
from .environment import Endpoint, Pace
from .span_content import write_value
from .spans import SpanRecord, Value

logger = logging.getLogger(__name__)
_VERSION = import_module("retinue").__version__
_SCOPE = InstrumentationScope("retinue", _VERSION)
_QUIET = 60.0  # seconds between two lines on problems
_RETRIES = Retries(tries=12, longest_wait=30.0)  # of a batch, some five minutes
_AGAIN = (0, 408, 429, 502, 503, 504)  # statuses after which a batch is sent again; 0: there was no answer
_NO_SUCH_PATH = (404, 405, 415, 501)
_MOST = 64_000  # bytes of an answer
_MOST_SERIES = 2_000  # combinations of attributes of a metric; what comes later is counted together
_LONGEST = 1_000  # characters of an attribute that is no content
_LARGEST = 2**63 - 1  # of a whole number in OTLP
_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)


class NotSent(Exception):
    """Raised if something could not be sent. `status` is that of the answer, and `seconds` what it asks to wait."""

    def __init__(self, problem: str, status: int = 0, seconds: float = 0.0) -> None:
        super().__init__(problem)
        self.status = status
        self.seconds = seconds


class SpanQueue:
    """Passes spans to an exporter, in a thread of its own. When too many wait, the oldest are dropped."""

    def __init__(self, exporter: OtlpExporter | SdkExporter, pace: Pace) -> None:
        self._exporter = exporter
        self._pace = pace
        self._waiting: deque[SpanRecord] = deque(maxlen=pace.most)
        self._dropped = 0
        self._closed = False
        self._rounds = self._asked = 0
        self._held: list[SpanRecord] = []  # a batch that is tried again
        self._attempts = Attempts(_RETRIES)  # at it
        self._not_before = 0.0
        self._metrics_at = time.monotonic() + pace.metrics
        self._said_at = -_QUIET
        self._start()
        call_in_forked_child(self._restart)

    def _start(self) -> None:
        self._wake, self._flushed = threading.Event(), threading.Condition()
        self._thread = threading.Thread(target=self._run, name="retinue-telemetry", daemon=True)
        self._thread.start()

    def _restart(self) -> None:
        """Begin anew in a forked child: the parent sends what waits there."""
        self._waiting.clear()
        self._held = []
        if not self._closed:
            self._start()

    def put(self, record: SpanRecord) -> None:
        """Add a span. Never waits, never raises."""
        self._dropped += len(self._waiting) == self._pace.most
        self._waiting.append(record)
        if len(self._waiting) == self._pace.most // 2:
            self._wake.set()

    def flush(self, seconds: float) -> bool:
        """Send what waits, and the metrics, at once. Return whether everything was sent in this time."""
        with self._flushed:
            self._asked = self._rounds + 2  # the round under way may have begun before
            self._wake.set()
            done = self._flushed.wait_for(lambda: self._rounds >= self._asked or not self._thread.is_alive(), seconds)
        return done and not self._held and not self._waiting

    def close(self, seconds: float) -> bool:
        """Flush and end the thread. Return as `flush` does."""
        sent = self.flush(seconds)
        self._closed = True
        self._wake.set()
        self._thread.join(0.2 if sent else 0.0)
        return sent

    def _run(self) -> None:
        while not self._closed:
            if self._rounds >= self._asked:
                self._wake.wait(self._pace.delay)
            self._wake.clear()
            try:
                self._send_all(hurried=self._rounds < self._asked)
            except Exception as error:  # a bug of ours, or of the app's processor, ends no telemetry
                self._held = []
                self._log_problem(f"{type(error).__name__}: {error}")
            with self._flushed:
                self._rounds += 1
                self._flushed.notify_all()
        self._exporter.close()

    def _send_all(self, *, hurried: bool) -> None:
        now = time.monotonic()
        if hurried or now >= self._not_before:
            while (self._held or self._waiting) and self._send_batch():
                pass
        if hurried or now >= self._metrics_at:
            self._metrics_at = now + self._pace.metrics
            try:
                self._exporter.send_metrics()
            except NotSent as error:
                self._log_problem(str(error))

    def _send_batch(self) -> bool:
        """Send a batch. Return whether the next may follow."""
        if not self._held:
            self._held = [self._waiting.popleft() for _ in range(min(self._pace.batch, len(self._waiting)))]
            for record in self._held:
                if not record.again and self._exporter.instruments is not None:
                    self._exporter.instruments.measure(record)
        try:
            self._exporter.send(self._held)
        except NotSent as error:
            wait = self._attempts.count_failure() if error.status in _AGAIN else None
            self._not_before = time.monotonic() + max(error.seconds, wait or _RETRIES.first_wait)
            self._dropped += len(self._held) if wait is None else 0
            self._log_problem(str(error))
            if wait is not None:
                return False
        self._held, self._attempts = [], Attempts(_RETRIES)
        return True

    def _log_problem(self, problem: str) -> None:
        now = time.monotonic()
        if now - self._said_at >= _QUIET:
            self._said_at = now
            lost = f" ({self._dropped:,} spans were dropped)" if self._dropped else ""
            logger.warning("telemetry was not sent: %s%s", problem, lost)


# ── where it goes ─────────────────────────────────────────────────────────────────────────────────


class SdkExporter:
    """Passes spans to the processors of a `TracerProvider`, and metrics to a `MeterProvider`, if there is one. Raises
    `UsageError` for a provider that is not the SDK's."""

    def __init__(self, tracers: TracerProvider | None, meters: MeterProvider | None) -> None:
        tracer = None if tracers is None else tracers.get_tracer("retinue", _VERSION)
        if tracer is not None and not isinstance(tracer, Tracer):
            raise UsageError("tracer_provider: want a TracerProvider of opentelemetry.sdk.trace")
        self._tracer = tracer
        self.instruments = None if meters is None else Instruments(meters)

    def send(self, records: Sequence[SpanRecord]) -> None:
        """Pass on spans."""
        if self._tracer is not None:
            for record in records:
                self._tracer.span_processor.on_end(make_readable_span(record, self._tracer.resource))

    def send_metrics(self) -> None:
        """Do nothing: the provider sends them when it is time."""

    def close(self) -> None:
        """Do nothing: the providers are the app's."""


class OtlpExporter:
    """Sends to endpoints of its own; what has none is not sent. `resource` describes the process."""

    def __init__(self, traces: Endpoint | None, metrics: Endpoint | None, resource: Resource | None = None) -> None:
        self._runner = asyncio.Runner()
        self._traces, self._metrics = (None if one is None else _Poster(one) for one in (traces, metrics))
        self._posters = [one for one in (self._traces, self._metrics) if one is not None]
        self._resource = _describe_process() if resource is None else resource
        self._begin_metrics()
        call_in_forked_child(self._begin_anew)

    def _begin_anew(self) -> None:
        """Use no connection of the parent in this forked child. The parent sends what was measured before."""
        keep_from_parent(self._runner)
        self._runner = asyncio.Runner()
        for poster in self._posters:
            keep_from_parent(poster.pool)
            poster.pool = poster.open_pool()
        self._begin_metrics()

    def _begin_metrics(self) -> None:
        views = [View(instrument_name="*", aggregation_cardinality_limit=_MOST_SERIES)]
        self._reader = InMemoryMetricReader()
        meters = SdkMeterProvider([self._reader], self._resource, shutdown_on_exit=False, views=views)
        self.instruments = None if self._metrics is None else Instruments(meters)

    def send(self, records: Sequence[SpanRecord]) -> None:
        """Send spans. Raises `NotSent`."""
        if self._traces is not None:
            spans = [make_readable_span(record, self._resource) for record in records]
            self._runner.run(self._traces.post(encode_spans(spans).SerializeToString()))

    def send_metrics(self) -> None:
        """Send the metrics. Raises `NotSent`; a collector that takes none is not asked again."""
        if self._metrics is None or (found := self._reader.get_metrics_data()) is None:
            return
        try:
            self._runner.run(self._metrics.post(encode_metrics(found).SerializeToString()))
        except NotSent as error:
            if error.status not in _NO_SUCH_PATH:
                raise
            self._metrics = self.instruments = None
            raise NotSent(f"{error}; it takes no metrics, and gets no more of them", error.status) from None

    def close(self) -> None:
        """Close the connections."""
        for poster in self._posters:
            self._runner.run(poster.close())
        self._runner.close()


def _describe_process() -> Resource:
    """Return the attributes of this process, as the environment extends them."""
    found = dict(Resource.create({"service.instance.id": str(uuid.uuid4())}).attributes)
    if str(found.get("service.name", "unknown_service")).startswith("unknown_service"):
        found |= {"service.name": "retinue", "service.version": _VERSION}
    return Resource(found)


class _Poster:
    """Posts to one endpoint. Raises `UsageError` if it is no address, or its files are not there."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        try:
            self._way = route(endpoint.url)
        except ValueError:
            raise UsageError(f"{redact(endpoint.url)[:200]!r} is no address for telemetry") from None
        if endpoint.authority or endpoint.certificate:
            _make_tls_context(endpoint)
        self.pool = self.open_pool()

    def open_pool(self) -> ConnectionPool:
        """Return a pool without connections."""
        seconds = self._endpoint.seconds
        limits = TimeLimits(min(10.0, seconds), seconds, seconds)
        return ConnectionPool(self._way, limits, partial(_make_tls_context, self._endpoint))

    async def post(self, body: bytes) -> None:
        """Post a body. Raises `NotSent`. An answer that is too large is cut, and its connection closed."""
        endpoint, shown = self._endpoint, strip_address_secrets(self._endpoint.url)
        headers = {"User-Agent": "retinue", "Content-Type": "application/x-protobuf", **endpoint.headers}
        if endpoint.zipped:
            body, headers["Content-Encoding"] = gzip.compress(body, 1), "gzip"
        try:
            async with asyncio.timeout(endpoint.seconds):
                connection = await self.pool.ask(self._way.request("POST", endpoint.url, headers, body))
                try:
                    said = await read_body(connection, _MOST, cut=True)
                finally:
                    self.pool.release(connection)
        except FAILURES as error:
            raise NotSent(f"{shown} {describe_failure(error)}") from None
        if connection.status >= 300:
            text = redact(said.decode("utf-8", "replace"))[:200].strip()
            problem = f"{shown} answered {connection.status}{f': {text!r}' if text.isprintable() else ''}"
            wait = parse_retry_after(connection.headers.get("retry-after")) or 0.0
            raise NotSent(problem, connection.status, wait)

    async def close(self) -> None:
        """Close the connections."""
        self.pool.close()
        await asyncio.sleep(0)  # lets the loop release the sockets


def _make_tls_context(endpoint: Endpoint) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=endpoint.authority or None)
        if endpoint.certificate:
            context.load_cert_chain(endpoint.certificate, endpoint.key or None)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"the certificates for telemetry cannot be read: {error}") from None
    context.set_alpn_protocols(["http/1.1"])
    return context


# ── as the SDK has them ───────────────────────────────────────────────────────────────────────────


def make_readable_span(record: SpanRecord, resource: Resource) -> ReadableSpan:
    """Return a span as processors and encoders of the SDK read it."""
    parent = record.parent
    trace_id, flags = int.from_bytes(parent.trace_id), TraceFlags(TraceFlags.SAMPLED)
    state = TraceState.from_header([parent.state]) if parent.state else TraceState()
    values = _encode_attributes(record.values)
    for name, value in (record.content or {}).items():
        values[name] = _drop_surrogates(write_value(value))
    if record.error:
        values["error.type"] = _drop_surrogates(record.error)
    problem = _drop_surrogates(write_value(record.problem)) or None
    return ReadableSpan(
        name=_drop_surrogates(record.name[:_LONGEST]),
        context=SpanContext(trace_id, int.from_bytes(record.span_id), False, flags, state),
        parent=SpanContext(trace_id, int.from_bytes(parent.span_id), True, flags, state) if parent.span_id else None,
        resource=resource,
        attributes=values,
        events=[Event(one.name, _encode_attributes(one.values), one.at) for one in record.events],
        kind=SpanKind.CLIENT if record.values["gen_ai.operation.name"] == "chat" else SpanKind.INTERNAL,
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


class Instruments:
    """What spans say in numbers: how long requests took and how many tokens, how runs ended, what came of calls."""

    def __init__(self, meters: MeterProvider) -> None:
        meter = meters.get_meter("retinue", _VERSION)

        def histogram(name: str, unit: str, about: str, bounds: Sequence[float]) -> Histogram:
            return meter.create_histogram(name, unit, about, explicit_bucket_boundaries_advisory=bounds)

        client = "gen_ai.client"
        self._duration = histogram(f"{client}.operation.duration", "s", "GenAI operation duration.", _SECONDS)
        self._tokens = histogram(f"{client}.token.usage", "{token}", "Number of input and output tokens used.", _TOKENS)
        self._first_chunk = histogram(
            f"{client}.operation.time_to_first_chunk", "s", "Time to receive the first chunk.", _SECONDS
        )
        self._runs = meter.create_counter("retinue.runs", "{run}", "Runs that ended, by their stop reasons.")
        self._calls = meter.create_counter("retinue.tool.calls", "{call}", "Calls of tools, by their outcomes.")

    def measure(self, record: SpanRecord) -> None:
        """Record what a span says."""
        values = _encode_attributes(record.values)

        def pick(*names: str) -> dict[str, Any]:
            return {name: values[name] for name in names if name in values}

        operation = values["gen_ai.operation.name"]
        if operation == "execute_tool":
            labels = pick("gen_ai.tool.name", "retinue.tool.outcome")
            if labels["retinue.tool.outcome"] == "unknown_tool":  # a model's invention
                labels["gen_ai.tool.name"] = "unknown"
            self._calls.add(1, labels)
            return
        by = pick("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model")
        error = {"error.type": record.error} if record.error else {}
        self._duration.record((record.end - record.start) / 1e9, by | error)
        if operation == "invoke_agent":
            agent = values.get("gen_ai.agent.name", "unknown")
            self._runs.add(1, {"gen_ai.agent.name": agent} | pick("retinue.stop_reason"))
            return
        for kind in ("input", "output"):
            if (tokens := values.get(f"gen_ai.usage.{kind}_tokens")) is not None:
                self._tokens.record(tokens, by | {"gen_ai.token.type": kind})
        if (seconds := values.get("gen_ai.response.time_to_first_chunk")) is not None:
            self._first_chunk.record(seconds, by)
