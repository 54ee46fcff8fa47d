"""The trace that a run belongs to, by W3C Trace Context: who called it, and what it tells those whom it calls.

The ids of spans follow from the run, so they are the same whoever computes them, also after a crash.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

HEADER, STATE_HEADER = "traceparent", "tracestate"
_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_LONGEST = 512  # characters of `tracestate`
_SAMPLED = 1


class TraceParent(NamedTuple):
    """A span of whatever called: the trace's id (16 bytes), the span's (8), and whether the trace is recorded. `state`
    is what other vendors add, which is passed on as it is."""

    trace_id: bytes
    span_id: bytes
    sampled: bool = True
    state: str = ""

    def __str__(self) -> str:
        return f"00-{self.trace_id.hex()}-{self.span_id.hex()}-{self.sampled:02x}"

    @classmethod
    def parse(cls, parents: Sequence[str], states: Sequence[str] = ()) -> Self | None:
        """Return what the values of the two headers say. A `traceparent` that is malformed, or sent twice, is ignored
        as the standard demands: the result is `None`."""
        found = _PARENT.fullmatch(parents[0].strip(" \t")) if len(parents) == 1 else None
        if found is None:
            return None
        version, trace, span, flags, more = found.groups()
        if version == "ff" or (version == "00" and more) or not trace.strip("0") or not span.strip("0"):
            return None
        state = ",".join(states)
        kept = state if len(state) <= _LONGEST and state.isascii() and state.isprintable() else ""
        return cls(bytes.fromhex(trace), bytes.fromhex(span), bool(int(flags, 16) & _SAMPLED), kept)

    def headers(self) -> dict[str, str]:
        """Return the headers that tell others of it, which are also how it is stored."""
        return {HEADER: str(self)} | ({STATE_HEADER: self.state} if self.state else {})


def stored_parent(request: Mapping[str, object]) -> TraceParent | None:
    """Return the caller's span that was stored with a run's request, if there was one."""
    parent, state = request.get(HEADER), request.get(STATE_HEADER)
    if not isinstance(parent, str):
        return None
    return TraceParent.parse([parent], [state] if isinstance(state, str) else [])


def derived_trace_id(run_id: str) -> bytes:
    """Return the id of the trace of a run that nobody called within a trace; `run_id` is that of the team's top."""
    return hashlib.sha256(f"trace {run_id}".encode("utf-8", "replace")).digest()[:16]


def derived_span_id(what: str, name: str) -> bytes:
    """Return the id of a span: of the run, model call or tool call (`what`) of this name."""
    return hashlib.sha256(f"{what} {name}".encode("utf-8", "replace")).digest()[:8]
