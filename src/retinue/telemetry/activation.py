"""Switches telemetry on and off, for an app or as the standard environment says, and records the runs meanwhile."""

from __future__ import annotations

import atexit
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import time_ns
from typing import TYPE_CHECKING, Any

from ..core.events import Event
from ..core.run_context import current_run, enter_run_context
from ..errors import RetinueError, UsageError
from .span_content import SpanTexts
from .spans import RunSpans, SpanRecord, Traced, place_of

if TYPE_CHECKING:
    from .environment import Sampler
    from .export import SpanQueue

_PATIENCE = 2.0  # seconds that a process waits at its end
_REMEMBERED = 10_000  # runs
MISSING = "telemetry needs the extra 'telemetry': pip install 'retinue[telemetry]'"
_ENDPOINTS = [f"OTEL_EXPORTER_OTLP_{name}ENDPOINT" for name in ("", "TRACES_", "METRICS_")]
_NAMES = {"local": "retinue", "scripted": "retinue"}  # the others are called like their engines
_DEPTH = 5


class Recorder:
    """Makes the spans of runs, which `queue` sends. With `content`, they have the texts of people, models and tools."""

    def __init__(self, queue: SpanQueue, sampler: Sampler, *, content: bool) -> None:
        self.queue = queue
        self._sampler = sampler
        self._content = content
        self._exported: OrderedDict[str, int] = OrderedDict()

    def decide_recording(self, traced: Traced) -> Traced:
        """Return the place of a run, with the decision whether its trace is recorded."""
        return traced._replace(parent=traced.parent._replace(sampled=self._sampler(traced.parent)))

    def make_spans(
        self, traced: Traced, provider: str = "", emit: Callable[[SpanRecord], None] | None = None
    ) -> RunSpans | None:
        """Return what folds the events of a run into spans; `None` if its trace is not recorded. `provider` is that of
        its model."""
        if not traced.parent.sampled:
            return None
        return RunSpans(traced, emit or self.queue.put, provider, SpanTexts() if self._content else None)

    def find_last_exported(self, run: str) -> int:
        """Return the number of the last event of a stored run of which this process has made spans."""
        return self._exported.get(run, 0)

    def has_exported(self, run: str, number: int) -> None:
        """Note that this process has made the spans of a stored run up to the event of this number."""
        self._exported[run] = number
        self._exported.move_to_end(run)
        if len(self._exported) > _REMEMBERED:
            self._exported.popitem(last=False)


_active: list[Recorder] = []


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
        from .environment import Pace, read_endpoint, read_sampler, should_record_content
        from .export import OtlpExporter, SdkExporter, SpanQueue
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("opentelemetry"):
            raise
        raise UsageError(MISSING) from error
    env = os.environ
    content = should_record_content(env) if capture_content is None else capture_content
    sampler, pace = read_sampler(env), Pace.of(env)
    exporter: SdkExporter | OtlpExporter
    if provided:
        exporter = SdkExporter(tracer_provider, meter_provider)
    else:
        base = endpoint or ("" if any(map(env.get, _ENDPOINTS)) else "http://localhost:4318")
        exporter = OtlpExporter(read_endpoint(env, "TRACES", base), read_endpoint(env, "METRICS", base))
    before = set_recorder(Recorder(SpanQueue(exporter, pace), sampler, content=content))
    if before is None:
        atexit.unregister(disable)
        atexit.register(disable)
    else:
        before.queue.close(_PATIENCE)


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


# ── what runs ask for ─────────────────────────────────────────────────────────────────────────────


def find_recorder() -> Recorder | None:
    """Return what records runs, if telemetry is on."""
    return _active[0] if _active else None


def set_recorder(new: Recorder | None) -> Recorder | None:
    """Switch telemetry on or off. Return what recorded runs before."""
    before = find_recorder()
    _active[:] = [] if new is None else [new]
    return before


def make_live_spans(key: str, model: object, begun: Sequence[Event], *, member: bool) -> RunSpans | None:
    """Return what records a run of the library that begins now, as a `member`'s or for itself; `None` if telemetry is
    off. `begun` is the log that it continues, whose spans were sent when it was written."""
    here = find_recorder()
    if here is None:
        return None
    traced = here.decide_recording(place_of(key, member=member, part=len(begun)))
    enter_run_context(replace(current_run(), trace=traced.span))
    spans, now = here.make_spans(traced, name_provider(model)), time_ns()
    if spans is not None and begun:
        spans.replay(((now, event) for event in begun), ())
    return spans


def name_provider(model: object) -> str:
    """Return the name of a model's provider: that of its engine; empty if it is not known. Models may wrap others."""
    for _ in range(_DEPTH):
        engine = getattr(model, "engine", None)
        if isinstance(engine, str):
            return _NAMES.get(engine, engine)
        model = getattr(model, "inner", None)
    return ""
