"""Log records carry what they belong to: `record.run`, `record.step`, `record.request`, the client's own id of the
request in `record.client_request`, and `record.trace`, the id of its trace.

This holds for every record of the logger tree `retinue`; secrets in messages are redacted, and the tree stays quiet
below warnings until logging is configured. As a handler's filter, `ContextFilter` adds the fields to other records.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .trace_context import current_trace

STORED_ID = "request_id"
"""Where the id of the request that began a run is stored: in what the run was asked for."""


class LogContext:
    """The ids of a run and of the request that started it (empty: none), and the current step number. `client_request`
    and `trace` are the client's own ids of the request and of its trace; the trace of a run that is driven is known
    without."""

    __slots__ = ("client_request", "request", "run", "step", "trace")

    def __init__(
        self, run: str = "", request: str = "", step: int = 0, client_request: str = "", trace: str = ""
    ) -> None:
        self.run = run
        self.request = request
        self.step = step
        self.client_request = client_request
        self.trace = trace

    def of_run(self, run: str) -> LogContext:
        """Return the context of a run that begins here."""
        return LogContext(run, self.request, client_request=self.client_request, trace=self.trace)


_current: ContextVar[LogContext] = ContextVar("retinue_log_context")
_NOTHING = LogContext()


def current_context() -> LogContext:
    """Return the context of the current task."""
    return _current.get(_NOTHING)


def enter_context(context: LogContext) -> None:
    """Set the context of the current task until the task ends."""
    _current.set(context)


class log_context:
    """Sets the context within the block."""

    __slots__ = ("_context", "_token")

    def __init__(self, context: LogContext) -> None:
        self._context = context

    def __enter__(self) -> None:
        self._token = _current.set(self._context)

    def __exit__(self, *raised: object) -> None:
        _current.reset(self._token)


class ContextFilter(logging.Filter):
    """Adds the ids to every record, from `extra` or else from the current context."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields; never drop the record."""
        here, fields = _current.get(_NOTHING), vars(record)
        for name in ("run", "step", "request", "client_request"):
            fields.setdefault(name, getattr(here, name))
        if "trace" not in fields:
            of_run = None if here.trace else current_trace()
            fields["trace"] = here.trace if of_run is None else of_run.trace_id.hex()
        return True


_shown: ContextVar[bool] = ContextVar("retinue_run_shown", default=False)


@contextmanager
def run_is_shown() -> Iterator[None]:
    """Suppress the run's warnings within the block, because a person watches the run."""
    token = _shown.set(True)
    try:
        yield
    finally:
        _shown.reset(token)


class _Root(logging.Handler):
    """The handler of `retinue` itself, which sees each record of the tree first.

    While logging is not configured, it sends warnings where Python's default handler would.
    """

    def emit(self, record: logging.LogRecord) -> None:
        from .._internal.redaction import (
            redact,  # imported late: `import retinue` should cost next to nothing
        )

        ContextFilter().filter(record)
        try:
            message = record.getMessage()
        except (TypeError, ValueError, KeyError):
            return  # the display shows it
        if (safe := redact(message)) != message:
            record.msg, record.args = safe, None
        known = _shown.get() and record.name == "retinue.run_log"
        configured = logging.root.handlers or len(_TREE.handlers) > 1
        if logging.lastResort and record.levelno >= logging.WARNING and not (known or configured):
            logging.lastResort.handle(record)


_TREE = logging.getLogger("retinue")
_TREE.addHandler(_Root())
