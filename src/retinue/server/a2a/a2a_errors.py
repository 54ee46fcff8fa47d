"""The errors of A2A: their JSON-RPC codes, and their form over HTTP (`google.rpc.Status`)."""

from __future__ import annotations

from typing import Literal, NamedTuple

from fastapi import HTTPException

from ..http.api_errors import api_error_of
from ..http.objects import Object

Reason = Literal[
    "TASK_NOT_FOUND",
    "TASK_NOT_CANCELABLE",
    "PUSH_NOTIFICATION_NOT_SUPPORTED",
    "UNSUPPORTED_OPERATION",
    "CONTENT_TYPE_NOT_SUPPORTED",
    "VERSION_NOT_SUPPORTED",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "JSON_PARSE_ERROR",
    "INTERNAL_ERROR",
    "AGENT_NOT_FOUND",
    "RESOURCE_EXHAUSTED",
    "ABORTED",
    "UNAVAILABLE",
]


class _Kind(NamedTuple):
    code: int  # of JSON-RPC
    status: int  # of HTTP
    name: str  # of gRPC's status


_KINDS: dict[Reason, _Kind] = {
    "TASK_NOT_FOUND": _Kind(-32001, 404, "NOT_FOUND"),
    "TASK_NOT_CANCELABLE": _Kind(-32002, 400, "FAILED_PRECONDITION"),
    "PUSH_NOTIFICATION_NOT_SUPPORTED": _Kind(-32003, 400, "FAILED_PRECONDITION"),
    "UNSUPPORTED_OPERATION": _Kind(-32004, 400, "FAILED_PRECONDITION"),
    "CONTENT_TYPE_NOT_SUPPORTED": _Kind(-32005, 400, "INVALID_ARGUMENT"),
    "VERSION_NOT_SUPPORTED": _Kind(-32009, 400, "FAILED_PRECONDITION"),
    "INVALID_PARAMS": _Kind(-32602, 400, "INVALID_ARGUMENT"),
    "INVALID_REQUEST": _Kind(-32600, 400, "INVALID_ARGUMENT"),
    "METHOD_NOT_FOUND": _Kind(-32601, 404, "NOT_FOUND"),
    "JSON_PARSE_ERROR": _Kind(-32700, 400, "INVALID_ARGUMENT"),
    "INTERNAL_ERROR": _Kind(-32603, 500, "INTERNAL"),
    "AGENT_NOT_FOUND": _Kind(-32600, 404, "NOT_FOUND"),
    # not A2A's own: refusals that clients of any API must see in the HTTP status
    "RESOURCE_EXHAUSTED": _Kind(-32000, 429, "RESOURCE_EXHAUSTED"),
    "ABORTED": _Kind(-32000, 409, "ABORTED"),
    "UNAVAILABLE": _Kind(-32000, 503, "UNAVAILABLE"),
}
_BY_STATUS: dict[int, Reason] = {
    400: "INVALID_PARAMS",
    404: "INVALID_PARAMS",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}
_SHOWN = ("RESOURCE_EXHAUSTED", "ABORTED", "UNAVAILABLE", "INTERNAL_ERROR", "AGENT_NOT_FOUND")


class A2AError(Exception):
    """An error of an operation, as A2A names it by its `reason`; `headers` are those of the response."""

    def __init__(self, reason: Reason, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.headers = headers or {}

    @property
    def status(self) -> int:
        """The HTTP status, over HTTP+JSON."""
        return _KINDS[self.reason].status

    @property
    def rpc_status(self) -> int:
        """The HTTP status, over JSON-RPC: 200, except for what clients of any protocol look for in the status."""
        return self.status if self.reason in _SHOWN else 200

    @property
    def body(self) -> Object:
        """The body over HTTP+JSON."""
        kind = _KINDS[self.reason]
        told = {"code": kind.status, "status": kind.name, "message": self.message, "details": self._details}
        return {"error": told}

    @property
    def rpc_error(self) -> Object:
        """The `error` over JSON-RPC."""
        return {"code": _KINDS[self.reason].code, "message": self.message, "data": self._details}

    @property
    def _details(self) -> list[Object]:
        kind = "type.googleapis.com/google.rpc.ErrorInfo"
        return [{"@type": kind, "reason": self.reason, "domain": "a2a-protocol.org", "metadata": {}}]


def a2a_error(error: Exception) -> A2AError:
    """Return the error that A2A's clients are told for one of the server's own."""
    if isinstance(error, A2AError):
        return error
    if isinstance(error, HTTPException):
        return A2AError("JSON_PARSE_ERROR" if error.status_code == 400 else "INVALID_REQUEST", str(error.detail))
    known = api_error_of(error)
    message = known.body["error"]["message"]
    return A2AError(_BY_STATUS.get(known.status, "INTERNAL_ERROR"), message, dict(known.headers or {}))
