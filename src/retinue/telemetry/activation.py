"""Switches telemetry on and off, for an app or as the standard environment says, and records the runs meanwhile."""

from __future__ import annotations

import atexit
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..core.events import Event
from ..core.run_context import current_run, enter_run_context
from ..errors import RetinueError, UsageError
from .conventions import read_version

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource

    from .otlp_exporter import Exporter
    from .recorder import LiveSpans, Recorder

_PATIENCE = 2.0  # seconds that a process waits at its end
MISSING = "telemetry needs the extra 'telemetry': pip install 'retinue[telemetry]'"
_ENDPOINTS = [f"OTEL_EXPORTER_OTLP_{name}ENDPOINT" for name in ("", "TRACES_", "METRICS_")]
_active: list[Recorder] = []
_NAMES = {"local": "retinue", "scripted": "retinue"}  # the others are called like their engines
_DEPTH = 5


def enable(
    endpoint: str = "",
    *,
    tracer_provider: Any = None,
    meter_provider: Any = None,
    capture_content: bool | None = None,
) -> None:
    """Record the runs of this process from now on: as spans and metrics that are sent over OTLP.

    With providers of OpenTelemetry's SDK, their processors and readers get them. Otherwise they are sent to `endpoint`
    (`http://host:4318`), or where the standard variables of the environment say, or to a collector on this machine.

    Args:
        endpoint: The collector's address, to which `/v1/traces` and `/v1/metrics` are added.
        tracer_provider: The app's `TracerProvider`.
        meter_provider: The app's `MeterProvider`.
        capture_content: Whether spans have the texts of people, models and tools, redacted and shortened; by default as
            `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` says.

    Raises `UsageError` without the extra, or for values that are none.
    """
    provided = tracer_provider is not None or meter_provider is not None
    if provided and endpoint:
        raise UsageError("enable: give an endpoint, or the app's providers, and not both")
    try:
        if provided:
            from .sdk_export import SdkExporter

            new = _make_recorder(lambda: SdkExporter(tracer_provider, meter_provider), capture_content)
        else:
            usual = "" if any(map(os.environ.get, _ENDPOINTS)) else "http://localhost:4318"
            new = _make_recorder(lambda: _make_otlp_exporter(os.environ, endpoint or usual), capture_content)
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("opentelemetry"):
            raise
        raise UsageError(MISSING) from error
    _switch_recorder(new)


def enable_from_environment(report: Callable[[str], None]) -> None:
    """Record runs if the environment names an endpoint. What keeps it from that goes to `report` as a line, and is no
    error: no run fails for want of telemetry."""
    off = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if off or not any(os.environ.get(name, "").strip() for name in _ENDPOINTS):
        return
    try:
        enable()
    except RetinueError as error:
        report(f"runs are not recorded: {error}")


def disable(seconds: float = _PATIENCE) -> bool:
    """Stop recording runs, and wait until what was recorded is sent, at most so long. Return whether it was."""
    before = set_recorder(None)
    return before is None or before.queue.close(seconds)


def flush(seconds: float = 10.0) -> bool:
    """Send what was recorded so far, and wait for that at most so long. Return whether it was sent."""
    here = find_recorder()
    return here is None or here.queue.flush(seconds)


def _switch_recorder(new: Recorder) -> None:
    before = set_recorder(new)
    if before is None:
        atexit.unregister(disable)
        atexit.register(disable)
    else:
        before.queue.close(_PATIENCE)


def _make_recorder(exporter: Callable[[], Exporter], content: bool | None) -> Recorder:
    from .environment import Pace, read_sampler, should_record_content
    from .recorder import Recorder
    from .span_queue import SpanQueue

    wanted = should_record_content(os.environ) if content is None else content
    sampler, pace = read_sampler(os.environ), Pace.of(os.environ)
    return Recorder(SpanQueue(exporter(), pace), sampler, content=wanted)


def _make_otlp_exporter(env: Mapping[str, str], base: str) -> Exporter:
    from .environment import read_endpoint
    from .otlp_exporter import OtlpExporter

    return OtlpExporter(read_endpoint(env, "TRACES", base), read_endpoint(env, "METRICS", base), _describe_process())


def _describe_process() -> Resource:
    """Return the attributes of this process, as the environment extends them."""
    from opentelemetry.sdk.resources import Resource

    found = dict(Resource.create({"service.instance.id": str(uuid.uuid4())}).attributes)
    if str(found.get("service.name", "unknown_service")).startswith("unknown_service"):
        found |= {"service.name": "retinue", "service.version": read_version()}
    return Resource(found)


# ── what runs ask for ─────────────────────────────────────────────────────────────────────────────


def find_recorder() -> Recorder | None:
    """Return what records runs, if telemetry is on."""
    return _active[0] if _active else None


def set_recorder(new: Recorder | None) -> Recorder | None:
    """Switch telemetry on or off. Return what recorded runs before."""
    before = find_recorder()
    _active[:] = [] if new is None else [new]
    return before


def make_live_spans(key: str, model: object, begun: Sequence[Event], *, member: bool) -> LiveSpans | None:
    """Return what records a run of the library that begins now, as a `member`'s or for itself; `None` if telemetry is
    off. `begun` is the log that it continues."""
    if not _active:
        return None
    from .recorder import place_of

    traced = _active[0].decide_recording(place_of(key, member=member, part=len(begun)))
    enter_run_context(replace(current_run(), trace=traced.span))
    spans = _active[0].make_spans(traced, name_provider(model))
    return None if spans is None else _active[0].make_live_spans(spans, begun)


def name_provider(model: object) -> str:
    """Return the name of a model's provider: that of its engine; empty if it is not known. Models may wrap others."""
    for _ in range(_DEPTH):
        engine = getattr(model, "engine", None)
        if isinstance(engine, str):
            return _NAMES.get(engine, engine)
        model = getattr(model, "inner", None)
    return ""
