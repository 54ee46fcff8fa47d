"""What the API refuses, in OpenAI's words: clients match on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


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
