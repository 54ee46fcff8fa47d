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
_TYPES = {"string": "a string", "int": "an integer", "float": "a decimal", "bool": "a boolean", "list": "an array"}
_BOUNDS = {
    "greater_than_equal": ("ge", "below_min_value", "below minimum value", ">="),
    "less_than_equal": ("le", "above_max_value", "above maximum value", "<="),
}
_SHOWN = 200  # characters of the given value


def first_error(errors: Sequence[Mapping[str, Any]]) -> ApiError:
    """Return the first of pydantic's `errors` as an API error."""
    error = errors[0]
    kind, given, where = error["type"], error["input"], parameter_path(error["loc"])
    context: Mapping[str, Any] = error.get("ctx") or {}
    match kind:
        case "missing" if not where:
            return ApiError(400, "You must send a JSON object as the body of your request.")
        case "missing":
            return missing_parameter(where)
        case "moved":
            name, now = context["name"], context["now"]
            said = (
                f"Unsupported parameter: '{name}'. In this API, it is called {now}. Try again with the new parameter."
            )
            return _refusal(said, name, "unsupported_parameter")
        case "foreign" | "extra_forbidden":
            name = context.get("name", where)
            return _refusal(f"Unknown parameter: '{name}'.", name, "unknown_parameter")
        case "either":
            return wrong_type(where, error["msg"], given)
        case "by_type":
            return _wrong_kind(where, _QUOTED.findall(error["msg"]), given)
        case "literal_error":
            return _unsupported(where, _QUOTED.findall(context["expected"]), given)
    if wanted := _wanted_type(kind):
        return wrong_type(where, wanted, given)
    return _wrong_size(where, error, context) or invalid_value(where, error["msg"])


def missing_parameter(where: str, why: str = "") -> ApiError:
    """Return the error for a missing parameter."""
    return _refusal(f"Missing required parameter: '{where}'. {why}".rstrip(), where, "missing_required_parameter")


def wrong_type(where: str, wanted: str, given: Any) -> ApiError:
    """Return the error for a value `given` whose JSON type is not `wanted`, such as "an integer"."""
    subject = f"'{where}'" if where else "the body of your request"
    meant = given.lower() if wanted == "a boolean" and isinstance(given, str) else ""
    hint = f" Write {meant}, without quotes." if meant in ("true", "false") else ""
    said = f"Invalid type for {subject}: expected {wanted}, but got {_type_of(given)} instead.{hint}"
    return _refusal(said, where, "invalid_type")


def invalid_value(where: str, problem: str, code: str = "invalid_value") -> ApiError:
    """Return the error for an otherwise invalid value."""
    return _refusal(f"Invalid '{where}': {problem}.", where, code)


def parameter_path(location: Sequence[str | int]) -> str:
    """Return a pydantic location as a path: `tools[0].function.name`."""
    path = ""
    for part in location[1:]:  # after "body", "query" or "path"
        if isinstance(part, int):
            path += f"[{part}]"
        elif not (part.startswith("<") and part.endswith(">")) and part != "[key]":
            path += f".{part}" if path else part
    return path


def _wrong_kind(where: str, names: Sequence[str], given: Any) -> ApiError:
    if not isinstance(given, Mapping):
        return wrong_type(where, "an object", given)
    inner = f"{where}.type" if where else "type"
    return _unsupported(inner, names, given["type"]) if "type" in given else missing_parameter(inner)


def _unsupported(where: str, names: Sequence[str], given: Any) -> ApiError:
    if not isinstance(given, str):
        return wrong_type(where, "a string", given)
    *others, last = (f"'{name}'" for name in names)
    supported = f"{', '.join(others)}{',' if len(others) > 1 else ''} and {last}" if others else last
    said = f"Invalid value: '{given[:_SHOWN]}'. Supported values are: {supported}."
    return _refusal(said, where, "invalid_value")


def _wrong_size(where: str, error: Mapping[str, Any], context: Mapping[str, Any]) -> ApiError | None:
    kind, given = error["type"], error["input"]
    if kind in _BOUNDS:
        key, code, said, sign = _BOUNDS[kind]
        limit = context[key]
        number = "decimal" if isinstance(limit, float) else "integer"
        bound = int(limit) if limit == int(limit) else limit
        problem = f"{number} {said}. Expected a value {sign} {bound}, but got {str(given)[:_SHOWN]} instead"
        return invalid_value(where, problem, f"{number}_{code}")
    if kind == "string_pattern_mismatch":
        wanted = f"Expected a string that matches the pattern '{context['pattern']}'"
        return invalid_value(where, f"string does not match pattern. {wanted}")
    what = "a string" if kind.startswith("string") else "an array"
    name = what.partition(" ")[2]
    if kind in ("string_too_short", "too_short"):
        wanted = f"Expected {what} with minimum length {context['min_length']}, but got an empty {name} instead"
        return invalid_value(where, f"empty {name}. {wanted}", f"empty_{name}")
    if kind not in ("string_too_long", "too_long"):
        return None
    most, code = context["max_length"], f"{name}_above_max_length"
    if kind == "too_long" and isinstance(given, Mapping):
        wanted = f"Expected an object with at most {most} properties, but got an object with {len(given)} properties"
        return invalid_value(where, f"too many properties. {wanted} instead", "object_above_max_properties")
    if error["loc"][-1] == "[key]":
        where, what, name = where.rpartition(".")[0], "a property name", "property name"
        code = "property_name_above_max_length"
    problem = f"Expected {what} with maximum length {most}, but got {what} with length {len(given)} instead"
    return invalid_value(where, f"{name} too long. {problem}", code)


def _wanted_type(kind: str) -> str | None:
    """Return the type that an error of pydantic's says is wanted, with its article."""
    name, _, problem = kind.partition("_")
    if kind in ("dict_type", "model_type", "model_attributes_type"):
        return "an object"
    return _TYPES.get(name) if problem in ("type", "parsing", "from_float") else None


def _type_of(given: Any) -> str:
    """Return a value's JSON type, with its article."""
    if given is None:
        return "null"
    if isinstance(given, Mapping):
        return "an object"
    return _TYPES.get({"str": "string"}.get(type(given).__name__, type(given).__name__), "an array")


def _refusal(message: str, where: str, code: str) -> ApiError:
    return ApiError(400, message, param=where or None, code=code)
