"""Log records as lines, as JSON or text: free of secrets and control characters, with the ids that records carry."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from typing import Any

from .redaction import redact

_MOST = 2_048  # bytes per field
_IDS = ("request", "client_request", "run", "step", "trace")


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON, free of newlines and control characters."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        return json.dumps(_read_fields(self, record))


class TextLines(logging.Formatter):
    """Formats a record as one line of text, which no content can break; traceback lines are indented."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, followed by those of a traceback."""
        fields = _read_fields(self, record)
        at, level, name, message = (fields.pop(one) for one in ("at", "level", "logger", "message"))
        trace = str(fields.pop("error", "")).splitlines()
        more = " ".join(f"{one}={_escape(value)}" for one, value in fields.items())
        line = f"{at} {str(level).upper()} {name}: {_escape(message)}{f' [{more}]' if more else ''}"
        return "\n".join([line, *(f"    {_escape(one)}" for one in trace)])


def _read_fields(formatter: logging.Formatter, record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields of a record by name, limited and without secrets; ids only where they are set."""
    given: Mapping[str, Any] = getattr(record, "fields", {})
    ids = {name: value for name in _IDS if (value := getattr(record, name, None))}
    said = {
        "at": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z",
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": record.getMessage(),
    } | (ids if not given else {**given})
    if record.exc_info:
        trace = redact(formatter.formatException(record.exc_info)).encode("utf-8", "replace")
        cut = "" if len(trace) <= _MOST else "… "  # the end says what went wrong, and where
        said["error"] = cut + trace[len(cut.encode()) - _MOST :].decode("utf-8", "ignore")
    return {name: _limit_field(value) for name, value in said.items()}


def _limit_field(value: Any) -> Any:
    """Return a field with secrets redacted, truncated to its limit."""
    if not isinstance(value, str):
        return value
    text = redact(value)
    raw = text.encode("utf-8", "replace")
    return text if len(raw) <= _MOST else raw[: _MOST - 4].decode("utf-8", "ignore") + " …"


def _escape(value: Any) -> str:
    """Return a value for a line of text, with unprintable characters and newlines escaped."""
    text = str(value)
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
