"""Strict serialization of events as JSON. `from_json` is the inverse of `events.to_json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from ..errors import DataError
from .events import KINDS, Delta, Event


def dump(event: Event) -> tuple[str, str]:
    """Return the kind of `event`, and its fields as JSON, for the database. Lone surrogates, which no database accepts,
    become question marks."""
    kind = type(event).__name__.lower()
    try:
        return kind, _find_adapter(kind).serializer.to_json(event).decode()
    except PydanticSerializationError:
        values = json.loads(to_json(event).encode("utf-8", "replace"))
        del values["kind"]
        return kind, json.dumps(values, ensure_ascii=False)


def load(kind: str, text: str, *, strict: bool = False) -> Event:
    """The inverse of `dump`. Raises `DataError`; if it is `strict`, also for fields that an event does not have."""
    if kind not in KINDS:
        raise DataError(f"unknown kind of event {kind!r} (known: {', '.join(KINDS)})")
    try:
        return _find_adapter(kind).validate_json(text, extra="forbid" if strict else None)
    except ValidationError as error:
        raise _make_event_error(kind, error) from error


def from_json(line: str) -> Event:
    """Parse a line that `to_json` wrote. Raises `DataError`."""
    try:
        values = json.loads(line)
        kind = values.pop("kind")
        return _find_adapter(kind).validate_python(values)
    except ValidationError as error:
        raise _make_event_error(kind, error) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"not an event: {line[:80]!r} (want a JSON object with one of the kinds {', '.join(KINDS)})"
        ) from error


@cache
def _find_adapter(kind: str) -> TypeAdapter[Event]:
    return TypeAdapter(KINDS[kind])


def _make_event_error(kind: str, error: ValidationError) -> DataError:
    problem = error.errors()[0]
    place = ".".join(map(str, problem["loc"]))
    return DataError(f"not an event of kind {kind!r}: {place}: {problem['msg']}")


def to_json(event: Event | Delta) -> str:
    """Serialize `event` as one line of JSON: its kind (`"started"`, …) and its fields by name."""
    return json.dumps({"kind": type(event).__name__.lower()} | _convert_plain(event), ensure_ascii=False)


def _convert_plain(value: Any) -> Any:
    if is_dataclass(value):
        values = {one.name: getattr(value, one.name) for one in fields(value)}
        return {name: _convert_plain(one) for name, one in values.items() if not isinstance(one, bytes)}  # images' own
    if isinstance(value, Mapping):
        return {str(key): _convert_plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_convert_plain(inner) for inner in value]
    return value
