"""API errors in OpenAI's wording, which clients match on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from ..._internal.message_text import suggest_name
from ...core.values import StopReason
from ...store.run_row import RunError, RunRow

_ENDINGS = frozenset(reason.lower() for reason in StopReason)


class ApiError(Exception):
    """An error response: `{"error": {"message", "type", "param", "code"}}`, with `headers`.

    `acted` says, of a request whose run has failed, whether the run may have had side effects.
    """

    acted: bool | None = None

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers
        self.body: dict[str, Any] = {"error": {"message": message, "type": kind, "param": param, "code": code}}


def not_found(what: str, id_: str) -> ApiError:
    """Return the error for an id that does not exist for this tenant."""
    return ApiError(404, f"No {what} found with id '{id_}'.")


def no_model(name: str, known: Iterable[str]) -> ApiError:
    """Return the error for a model that is not among the `known` ones."""
    message = f"The model '{name}' does not exist; {suggest_name(name, known)}"
    return ApiError(404, message, param="model", code="model_not_found")


def run_failed_error(run: RunRow, *, acted: bool = False) -> ApiError:
    """Return the error for a failed run. `acted`: side effects may have happened.

    SDKs repeat 409, 429 and 5xx by themselves. They may repeat only a 429 of a run without side effects: the server has
    repeated every other request to the model that was worth it.
    """
    failed = _failure_of(run, run.error or RunError("", f"The run was {run.status}."))
    failed.acted = acted
    if acted or failed.status not in (400, 429):
        failed.headers = {**(failed.headers or {}), "x-should-retry": "false"}
    return failed


def _failure_of(run: RunRow, error: RunError) -> ApiError:
    said, cause = error.message, error.cause
    if run.suspended:
        return ApiError(409, said, code=cause)
    match error.code:
        case "rate_limit_exceeded":
            wait = math.ceil(error.retry_after or 0)
            headers = {"retry-after": str(wait)} if wait else {}
            return ApiError(429, said, kind="requests", code="rate_limit_exceeded", headers=headers)
        case "invalid_prompt" if cause == "context_length_exceeded":
            return ApiError(400, said, param="messages", code="context_length_exceeded")
        case "invalid_prompt":
            return ApiError(400, said)
    return ApiError(500, said, kind="server_error", code=cause if cause in _ENDINGS else None)
