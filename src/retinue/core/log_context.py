"""Which run, step and request a line of the log is about: `record.run`, `record.step`, `record.request`.

Every record of the tree `retinue` has them, and has no secret in its message; below
warnings, the tree is quiet until somebody configures logging. `ContextFilter`, on a handler, gives them to the
records of others, too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class LogContext:
    """The ids of a run and of the request that began it, empty for none, and the number of the run's step so far."""

    __slots__ = ("request", "run", "step")

    def __init__(self, run: str = "", request: str = "", step: int = 0) -> None:
        self.run = run
        self.request = request
        self.step = step


_current: ContextVar[LogContext] = ContextVar("retinue_log_context")
_NOTHING = LogContext()


def current_context() -> LogContext:
    """What is being done here."""
    return _current.get(_NOTHING)


def enter_context(context: LogContext) -> None:
    """From now on, and until its task ends, this is what a task does."""
    _current.set(context)


@contextmanager
def log_context(context: LogContext) -> Iterator[None]:
    """In the block, this is what is done."""
    token = _current.set(context)
    try:
        yield
    finally:
        _current.reset(token)


class ContextFilter(logging.Filter):
    """Lets every record through, with `run`, `step` and `request`: those it was given (`extra`), else the current."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add them."""
        here, fields = _current.get(_NOTHING), vars(record)
        for name in ("run", "step", "request"):
            fields.setdefault(name, getattr(here, name))
        return True


_shown: ContextVar[bool] = ContextVar("retinue_run_shown", default=False)


@contextmanager
def run_is_shown() -> Iterator[None]:
    """In the block, a person sees how a run goes, and need not be warned of that."""
    token = _shown.set(True)
    try:
        yield
    finally:
        _shown.reset(token)


class _Root(logging.Handler):
    """The handler of `retinue` itself: it is the first that sees each record of the tree. Where nobody has configured
    logging, warnings go where Python's own go then."""

    def emit(self, record: logging.LogRecord) -> None:
        from .._internal.redaction import (
            redact,  # not before there is something to say: `import retinue` is to cost next to nothing
        )

        ContextFilter().filter(record)
        try:
            message = record.getMessage()
        except (TypeError, ValueError, KeyError):
            return  # who shows it complains
        if (safe := redact(message)) != message:
            record.msg, record.args = safe, None
        known = _shown.get() and record.name == "retinue.run_log"
        configured = logging.root.handlers or len(_TREE.handlers) > 1
        if logging.lastResort and record.levelno >= logging.WARNING and not (known or configured):
            logging.lastResort.handle(record)


_TREE = logging.getLogger("retinue")
_TREE.addHandler(_Root())
