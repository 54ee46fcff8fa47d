"""Logging of requests: the access log, and the causes of server errors."""

from __future__ import annotations

import logging
import time
from typing import Any

from starlette.types import Message, Scope

from ...core.run_context import current_run
from ..log_output import ACCESS

logger = logging.getLogger(__name__)
LEFT = 499  # as in nginx: the client disconnected before the response


class Answer:
    """The response to a request so far: its start time, status (0 if not sent yet) and size in bytes."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.status = 0
        self.size = 0
        self.explained = False  # its cause was logged

    @property
    def milliseconds(self) -> int:
        """Milliseconds since the request arrived."""
        return int((time.perf_counter() - self.began) * 1000)

    def add(self, message: Message) -> None:
        """Record the next message of the response."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.size += len(message.get("body", b""))


def log_answer(scope: Scope, answer: Answer) -> None:
    """Log a finished request: server errors with their cause, and every request in the access log."""
    if answer.status >= 500 and not answer.explained:
        cause = scope["state"].get("cause", "unknown cause")
        level = logging.ERROR if answer.status == 500 else logging.WARNING
        logger.log(level, "%s %s was answered with %d: %s", scope["method"], scope["path"], answer.status, cause)
    if ACCESS.isEnabledFor(logging.INFO):
        fields = _fields(scope, answer)
        ACCESS.info("%s %s %d", scope["method"], scope["path"], answer.status, extra={"fields": fields})


def _fields(scope: Scope, answer: Answer) -> dict[str, Any]:
    state, key = scope["state"], scope["state"].get("key")
    here = current_run()
    given = {"client_request": here.client_request, "trace": here.client_trace}
    return {
        "request": state["request_id"],
        **{name: value for name, value in given.items() if value},
        "client": (scope.get("client") or ("",))[0],
        "method": scope["method"],
        "path": scope["path"],
        "status": answer.status,
        "bytes": answer.size,
        "ms": answer.milliseconds,
        "tenant": getattr(key, "tenant", ""),
        "key": getattr(key, "id", None) or "",
    }
