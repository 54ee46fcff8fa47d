"""How a server's process logs: one line each on standard error, as JSON or as text, whoever has something to say."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TextIO

from .._internal.redaction import redact
from ..components import sandbox
from ..core.log_context import ContextFilter

Format = Literal["text", "json"]
_MOST = 2_048  # bytes of a field
_IDS = ("request", "run", "step")
ACCESS = logging.getLogger("retinue.access")
"""A record for each request that was answered, whose `fields` say what is known of it (see `access_log`)."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """From which `level` on is logged, in which `form`; and the form of the access log, `None`: there is none."""

    level: str = "warning"
    form: Format = "json"
    access: Format | None = None


class JsonLines(logging.Formatter):
    """A record as an object on one line: JSON has no line ends and no control characters."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        return json.dumps({name: _bounded(value) for name, value in _fields(self, record).items()})


class TextLines(logging.Formatter):
    """A record as a line of text; nothing in it can begin another, and what goes on in a second one is indented."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, and those of an error's traceback."""
        fields = {name: _bounded(value) for name, value in _fields(self, record).items()}
        at, level, name, message = (fields.pop(one) for one in ("at", "level", "logger", "message"))
        trace = str(fields.pop("error", "")).splitlines()
        more = " ".join(f"{one}={_plain(value)}" for one, value in fields.items())
        line = f"{at} {str(level).upper()} {name}: {_plain(message)}{f' [{more}]' if more else ''}"
        return "\n".join([line, *(f"    {_plain(one)}" for one in trace)])


def _fields(formatter: logging.Formatter, record: logging.LogRecord) -> dict[str, Any]:
    """What a record says, by name; ids and numbers only if there are any."""
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
        cut = "" if len(trace) <= _MOST else "… "  # its end says what, and where
        said["error"] = cut + trace[len(cut.encode()) - _MOST :].decode("utf-8", "ignore")
    return said


def _bounded(value: Any) -> Any:
    """A field without secrets, and not longer than it may be."""
    if not isinstance(value, str):
        return value
    text = redact(value)
    if len(text) * 4 <= _MOST or len(raw := text.encode("utf-8", "replace")) <= _MOST:
        return text
    return raw[: _MOST - 4].decode("utf-8", "ignore") + " …"


def _plain(value: Any) -> str:
    """A value in a line of text: whatever is not printable, or would be another line, is escaped."""
    text = str(value)
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


_FORMS: Mapping[Format, type[logging.Formatter]] = {"text": TextLines, "json": JsonLines}


def set_up(how: LogOptions = LogOptions()) -> None:
    """Log so, from now on, in this process: also what uvicorn, Python's warnings and dying threads have to say."""
    logging.basicConfig(level=logging.WARNING, handlers=[_handler(how.form)])
    level = logging.getLevelNamesMapping()[how.level.upper()]
    for name in ("retinue", "uvicorn"):
        logging.getLogger(name).setLevel(level)
    logging.getLogger("uvicorn.error").addFilter(_said_already)
    logging.captureWarnings(True)
    threading.excepthook = _thread_died
    if how.access is not None:
        ACCESS.setLevel(logging.INFO)
        ACCESS.propagate = False
        ACCESS.handlers = [_handler(how.access)]
    else:
        ACCESS.setLevel(logging.CRITICAL)


def _handler(form: Format) -> logging.Handler:
    handler = logging.StreamHandler(_standard_error())
    handler.setFormatter(_FORMS[form]())
    handler.addFilter(ContextFilter())
    return handler


def _standard_error() -> TextIO:
    """Python's standard error; a descriptor of its own, since that of the process is lent to workers now and then."""
    try:
        own = sys.stderr.fileno() == 2
    except (AttributeError, ValueError, OSError):  # somebody captures it
        own = False
    return os.fdopen(os.dup(2), "w", encoding="utf-8", errors="backslashreplace") if own else sys.stderr


def _said_already(record: logging.LogRecord) -> bool:
    """Whether uvicorn says more than the line that has the request's id."""
    return not record.getMessage().startswith("ASGI callable returned without")


def _thread_died(died: threading.ExceptHookArgs) -> None:
    name = died.thread.name if died.thread is not None else "?"
    error = died.exc_value or died.exc_type()
    logging.getLogger(__name__).error("the thread %s died: %s", name, error, exc_info=error)


@contextmanager
def workers_logged() -> Iterator[None]:
    """In the block, what sandboxes' workers write to their standard error is logged, line by line."""
    reading, writing = os.pipe()
    reader = threading.Thread(target=_log_lines, args=[reading], name="workers-stderr", daemon=True)
    reader.start()
    turn = threading.Lock()

    @contextmanager
    def spawning() -> Iterator[None]:  # a worker inherits ours, for want of another way to give it one
        with turn:
            ours = os.dup(2)
            os.dup2(writing, 2)
            try:
                yield
            finally:
                os.dup2(ours, 2)
                os.close(ours)

    before, sandbox.spawning = sandbox.spawning, spawning
    try:
        yield
    finally:
        sandbox.spawning = before
        os.close(writing)
        reader.join(1.0)  # no longer: a worker may be left that has its end


def _log_lines(descriptor: int) -> None:
    logger = logging.getLogger("retinue.sandbox")
    with os.fdopen(descriptor, "rb") as lines:
        while line := lines.readline(_MOST):
            if text := line.decode("utf-8", "replace").strip():
                logger.warning("a worker said: %s", text)
