"""How spans get to a collector: when, with what, and what happens if it is away, slow, or says no."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping

import pytest
from hypothesis import given, strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan
from opentelemetry.sdk.resources import Resource

from fakes.otlp_collector import OtlpCollector
from fakes.until import until
from retinue import Agent, PromptModel, UsageError, telemetry
from retinue.core.run_context import TraceParent
from retinue.telemetry.environment import Pace, read_endpoint, read_sampler
from retinue.telemetry.export import OtlpExporter, SpanQueue, make_readable_span
from retinue.telemetry.spans import SpanEvent, SpanRecord, Value

SHARED = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "x", "gen_ai.request.model": "m"}
RECORD = SpanRecord(TraceParent(b"t" * 16, b"p" * 8), b"s" * 8, "chat m", 1, 2, {**SHARED, "retinue.step": 1})
QUICK = Pace(delay=0.01)


@pytest.fixture
def queue_to(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[..., SpanQueue]]:
    """Makes queues to an address, which end with the test."""
    caplog.set_level(logging.WARNING, "retinue.telemetry")
    made: list[SpanQueue] = []

    def queue(url: str, pace: Pace = QUICK, seconds: str = "1000", **env: str) -> SpanQueue:
        given = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_TIMEOUT": seconds, **env}
        made.append(
            SpanQueue(OtlpExporter(read_endpoint(given, "TRACES"), read_endpoint(given, "METRICS"), Resource({})), pace)
        )
        return made[-1]

    yield queue
    for one in made:
        one.close(0.0)
        one._thread.join(5)


FORKED = """
import http.server, os, threading
from retinue import Agent, PromptModel, telemetry

class Collector(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        connections.append(self)
        super().setup()

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *said):
        pass

connections = []
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
threading.Thread(target=server.serve_forever, daemon=True).start()
agent = Agent(PromptModel(script=[{"when": "", "say": "Paris."}]))
telemetry.enable(f"http://127.0.0.1:{server.server_address[1]}")
agent.run("Where?")
sent, before = telemetry.flush(), len(connections)
child = os.fork()
if not child:
    agent.run("Where?")
    os._exit(not telemetry.flush())
ended = os.waitpid(child, 0)[1]
print(sent, before, ended, len(connections))
"""
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.booleans()
VALUES = NUMBERS | st.text() | st.lists(st.text()).map(tuple)


def encoded(record: SpanRecord) -> OtlpSpan:
    """The span as a collector reads it."""
    body = encode_spans([make_readable_span(record, Resource({}))]).SerializeToString()
    (resource,) = ExportTraceServiceRequest.FromString(body).resource_spans
    return resource.scope_spans[0].spans[0]


def value_of(value: AnyValue) -> object:
    return getattr(value, str(value.WhichOneof("value")))


@given(st.dictionaries(st.text(min_size=1), VALUES), st.text(), st.integers(0, 2**64 - 1), st.text())
def test_a_span_is_what_protocol_buffers_read(own: Mapping[str, Value], name: str, at: int, problem: str) -> None:
    event = SpanEvent("paused", at, own)
    values = SHARED | dict(own)
    record = RECORD._replace(
        values=values, name=name, start=at, end=at, error="failed", problem=problem, events=[event]
    )
    span = encoded(record)
    assert (span.trace_id, span.span_id, span.parent_span_id) == (b"t" * 16, b"s" * 8, b"p" * 8)
    assert (span.kind, span.start_time_unix_nano, span.end_time_unix_nano) == (3, at, at)
    assert (span.name, span.status.code) == (name[:1000].encode("utf-8", "replace").decode(), 2)
    keys = [one.key for one in span.attributes]
    assert keys == [*SHARED, *(name.encode("utf-8", "replace").decode() for name in own), "error.type"]
    read = dict(zip(keys, (value_of(one.value) for one in span.attributes), strict=True))
    for key, value in own.items():
        if isinstance(value, int | float) and key in read:
            assert read[key] == value
    assert [one.time_unix_nano for one in span.events] == [at]


def test_attributes_that_are_equal_but_not_the_same() -> None:
    for value in (1, True, 1.0, "1"):
        span = encoded(RECORD._replace(values={**SHARED, "x": value}))
        found = next(one.value for one in span.attributes if one.key == "x")
        assert value_of(found) == value
        assert type(value_of(found)) is type(value)


def test_headers_compression_and_paths(collector: OtlpCollector, queue_to: Callable[..., SpanQueue]) -> None:
    headers = "authorization=Basic%20c2VjcmV0LXNlY3JldA==,x-project=one"
    own = {"OTEL_EXPORTER_OTLP_HEADERS": headers, "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"}
    queue = queue_to(f"{collector.url}/api/otel/", **own)
    queue.put(RECORD)
    assert queue.flush(5)
    assert set(collector.paths) == {"/api/otel/v1/traces", "/api/otel/v1/metrics"}
    assert collector.headers[0]["Authorization"] == "Basic c2VjcmV0LXNlY3JldA=="
    assert collector.headers[0]["x-project"] == "one"
    assert collector.headers[0]["Content-Encoding"] == "gzip"
    assert [one.name for one in collector.spans] == ["chat m"]


def test_an_address_of_traces_alone_is_used_as_it_is(collector: OtlpCollector) -> None:
    env = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{collector.url}/here"}
    traces = read_endpoint(env, "TRACES")
    assert traces is not None
    assert traces.url == f"{collector.url}/here"
    assert read_endpoint(env, "METRICS") is None
    assert read_endpoint({**env, "OTEL_TRACES_EXPORTER": "none"}, "TRACES") is None


def test_what_is_said_of_one_signal_counts_for_it_alone() -> None:
    env = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://one:4318",
        "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "500",
        "OTEL_EXPORTER_OTLP_METRICS_HEADERS": "x=y",
        "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION": "gzip",
    }
    traces, metrics = read_endpoint(env, "TRACES"), read_endpoint(env, "METRICS")
    assert traces is not None
    assert metrics is not None
    assert (traces.seconds, traces.zipped, traces.headers) == (0.5, True, {})
    assert (metrics.seconds, metrics.zipped, metrics.headers) == (10, False, {"x": "y"})


def test_spans_are_sent_in_batches_without_being_asked(
    collector: OtlpCollector, queue_to: Callable[..., SpanQueue]
) -> None:
    queue = queue_to(collector.url, Pace(delay=0.01, batch=100))
    for number in range(250):
        queue.put(RECORD._replace(span_id=number.to_bytes(8)))
    until(lambda: len(collector.spans) == 250)
    assert collector.paths.count("/v1/traces") >= 3


def test_a_collector_that_is_away_is_one_line_and_gets_all_when_it_is_back(
    collector: OtlpCollector, queue_to: Callable[..., SpanQueue], caplog: pytest.LogCaptureFixture
) -> None:
    collector.status = 503
    queue = queue_to(collector.url, Pace(delay=0.001))
    for number in range(10):
        queue.put(RECORD._replace(span_id=number.to_bytes(8)))
    until(lambda: len(collector.paths) >= 2)
    assert not queue.flush(5)
    collector.status = 200
    assert queue.flush(5)
    assert len(collector.spans) == 10
    (said,) = caplog.messages
    assert said == f"telemetry was not sent: {collector.url}/v1/traces answered 503: 'no, thank you'"


def test_what_a_collector_refuses_is_dropped(
    collector: OtlpCollector, queue_to: Callable[..., SpanQueue], caplog: pytest.LogCaptureFixture
) -> None:
    collector.status = 400
    queue = queue_to(collector.url)
    queue.put(RECORD)
    assert queue.flush(5)
    collector.status = 200
    queue.put(RECORD._replace(span_id=b"another_"))
    assert queue.flush(5)
    assert [one.id for one in collector.spans] == [b"another_".hex()]
    assert "answered 400: 'no, thank you' (1 spans were dropped)" in caplog.text


def test_a_collector_that_takes_no_metrics_is_not_asked_for_it_again(
    collector: OtlpCollector, queue_to: Callable[..., SpanQueue], caplog: pytest.LogCaptureFixture
) -> None:
    collector.status = 404
    queue = queue_to("", OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=f"{collector.url}/v1/metrics")
    queue.put(RECORD)
    queue.flush(5)
    queue.flush(5)
    assert collector.paths == ["/v1/metrics"]
    assert "it takes no metrics, and gets no more of them" in caplog.text


@pytest.mark.parametrize("away", ["nobody listens", "hangs"])
def test_no_run_waits_for_a_collector(collector: OtlpCollector, away: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent(PromptModel(script=[{"finish": "Paris."}]))
    agent.run("Where?")
    monkeypatch.setitem(os.environ, "OTEL_BSP_SCHEDULE_DELAY", "1")
    collector.hangs = True
    telemetry.enable(collector.url if away == "hangs" else "http://127.0.0.1:9")
    began = time.perf_counter()
    assert [agent.run("Where?").answer for _ in range(20)] == ["Paris."] * 20
    assert time.perf_counter() - began < 5
    began = time.perf_counter()
    assert not telemetry.disable(0.5)
    assert time.perf_counter() - began < 2


def test_too_many_spans_push_out_the_oldest(
    collector: OtlpCollector, queue_to: Callable[..., SpanQueue], caplog: pytest.LogCaptureFixture
) -> None:
    collector.status = 503
    queue = queue_to(collector.url, Pace(delay=3600, most=10, batch=4))
    queue.put(RECORD)
    assert not queue.flush(5)  # it is held, to be sent again
    for number in range(30):
        queue.put(RECORD._replace(span_id=number.to_bytes(8)))
    collector.status = 200
    assert queue.flush(5)
    assert [int(one.id, 16) for one in collector.spans] == [int.from_bytes(RECORD.span_id), *range(20, 30)]


def test_secrets_of_the_collector_are_in_no_line(
    collector: OtlpCollector, queue_to: Callable[..., SpanQueue], caplog: pytest.LogCaptureFixture
) -> None:
    collector.status = 401
    headers = {"OTEL_EXPORTER_OTLP_HEADERS": "x-key=another-secret-word"}
    queue = queue_to(f"{collector.url}/otel?api_key=sk-very-secret-key", **headers)
    queue.put(RECORD)
    queue.flush(5)
    assert "answered 401" in caplog.text
    assert "very-secret" not in caplog.text
    assert "another-secret" not in caplog.text


@pytest.mark.parametrize(
    ("env", "called", "alone"),
    [
        ({}, None, True),
        ({"OTEL_TRACES_SAMPLER": "always_off"}, False, False),
        ({"OTEL_TRACES_SAMPLER": "parentbased_always_off"}, None, False),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"}, False, False),
        ({"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "1"}, None, True),
    ],
)
def test_which_traces_are_recorded(env: dict[str, str], called: bool | None, alone: bool) -> None:
    sampler = read_sampler(env)
    assert sampler(TraceParent(b"t" * 16, b"")) is alone
    for sampled in (True, False):
        wanted = sampled if called is None else called
        assert sampler(TraceParent(b"t" * 16, b"p" * 8, sampled)) is wanted


def test_a_share_of_traces_is_one() -> None:
    sampler = read_sampler({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25"})
    ids = [(number * 0x9E3779B97F4A7C15 % 2**64).to_bytes(16) for number in range(1000)]
    assert 200 < sum(sampler(TraceParent(one, b"")) for one in ids) < 300
    with pytest.raises(UsageError, match="_ARG is '2'; want a number from 0 to 1"):
        read_sampler({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "2"})


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_has_connections_of_its_own() -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run([sys.executable, "-c", FORKED], env=kept, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True", "2", "0", "4"], done.stderr
