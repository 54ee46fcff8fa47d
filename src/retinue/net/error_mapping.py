"""Maps the errors of engines to exceptions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import ModelError, ModelNotFound, ModelRefused, ModelUnavailable, WindowExceeded
from .retry import parse_retry_after

_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size|maximum (context|model) length|available context size|"
    r"prompt is too long|exceed context limit|inputs. (tokens|must have less)|too many tokens",
    re.IGNORECASE,
)
_STATUS = {"invalid_request_error": 400, "request_too_large": 413}
_NO_MODEL = re.compile(r"model_not_found|model_not_supported|invalid_model")
_REFUSALS = ("invalid_request", "authentication", "permission", "not_found", "request_too_large", "billing")


def error_for_status(where: str, status: int, text: str, wait: str | None, *, keyed: bool = True) -> ModelError:
    """Return the error for a response with this status and body. `wait`: its `Retry-After`; `keyed`: a key was sent."""
    words, mark = error_message_of(text)
    message = f"{where} answered {status}: {words}"
    if status in (401, 403):
        hint = "is the API key right?" if keyed or status == 403 else "no key was given: pass api_key=…"
        return ModelRefused(f"{message} ({hint})")
    if (status == 404 and re.search(r"\bmodel\b", words)) or (status in (400, 404) and _NO_MODEL.search(mark)):
        return ModelNotFound(message)
    if (status in (408, 425, 429) or status >= 500) and "insufficient_quota" not in mark:
        return ModelUnavailable(message, parse_retry_after(wait))
    return refusal(message, mark)


def with_error_code(error: ModelError, status: int | None) -> ModelError:
    """Set the `code` for this status on `error`, if it is more specific than the error's class."""
    if isinstance(error, ModelUnavailable) and status == 429:
        error.code = "rate_limit_exceeded"
    if type(error) is ModelRefused and status in (400, 413, 422):
        error.code = "invalid_request"
    return error


def error_in_stream(error: Any, redacted: Callable[[str], str]) -> ModelError:
    """Return the error for an error object found in place of a reply, or of a part of it."""
    message, mark = _parts({"error": error}, redacted)
    code = error.get("code") if isinstance(error, Mapping) else None
    refused = isinstance(code, int) and 400 <= code < 500 and code != 429
    message = f"the engine reports: {message:.300}"
    if refused or (not isinstance(code, int) and mark.startswith(_REFUSALS)):
        return with_error_code(
            refusal(message, mark), code if isinstance(code, int) else _STATUS.get(mark.split(" ")[0])
        )
    return with_error_code(ModelUnavailable(message), 429 if code == 429 or "rate_limit" in mark else None)


def refusal(message: str, mark: str = "") -> ModelRefused:
    """Return a refusal; a prompt that is too long gets its own class."""
    return (WindowExceeded if _TOO_LONG.search(f"{mark} {message}") else ModelRefused)(message)


def names_parameter(refused: ModelRefused, parameter: str) -> bool:
    """Return whether the refusal is about this parameter."""
    name = re.escape(parameter)
    return re.search(rf"['\"`]{name}['\"`.]|(?<![\w'\"`]){name}(\.\w+)*:", str(refused)) is not None


def error_message_of(text: str) -> tuple[str, str]:
    """Extract the message and the type or code from an error body, in any common format."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return " ".join(text.split())[:200] or "(no message)", ""
    return _parts(body)


def _parts(body: Any, redacted: Callable[[str], str] = str) -> tuple[str, str]:
    error = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(error, Mapping):
        message = next((error[key] for key in ("message", "detail", "error") if error.get(key)), "(no message)")
        mark = " ".join(str(error[key]) for key in ("type", "code") if error.get(key))
    else:
        message, mark = error, str(body.get("error_type", "")) if isinstance(body, dict) else ""  # TGI
    return " ".join(redacted(str(message)).split())[:500], mark
