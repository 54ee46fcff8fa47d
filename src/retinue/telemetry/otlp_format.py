"""Spans in the format of OTLP, which is Protocol Buffers.

It is written here because the SDK takes some 60 µs a span, a third of the CPU of a whole step. Most attributes are the
same again and again, so what they look like is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from struct import Struct

from .conventions import version
from .span_content import written
from .span_record import SpanEvent, SpanRecord, Value

_LONGEST = 1_000  # characters of an attribute that is no content
_DOUBLE = Struct("<d").pack
_TIMES = Struct("<cQcQ").pack  # start and end
_ERROR = b"\x18\x02"  # a status of the code 2


def encode_spans(resource: bytes, records: Sequence[SpanRecord]) -> bytes:
    """Return the body of a request with these spans; `resource` is that of the process, encoded."""
    scope = field(b"\x0a", field(b"\x0a", b"retinue") + field(b"\x12", version().encode()))
    spans = b"".join([field(b"\x12", encode_span(record)) for record in records])
    return field(b"\x0a", field(b"\x0a", resource) + field(b"\x12", scope + spans))


def encode_span(record: SpanRecord) -> bytes:
    """Return a span."""
    parent, shared = record.parent, record.shared
    if shared.encoded is None:
        shared.encoded = _attributes(shared.values)
    parts = [b"\x0a\x10", parent.trace_id, b"\x12\x08", record.span_id]
    if parent.state:
        parts.append(field(b"\x1a", parent.state.encode()))
    if parent.span_id:
        parts += (b"\x22\x08", parent.span_id)
    parts += (
        _head(record.name, record.kind),
        _TIMES(b"\x39", record.start, b"\x41", record.end),
        shared.encoded,
        _attributes(record.own),
    )
    if record.content is not None:
        parts += [_text(name, written(value)) for name, value in record.content.values.items()]
    parts += [field(b"\x5a", _event(event)) for event in record.events]
    if record.error:
        message = field(b"\x12", _bytes(written(record.problem))) if record.problem else b""
        parts += (_attribute("error.type", record.error), field(b"\x7a", message + _ERROR))
    return b"".join(parts)


def _attributes(values: Mapping[str, Value]) -> bytes:
    kept, new = _attribute, _float
    return b"".join([new(name, one) if type(one) is float else kept(name, one) for name, one in values.items()])


def _event(event: SpanEvent) -> bytes:
    time = b"\x09" + event.at.to_bytes(8, "little")
    values = b"".join([field(b"\x1a", key_value(name, value)) for name, value in event.values.items()])
    return time + field(b"\x12", event.name.encode()) + values


@lru_cache(maxsize=1024)
def _head(name: str, kind: int) -> bytes:
    return field(b"\x2a", _bytes(name[:_LONGEST])) + b"\x30" + varint(kind)


@lru_cache(maxsize=8192, typed=True)
def _attribute(name: str, value: Value) -> bytes:
    return field(b"\x4a", key_value(name, value))


def _text(name: str, value: str) -> bytes:
    return field(b"\x4a", field(b"\x0a", name.encode()) + field(b"\x12", field(b"\x0a", _bytes(value))))


@lru_cache(maxsize=256)
def _float_head(name: str) -> bytes:
    key = field(b"\x0a", name.encode())
    return b"\x4a" + varint(len(key) + 11) + key + b"\x12\x09\x21"


def _float(name: str, value: float) -> bytes:
    return _float_head(name) + _DOUBLE(value)


def key_value(name: str, value: Value) -> bytes:
    """Return an attribute."""
    return field(b"\x0a", name.encode()) + field(b"\x12", _any(value))


def _any(value: Value) -> bytes:
    match value:
        case str():
            return field(b"\x0a", _bytes(value[:_LONGEST]))
        case bool():
            return b"\x10\x01" if value else b"\x10\x00"
        case int():
            return b"\x18" + varint(value % 2**64)
        case float():
            return b"\x21" + _DOUBLE(value)
    return field(b"\x2a", b"".join([field(b"\x0a", _any(one)) for one in value]))


def field(tag: bytes, content: bytes) -> bytes:
    """Return a field whose content has a length; `tag` is its number and kind."""
    return tag + varint(len(content)) + content


_SHORT = [bytes((number,)) for number in range(128)]


def varint(number: int) -> bytes:
    """Return a number of 0 or more."""
    if number < 128:
        return _SHORT[number]
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")  # lone surrogates


def encode_resource(values: Iterable[tuple[str, Value]]) -> bytes:
    """Return the resource of a process with these attributes."""
    return b"".join([field(b"\x0a", key_value(name, value)) for name, value in values])
