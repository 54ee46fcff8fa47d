"""API errors in OpenAI's wording and with its codes, which clients match on: what each failure is told as, also what
pydantic finds wrong with a parameter, and the response that tells it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from ..._internal.message_text import suggest_name
from ...core.values import StopReason
from ...errors import StoreConflict, StoreLost, StoreUnavailable, ValueRefused
from ...store.run_row import RunError, RunRow

_ENDINGS = frozenset(reason.lower() for reason in StopReason)
_UNFORESEEN = (
    "The server had an error while processing your request. Sorry about that! Please give its operator the request id."
)
_CONFLICT = "Another request changed the same object at the same time. Please try again."
_AWAY = (
    (StoreLost, "The server has lost its database. Its operator finds in the log what to do.", "30"),
    (StoreUnavailable, "The server cannot reach its database at the moment. Please try again.", "1"),
)


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


class ErrorResponse(JSONResponse):
    """The response to an `error`. `cause` is logged.

    SDKs repeat a request that was answered 408, 409, 429 or 5xx. The response tells them not to if the request has
    written something, for what it began goes on. With an `Idempotency-Key`, a repetition finds what was begun.
    """

    def __init__(self, error: ApiError, cause: Exception) -> None:
        super().__init__(error.body, error.status, error.headers)
        self._error = error
        self._cause = cause

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response; a server error includes the request id."""
        state = scope.setdefault("state", {})
        state["acted"] = self._error.acted
        if self._error.acted is None and state.get("wrote") and "repeat" not in state:
            self.headers["x-should-retry"] = "false"
        if self.status_code >= 500:
            state["cause"] = self._cause
            error = self._error.body["error"]
            run = f", run: {state['run']}" if "run" in state else ""
            message = f"{error['message']} (request id: {state.get('request_id', 'none')}{run})"
            self.body = self.render({"error": {**error, "message": message}})
            self.headers["content-length"] = str(len(self.body))
        await super().__call__(scope, receive, send)


def answer_of(error: Exception) -> ErrorResponse:
    """Return the response to `error`."""
    return ErrorResponse(api_error_of(error), error)


def api_error_of(error: Exception) -> ApiError:
    """Return what clients are told of `error`."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, ValueRefused):
        return ApiError(400, "The database cannot hold a value of this request.", code="invalid_value")
    if isinstance(error, StoreConflict):
        return ApiError(409, _CONFLICT, code="conflict", headers={"x-should-retry": "true"})
    for kind, message, seconds in _AWAY:
        if isinstance(error, kind):
            return ApiError(503, message, kind="server_error", headers={"Retry-After": seconds})
    return ApiError(500, _UNFORESEEN, kind="server_error")


# ── what is wrong with a parameter ────────────────────────────────────────────────────────────────

_QUOTED = re.compile(r"'([^']*)'")
_WANTED = {
    "string_type": "a string",
    "int_type": "an integer",
    "int_parsing": "an integer",
    "int_from_float": "an integer",
    "float_type": "a decimal",
    "float_parsing": "a decimal",
    "bool_type": "a boolean",
    "bool_parsing": "a boolean",
    "list_type": "an array",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}
_BOUNDS = {
    "greater_than_equal": ("ge", "below_min_value", "below minimum value", ">="),
    "less_than_equal": ("le", "above_max_value", "above maximum value", "<="),
}
_SHOWN = 200  # characters of the given value


def first_error(errors: Sequence[Mapping[str, Any]]) -> ApiError:
    """Return the first of pydantic's `errors` as an API error."""
    error = errors[0]
    kind, given = error["type"], error["input"]
    context: Mapping[str, Any] = error.get("ctx") or {}
    where = parameter_path(error["loc"])
    if kind == "missing":
        return (
            missing_parameter(where)
            if where
            else ApiError(400, "You must send a JSON object as the body of your request.")
        )
    if kind == "moved":
        name, now = context["name"], context["now"]
        message = f"Unsupported parameter: '{name}'. In this API, it is called {now}. Try again with the new parameter."
        return ApiError(400, message, param=name, code="unsupported_parameter")
    if kind == "foreign":
        name = context["name"]
        return _refusal(f"Unknown parameter: '{name}'.", name, "unknown_parameter")
    if kind == "extra_forbidden":
        return _refusal(f"Unknown parameter: '{where}'.", where, "unknown_parameter")
    if kind in _WANTED:
        return wrong_type(where, _WANTED[kind], given)
    if kind == "either":
        return wrong_type(where, error["msg"], given)
    if kind == "by_type":
        return _by_type(where, _QUOTED.findall(error["msg"]), given)
    if kind == "literal_error":
        return _literal(where, _QUOTED.findall(context["expected"]), given)
    return _size(where, error, context) or invalid_value(where, error["msg"])


def missing_parameter(where: str, why: str = "") -> ApiError:
    """Return the error for a missing parameter."""
    return _refusal(f"Missing required parameter: '{where}'. {why}".rstrip(), where, "missing_required_parameter")


def wrong_type(where: str, wanted: str, given: Any) -> ApiError:
    """Return the error for a value `given` whose JSON type is not `wanted`, such as "an integer"."""
    subject = f"'{where}'" if where else "the body of your request"
    meant = given.lower() if wanted == "a boolean" and isinstance(given, str) else ""
    hint = f" Write {meant}, without quotes." if meant in ("true", "false") else ""
    return _refusal(
        f"Invalid type for {subject}: expected {wanted}, but got {_called(given)} instead.{hint}", where, "invalid_type"
    )


def invalid_value(where: str, problem: str) -> ApiError:
    """Return the error for an otherwise invalid value."""
    return _refusal(f"Invalid '{where}': {problem}.", where, "invalid_value")


def parameter_path(location: Sequence[str | int]) -> str:
    """Return a pydantic location as a path: `tools[0].function.name`."""
    said = ""
    for part in location[1:]:  # after "body", "query" or "path"
        if isinstance(part, int):
            said += f"[{part}]"
        elif not (part.startswith("<") and part.endswith(">")) and part != "[key]":
            said += f".{part}" if said else part
    return said


def _by_type(where: str, names: Sequence[str], given: Any) -> ApiError:
    if not isinstance(given, Mapping):
        return wrong_type(where, "an object", given)
    inner = f"{where}.type" if where else "type"
    return _literal(inner, names, given["type"]) if "type" in given else missing_parameter(inner)


def _literal(where: str, names: Sequence[str], given: Any) -> ApiError:
    if not isinstance(given, str):
        return wrong_type(where, "a string", given)
    return _refusal(f"Invalid value: '{given[:_SHOWN]}'. Supported values are: {_or(names)}.", where, "invalid_value")


def _or(names: Sequence[str]) -> str:
    quoted = [f"'{name}'" for name in names]
    if len(quoted) < 3:
        return " and ".join(quoted)
    return f"{', '.join(quoted[:-1])}, and {quoted[-1]}"


def _size(where: str, error: Mapping[str, Any], context: Mapping[str, Any]) -> ApiError | None:
    kind, given = error["type"], error["input"]
    if kind in _BOUNDS:
        key, code, said, sign = _BOUNDS[kind]
        limit = context[key]
        number = "decimal" if isinstance(limit, float) else "integer"
        words = f"{number} {said}. Expected a value {sign} {_number(limit)}, but got {str(given)[:_SHOWN]} instead"
        return _refusal(f"Invalid '{where}': {words}.", where, f"{number}_{code}")
    if kind == "string_too_long" and error["loc"][-1] == "[key]":
        where = where.rpartition(".")[0]
        return _long(where, "property name", "property_name_above_max_length", context["max_length"], len(given))
    if kind == "string_too_long":
        return _long(where, "string", "string_above_max_length", context["max_length"], len(given))
    if kind == "string_too_short":
        return _empty(where, "string", context["min_length"])
    if kind == "too_short":
        return _empty(where, "array", context["min_length"])
    if kind == "too_long" and isinstance(given, Mapping):
        most = context["max_length"]
        words = f"Expected an object with at most {most} properties, but got an object with {len(given)} properties"
        return _refusal(
            f"Invalid '{where}': too many properties. {words} instead.", where, "object_above_max_properties"
        )
    if kind == "too_long":
        return _long(where, "array", "array_above_max_length", context["max_length"], len(given))
    if kind == "string_pattern_mismatch":
        pattern = context["pattern"]
        words = f"string does not match pattern. Expected a string that matches the pattern '{pattern}'"
        return _refusal(f"Invalid '{where}': {words}.", where, "invalid_value")
    return None


def _number(limit: float) -> str:
    return str(int(limit)) if limit == int(limit) else str(limit)


def _long(where: str, what: str, code: str, most: int, size: int) -> ApiError:
    one = f"an {what}" if what == "array" else f"a {what}"
    words = f"{what} too long. Expected {one} with maximum length {most}, but got {one} with length {size} instead"
    return _refusal(f"Invalid '{where}': {words}.", where, code)


def _empty(where: str, what: str, least: int) -> ApiError:
    one = f"an {what}" if what == "array" else f"a {what}"
    words = f"empty {what}. Expected {one} with minimum length {least}, but got an empty {what} instead"
    return _refusal(f"Invalid '{where}': {words}.", where, f"empty_{what}")


def _called(given: Any) -> str:
    """Return a value's JSON type, with its article."""
    match given:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case int():
            return "an integer"
        case float():
            return "a decimal"
        case Mapping():
            return "an object"
    return "an array"


def _refusal(message: str, where: str, code: str) -> ApiError:
    return ApiError(400, message, param=where or None, code=code)
