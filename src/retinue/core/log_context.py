"""Log records carry what they belong to: `record.run`, `record.step`, `record.request`, the client's own id of the
request in `record.client_request`, and `record.trace`, the id of its trace.

This holds for every record of the logger tree `retinue`; secrets in messages are redacted, and the tree stays quiet
below warnings until logging is configured. As a handler's filter, `ContextFilter` adds the fields to other records."""

from __future__ import annotations

import logging


class ContextFilter(logging.Filter):
    """Adds the ids to every record, from `extra` or else from the current context."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields; never drop the record."""
        from .run_context import current_run  # imported late: `import retinue` should cost next to nothing

        here = current_run()
        for name, value in (
            ("run", here.run),
            ("step", here.progress.step),
            ("request", here.request),
            ("client_request", here.client_request),
            ("trace", here.trace_id),
        ):
            vars(record).setdefault(name, value)
        return True


class _Root(logging.Handler):
    """The handler of `retinue` itself, which sees each record of the tree first. While logging is not configured, it
    sends warnings where Python's default handler would."""

    def emit(self, record: logging.LogRecord) -> None:
        from .._internal.redaction import redact  # imported late, likewise
        from .run_context import current_run

        ContextFilter().filter(record)
        try:
            message = record.getMessage()
        except (TypeError, ValueError, KeyError):
            return  # the display shows it
        if (safe := redact(message)) != message:
            record.msg, record.args = safe, None
        known = current_run().watch is not None and record.name == "retinue.run_log"  # a person watches the run
        configured = logging.root.handlers or len(_TREE.handlers) > 1
        if logging.lastResort and record.levelno >= logging.WARNING and not (known or configured):
            logging.lastResort.handle(record)


_TREE = logging.getLogger("retinue")
_TREE.addHandler(_Root())
