"""The errors of A2A: their JSON-RPC codes, and their form over HTTP (`google.rpc.Status`)."""

from __future__ import annotations

from enum import Enum

from fastapi import HTTPException

from ...errors import StoreConflict, StoreUnavailable
from ..http.api_errors import ApiError, api_error_of
from ..http.objects import Object


class Reason(Enum):
    """Why an operation is refused: JSON-RPC's code, HTTP's status, and the name of gRPC's."""

    TASK_NOT_FOUND = (-32001, 404, "NOT_FOUND")
    TASK_NOT_CANCELABLE = (-32002, 400, "FAILED_PRECONDITION")
    PUSH_NOTIFICATION_NOT_SUPPORTED = (-32003, 400, "FAILED_PRECONDITION")
    UNSUPPORTED_OPERATION = (-32004, 400, "FAILED_PRECONDITION")
    CONTENT_TYPE_NOT_SUPPORTED = (-32005, 400, "INVALID_ARGUMENT")
    VERSION_NOT_SUPPORTED = (-32009, 400, "FAILED_PRECONDITION")
    INVALID_PARAMS = (-32602, 400, "INVALID_ARGUMENT")
    INVALID_REQUEST = (-32600, 400, "INVALID_ARGUMENT")
    METHOD_NOT_FOUND = (-32601, 404, "NOT_FOUND")
    JSON_PARSE_ERROR = (-32700, 400, "INVALID_ARGUMENT")
    INTERNAL_ERROR = (-32603, 500, "INTERNAL")
    AGENT_NOT_FOUND = (-32600, 404, "NOT_FOUND")
    # not A2A's own: refusals that clients of any API must see in the HTTP status
    RESOURCE_EXHAUSTED = (-32000, 429, "RESOURCE_EXHAUSTED")
    ABORTED = (-32000, 409, "ABORTED")
    UNAVAILABLE = (-32000, 503, "UNAVAILABLE")


_BY_STATUS = {
    400: Reason.INVALID_PARAMS,
    404: Reason.INVALID_PARAMS,
    409: Reason.ABORTED,
    429: Reason.RESOURCE_EXHAUSTED,
    503: Reason.UNAVAILABLE,
}
_SHOWN = (
    Reason.RESOURCE_EXHAUSTED, Reason.ABORTED, Reason.UNAVAILABLE, Reason.INTERNAL_ERROR, Reason.AGENT_NOT_FOUND
)  # fmt: skip


class A2AError(Exception):
    """An error of an operation; `headers` are those of the response. `status` is that of HTTP+JSON, and `rpc_status`
    that of JSON-RPC: 200, except for what clients of any protocol look for in the status."""

    def __init__(self, reason: Reason, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.headers = headers or {}
        code, self.status, name = reason.value
        self.rpc_status = self.status if reason in _SHOWN else 200
        kind = "type.googleapis.com/google.rpc.ErrorInfo"
        details = [{"@type": kind, "reason": reason.name, "domain": "a2a-protocol.org", "metadata": {}}]
        self.body: Object = {"error": {"code": self.status, "status": name, "message": message, "details": details}}
        self.rpc_error: Object = {"code": code, "message": message, "data": details}


KNOWN = (A2AError, ApiError, StoreConflict, StoreUnavailable, HTTPException)
"""The exceptions that clients are told of."""


def a2a_error(error: Exception) -> A2AError:
    """Return the error that A2A's clients are told for one of the server's own."""
    if isinstance(error, A2AError):
        return error
    if isinstance(error, HTTPException):
        reason = Reason.JSON_PARSE_ERROR if error.status_code == 400 else Reason.INVALID_REQUEST
        return A2AError(reason, str(error.detail))
    known = api_error_of(error)
    message = known.body["error"]["message"]
    return A2AError(_BY_STATUS.get(known.status, Reason.INTERNAL_ERROR), message, dict(known.headers or {}))
