"""Which traces are recorded, by the standard variables: all, none, or a share that follows from the trace's id, so that
all processes decide alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..core.trace_context import TraceParent
from ..errors import UsageError

Sampler = Callable[[TraceParent], bool]
_VARIABLE = "OTEL_TRACES_SAMPLER"


def sampler_of(env: Mapping[str, str]) -> Sampler:
    """Return the function that says whether a trace is recorded, given the caller's span. Raises `UsageError`."""
    said = env.get(_VARIABLE, "").strip().lower() or "parentbased_always_on"
    kind = said.removeprefix("parentbased_")
    if kind not in ("always_on", "always_off", "traceidratio"):
        raise UsageError(
            f"{_VARIABLE} is {said[:40]!r}; want always_on, always_off, traceidratio, or one of these "
            "after 'parentbased_'"
        )
    share = _share(env) if kind == "traceidratio" else float(kind == "always_on")
    limit = round(share * 2**64)

    def recorded(parent: TraceParent) -> bool:
        if parent.span_id and said != kind:  # the caller has decided
            return parent.sampled
        return int.from_bytes(parent.trace_id[8:]) < limit

    return recorded


def _share(env: Mapping[str, str]) -> float:
    said = env.get(f"{_VARIABLE}_ARG", "").strip() or "1"
    try:
        share = float(said)
    except ValueError:
        share = -1
    if not 0 <= share <= 1:
        raise UsageError(f"{_VARIABLE}_ARG is {said[:40]!r}; want a number from 0 to 1")
    return share
