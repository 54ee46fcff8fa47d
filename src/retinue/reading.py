"""Reading a stored log back: strict, and naming what is wrong. The inverse of `events.to_json`."""

from __future__ import annotations

import json

from pydantic import TypeAdapter, ValidationError

from .errors import DataError
from .events import KINDS, Event

_ADAPTERS: dict[str, TypeAdapter[Event]] = {}


def from_json(line: str) -> Event:
    """The event of one line that `to_json` wrote. Raises `DataError`."""
    try:
        values = json.loads(line)
        kind = values.pop("kind")
        adapter = _ADAPTERS.get(kind) or _ADAPTERS.setdefault(kind, TypeAdapter(KINDS[kind]))
        return adapter.validate_python(values)
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(map(str, problem["loc"]))
        raise DataError(f"not an event of kind {kind!r}: {place}: {problem['msg']}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"not an event: {line[:80]!r} (want a JSON object with one of the kinds {', '.join(KINDS)})"
        ) from error
