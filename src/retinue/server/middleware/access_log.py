"""What is logged of requests: each of them, if that is wanted, and what became of those that the server failed."""

from __future__ import annotations

import logging
import time
from typing import Any

from starlette.types import Message, Scope

from ..log_output import ACCESS

logger = logging.getLogger(__name__)
LEFT = 499  # as nginx says it: the client went away before there was an answer


class Answer:
    """What is said in answer to a request: when that began, the status (0: nothing was said yet), the bytes."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.status = 0
        self.size = 0
        self.explained = False  # the log has said why it is what it is

    @property
    def milliseconds(self) -> int:
        """Since the request came."""
        return int((time.perf_counter() - self.began) * 1000)

    def add(self, message: Message) -> None:
        """Note the next thing that is said."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.size += len(message.get("body", b""))


def log_answer(scope: Scope, answer: Answer) -> None:
    """Log a request that is over: one that the server failed with its cause, and each in the access log."""
    if answer.status >= 500 and not answer.explained:
        cause = scope["state"].get("cause", "no cause is known")
        level = logging.ERROR if answer.status == 500 else logging.WARNING
        logger.log(level, "%s %s was answered with %d: %s", scope["method"], scope["path"], answer.status, cause)
    if ACCESS.isEnabledFor(logging.INFO):
        fields = _fields(scope, answer)
        ACCESS.info("%s %s %d", scope["method"], scope["path"], answer.status, extra={"fields": fields})


def _fields(scope: Scope, answer: Answer) -> dict[str, Any]:
    state, key = scope["state"], scope["state"].get("key")
    return {
        "request": state["request_id"],
        "client": (scope.get("client") or ("",))[0],
        "method": scope["method"],
        "path": scope["path"],
        "status": answer.status,
        "bytes": answer.size,
        "ms": answer.milliseconds,
        "tenant": getattr(key, "tenant", ""),
        "key": getattr(key, "id", None) or "",
    }
