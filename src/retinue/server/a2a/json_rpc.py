"""A2A over JSON-RPC 2.0: one address for all operations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fastapi import HTTPException
from fastapi.responses import JSONResponse, Response
from pydantic import TypeAdapter, ValidationError

from ...errors import StoreConflict, StoreUnavailable
from ..http.api_errors import ApiError, parameter_path
from ..http.objects import Object
from ..http.request_body import json_in
from ..http.sse import event_stream
from . import operations
from .a2a_errors import A2AError, a2a_error
from .operations import Call
from .schemas import A2ARequest, ListTasks, Nothing, SendMessage, TaskQuery
from .task_stream import framed_in_rpc

KNOWN = (A2AError, ApiError, StoreConflict, StoreUnavailable, HTTPException)
"""The exceptions that clients are told of."""
_METHODS: Mapping[str, tuple[type[A2ARequest], Callable[[Call, Any], Awaitable[Object]]]] = {
    "SendMessage": (SendMessage, operations.send_message),
    "GetTask": (TaskQuery, operations.get_task),
    "ListTasks": (ListTasks, operations.list_tasks),
    "CancelTask": (TaskQuery, operations.cancel_task),
    "GetExtendedAgentCard": (Nothing, operations.extended_card),
    **{
        f"{verb}TaskPushNotificationConfig{s}": (Nothing, operations.no_push_notifications)
        for verb, s in (("Create", ""), ("Get", ""), ("List", "s"), ("Delete", ""))
    },
}
_STREAMS: Mapping[str, tuple[type[A2ARequest], Callable[..., Awaitable[Any]]]] = {
    "SendStreamingMessage": (SendMessage, operations.stream_message),
    "SubscribeToTask": (TaskQuery, operations.subscribe),
}


async def answer_rpc(call: Call) -> Response:
    """Answer a JSON-RPC request. Errors are answers, too."""
    request_id: str | int | None = None
    try:
        body = await json_in(await call.request.body(), call.context.server, call.context.scope.tenant)
        request_id = _id_of(body)
        method, params = _checked(body)
        check_version(call)
        if method in ("SendMessage", "SendStreamingMessage"):
            call.context.admission.begin_run()
        if method in _STREAMS:
            kind, work = _STREAMS[method]
            return event_stream(await work(call, parsed(kind, params), framed_in_rpc(request_id)))
        kind, operation = _METHODS[method]
        result = await operation(call, parsed(kind, params))
    except KNOWN as error:
        told = a2a_error(error)
        failed = {"jsonrpc": "2.0", "id": request_id, "error": told.rpc_error}
        return JSONResponse(failed, told.rpc_status, told.headers)
    return JSONResponse({"jsonrpc": "2.0", "id": request_id, "result": result})


def check_version(call: Call) -> None:
    """Raise `A2AError` unless the request is in version 1 of the protocol; without the header it would be in 0.3."""
    said = call.request.headers.get("a2a-version") or call.request.query_params.get("A2A-Version") or "0.3"
    if said.split(".")[0] != "1":
        known = "this server speaks 1.0 (send the header 'A2A-Version: 1.0')"
        raise A2AError("VERSION_NOT_SUPPORTED", f"A2A version {said[:20]} is not supported; {known}.")


def parsed(kind: type[A2ARequest], params: Any) -> Any:
    """Return `params` as a request. Raises `A2AError`."""
    try:
        return TypeAdapter(kind).validate_python(params)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = parameter_path(("params", *first["loc"]))
        raise A2AError("INVALID_PARAMS", f"{where or 'params'}: {first['msg']}.") from None


def _id_of(body: Any) -> str | int | None:
    given = body.get("id") if isinstance(body, dict) else None
    return given if isinstance(given, str | int) and not isinstance(given, bool) else None


def _checked(body: Any) -> tuple[str, Any]:
    """Return the method and parameters of a request. Raises `A2AError`."""
    if not isinstance(body, dict) or body.get("jsonrpc") != "2.0" or not isinstance(body.get("method"), str):
        wanted = '{"jsonrpc": "2.0", "id": …, "method": "SendMessage", "params": {…}}'
        raise A2AError("INVALID_REQUEST", f"Expected one JSON-RPC request, such as {wanted}.")
    method: str = body["method"]
    if method not in _METHODS and method not in _STREAMS:
        known = ", ".join([*_METHODS, *_STREAMS])
        raise A2AError("METHOD_NOT_FOUND", f"There is no method '{method[:100]}'; A2A 1.0 has: {known}.")
    return method, body.get("params") or {}
