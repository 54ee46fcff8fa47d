"""Events as lines of JSON: what `--json` prints, and `retinue trace` reads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..core.events import Event
from ..core.serialization import from_json, to_json
from ..errors import DataError


class EventLine(NamedTuple):
    """An event of the run at `path` (call ids; empty at the top), `at` this time in Unix seconds (0: unknown)."""

    path: str
    event: Event
    at: float = 0.0


def event_line(path: str, event: Event, at: float) -> str:
    """Return an event as a line: its kind and fields, the time, and the path of calls to the member whose it is."""
    more = {"at": round(at, 3)} | ({"path": path} if path else {})
    return f"{to_json(event)[:-1]}, {json.dumps(more)[1:]}"


def read_lines(lines: Iterable[str], file: str) -> Iterator[EventLine]:
    """Yield the events of lines. Raises `DataError` that names the line."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield _read(line)
            except DataError as error:
                raise DataError(f"{file}:{number}: {error}") from error


def _read(line: str) -> EventLine:
    event = from_json(line)
    values = json.loads(line)
    path, at = values.get("path", ""), values.get("at", 0.0)
    if not isinstance(path, str) or not isinstance(at, int | float):
        raise DataError("not a line of --json: `path` is text, and `at` is a number of seconds")
    return EventLine(path, event, float(at))
