"""Logging of the server process: one line per record on standard error, as JSON or text, from every source."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TextIO

from .._internal.log_lines import JsonLines, TextLines
from ..components import sandbox
from ..core.log_context import ContextFilter
from ..limits.rate import Bucket

Format = Literal["text", "json"]
_MOST = 2_048  # bytes of a line that a worker wrote
_KNOWN = 1_000  # different records that are remembered
_EQUAL = 10  # records that say the same; after them, one a second
ACCESS = logging.getLogger("retinue.access")
"""One record per answered request, with its `fields` (see `access_log`)."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The minimum `level`, the line `form`, and the form of the access log (`None` to disable it)."""

    level: str = "warning"
    form: Format = "json"
    access: Format | None = None


_FORMS: Mapping[Format, type[logging.Formatter]] = {"text": TextLines, "json": JsonLines}


def set_up_logging(how: LogOptions = LogOptions()) -> None:
    """Configure logging for this process, including uvicorn, Python warnings, and threads that die."""
    logging.basicConfig(level=logging.WARNING, handlers=[_handler(how.form)])
    level = logging.getLevelNamesMapping()[how.level.upper()]
    logging.getLogger("retinue").setLevel(level)
    logging.getLogger("uvicorn").setLevel(max(level, logging.WARNING))  # below, it logs headers, queries and frames
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
    handler.addFilter(RepeatFilter())
    return handler


class RepeatFilter(logging.Filter):
    """Drops records that repeat others, but for ten of them and one a second: what a stranger can make a server say
    again and again must not fill its disk. The next one that passes says how many were dropped."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._known: dict[tuple[str, str], Bucket] = {}
        self._dropped: Counter[tuple[str, str]] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record passes."""
        if record.name == ACCESS.name:
            return True
        ours = record.name.partition(".")[0] == "retinue"
        key = record.name, record.getMessage() if ours else str(record.msg)
        if key not in self._known:
            if len(self._known) >= _KNOWN:
                self._known.clear()
                self._dropped.clear()
            self._known[key] = Bucket(_EQUAL, _EQUAL * 1.0, self._clock)
        if not self._known[key].take(1.0):
            self._dropped[key] += 1
            return False
        if dropped := self._dropped.pop(key, 0):
            record.msg, record.args = f"{record.getMessage()} (and {dropped:,} more like it)", None
        return True


def _standard_error() -> TextIO:
    """Return Python's standard error on a descriptor of its own, because the process's is lent to workers at times."""
    try:
        own = sys.stderr.fileno() == 2
    except (AttributeError, ValueError, OSError):  # captured
        own = False
    return os.fdopen(os.dup(2), "w", encoding="utf-8", errors="backslashreplace") if own else sys.stderr


def _said_already(record: logging.LogRecord) -> bool:
    """Drop records of uvicorn that repeat a line with the request's id."""
    return not record.getMessage().startswith("ASGI callable returned without")


def _thread_died(died: threading.ExceptHookArgs) -> None:
    name = died.thread.name if died.thread is not None else "?"
    error = died.exc_value or died.exc_type()
    logging.getLogger(__name__).error("the thread %s died: %s", name, error, exc_info=error)


@contextmanager
def log_workers() -> Iterator[None]:
    """Log, line by line, what sandbox workers write to standard error within the block."""
    reading, writing = os.pipe()
    reader = threading.Thread(target=_log_lines, args=[reading], name="workers-stderr", daemon=True)
    reader.start()
    turn = threading.Lock()

    @contextmanager
    def spawning() -> Iterator[None]:  # a worker inherits ours, since it cannot be passed another
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
        reader.join(1.0)  # bounded, since a remaining worker may hold its end open


def _log_lines(descriptor: int) -> None:
    logger = logging.getLogger("retinue.sandbox")
    with os.fdopen(descriptor, "rb") as lines:
        while line := lines.readline(_MOST):
            if text := line.decode("utf-8", "replace").strip():
                logger.warning("a worker wrote: %s", text)
