"""What the API refuses, in OpenAI's words: clients match on them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ...store.run_row import RunRow


class ApiError(Exception):
    """An answer that is an error: `{"error": {"message", "type", "param", "code"}}`, with `headers`."""

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
    """Nothing of that id is there, for this tenant."""
    return ApiError(404, f"No {what} found with id '{id_}'.")


def no_model(name: str) -> ApiError:
    """No agent of the file has this name."""
    return ApiError(404, f"The model '{name}' does not exist.", param="model", code="model_not_found")


def run_failed_error(run: RunRow, *, acted: bool = False) -> ApiError:
    """A run that came to nothing, as an answer. `acted`: something may have been done that must not be done again, so
    clients are told not to send the request again by themselves."""
    error: Mapping[str, Any] = run.state.get("last_error") or {}
    cause: Mapping[str, Any] = run.state.get("failure") or {}
    said = error.get("message") or f"The run was {run.status}."
    headers = {"x-should-retry": "false"} if acted or cause.get("code") == "model_refused" else {}
    match error.get("code"):
        case "rate_limit_exceeded":
            wait = math.ceil(cause.get("retry_after") or 0)
            headers |= {"retry-after": str(wait)} if wait else {}
            return ApiError(429, said, kind="requests", code="rate_limit_exceeded", headers=headers)
        case "invalid_prompt" if cause.get("code") == "context_length_exceeded":
            return ApiError(400, said, param="messages", code="context_length_exceeded")
        case "invalid_prompt":
            return ApiError(400, said)
    return ApiError(500, said, kind="server_error", headers=headers)
