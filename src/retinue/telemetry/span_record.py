"""A span that has ended: what is exported, in whatever format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..core.run_context import TraceParent

Value = str | int | float | bool | tuple[str, ...]
INTERNAL, CLIENT = 1, 3  # kinds of spans, as OTLP numbers them


class SpanEvent(NamedTuple):
    """Something that happened at a moment within a span; `at` is in Unix nanoseconds."""

    name: str
    at: int
    values: Mapping[str, Value]


class Content(NamedTuple):
    """Texts of people, models and tools, by attribute, where they are wanted. They are written as JSON, redacted and
    shortened by the exporter, which has a thread of its own."""

    values: Mapping[str, object]


class SpanRecord(NamedTuple):
    """A span. Times are Unix nanoseconds.

    Args:
        parent: The trace, and the span's parent; `span_id` is empty if it has none.
        shared: The attributes that it has in common with others; `own` are its own.
        error: The class of what went wrong, `error.type`, and `problem` says it in words.
        again: It was probably exported before, by a process that has ended since. It is in no metric.
    """

    parent: TraceParent
    span_id: bytes
    name: str
    kind: int
    start: int
    end: int
    shared: Mapping[str, Value]
    own: Mapping[str, Value]
    error: str = ""
    problem: str = ""
    events: Sequence[SpanEvent] = ()
    content: Content | None = None
    again: bool = False
