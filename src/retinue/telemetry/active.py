"""Whether telemetry is on in this process. Nothing of OpenTelemetry is imported until it is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..core.run_context import current_run, enter_run_context
from .provider_name import provider_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..core.events import Event
    from .recorder import LiveSpans, Recorder

_active: list[Recorder] = []


def recorder() -> Recorder | None:
    """Return what records runs, if telemetry is on."""
    return _active[0] if _active else None


def set_recorder(new: Recorder | None) -> Recorder | None:
    """Switch telemetry on or off. Return what recorded runs before."""
    before = recorder()
    _active[:] = [] if new is None else [new]
    return before


def live_spans(key: str, model: object, begun: Sequence[Event], *, member: bool) -> LiveSpans | None:
    """Return what records a run of the library that begins now, as a `member`'s or for itself; `None` if telemetry is
    off. `begun` is the log that it continues."""
    if not _active:
        return None
    from .recorder import place_of

    traced = _active[0].decided(place_of(key, member=member, part=len(begun)))
    enter_run_context(replace(current_run(), trace=traced.span))
    spans = _active[0].spans(traced, provider_of(model))
    return None if spans is None else _active[0].live(spans, begun)
