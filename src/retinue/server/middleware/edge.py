"""The outermost layer: every answer gets its id and its time, and what nobody expected becomes one line and a 500."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from collections.abc import Sequence
from itertools import count

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...errors import StoreUnavailable
from ..wire.bodies import MAX_BYTES
from ..wire.errors import ApiError
from ..wire.ids import new_id

_LOG = logging.getLogger("retinue.server")
PATIENCE = 30.0  # seconds for a body, and one more for each _SLOWEST bytes of it that have arrived
_SLOWEST = 10_000
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_WILDCARDS = ("0.0.0.0", "[::]", "::", "")
_SERIES = new_id("req")[:-8]  # of this process's requests: their ids need be unique, and no secret
_numbers = count()


def answer_of(error: Exception) -> JSONResponse:
    """What a client is told of `error`."""
    if isinstance(error, ApiError):
        return JSONResponse(error.body, error.status, error.headers)
    if isinstance(error, StoreUnavailable):
        message = "The server cannot reach its database at the moment. Please try again."
        return answer_of(ApiError(503, message, kind="server_error", headers={"Retry-After": "1"}))
    message = (
        "The server had an error while processing your request. Sorry about that! Please tell who runs it the request "
        "id (the header x-request-id)."
    )
    return answer_of(ApiError(500, message, kind="server_error"))


class Edge:
    """Around the whole application `app`. `patience`: the seconds in which a small body must arrive."""

    def __init__(self, app: ASGIApp, patience: float = PATIENCE) -> None:
        self._app = app
        self._patience = patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id, began, started = f"{_SERIES}{next(_numbers):08x}", time.perf_counter(), False
        scope.setdefault("state", {})["request_id"] = request_id

        async def sending(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                headers["x-request-id"] = request_id
                headers["openai-processing-ms"] = str(int((time.perf_counter() - began) * 1000))
                headers["openai-version"] = "2020-10-01"
            await send(message)

        try:
            await self._app(scope, _limited(scope, receive, self._patience), sending)
        except asyncio.CancelledError:  # the server stops; a stream is cut, and its reader sees that
            if not started:
                await answer_of(ApiError(503, "The server is stopping.", kind="server_error"))(scope, receive, sending)
        except Exception as error:
            _LOG.exception("%s: %s %s failed", request_id, scope["method"], scope["path"])
            if not started:  # else the connection is closed, and the client sees that something is missing
                await answer_of(error)(scope, receive, sending)


def _limited(scope: Scope, receive: Receive, patience: float) -> Receive:
    """`receive`, until a body is too large, or too slow."""
    declared = Headers(scope=scope).get("content-length", "")
    began, size, whole = time.monotonic(), 0, False

    async def received() -> Message:
        nonlocal size, whole
        if declared.isdigit() and int(declared) > MAX_BYTES:
            raise HTTPException(413)
        if whole:  # what is waited for now is that the client leaves
            return await receive()
        try:
            async with asyncio.timeout(began + patience + size / _SLOWEST - time.monotonic()):
                message = await receive()
        except TimeoutError as error:
            raise HTTPException(408, headers={"Connection": "close"}) from error
        size += len(message.get("body", b""))
        whole = not message.get("more_body", False)
        if size > MAX_BYTES:
            raise HTTPException(413)
        return message

    return received


class Addressed:
    """Lets through to `app` what was sent to this server by one of its names, and by no page of a browser but those
    of `origins`: a stranger's name that leads to this machine (DNS rebinding) leads to nothing.

    `hosts`: its names beside localhost's; `*` stands for all. One that listens everywhere has all addresses.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str], origins: Sequence[str]) -> None:
        self._app = app
        self._names = {name.lower() for name in (*_LOOPBACK, *hosts)}
        self._anywhere = "*" in hosts
        self._everywhere = not self._names.isdisjoint(_WILDCARDS)
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        refusal = None if scope["type"] == "lifespan" else self._refusal(scope)
        await (self._app if refusal is None else answer_of(refusal))(scope, receive, send)

    def _refusal(self, scope: Scope) -> ApiError | None:
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if host and not self._mine(host):
            return ApiError(421, f"This server is not known as '{host[:100]}' (see retinue serve --allow-host).")
        if origin is not None and not self._origins & {origin, "*"}:
            return ApiError(403, f"Pages of '{origin[:100]}' may not use this server (see retinue serve --cors).")
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:  # no id has one, and no database would take it
            return ApiError(404, f"Invalid URL ({scope.get('method', 'GET')} {scope['path']})", code="unknown_url")
        return None

    def _mine(self, host: str) -> bool:
        name, colon, port = host.lower().rpartition(":")
        if not colon or not port.isdigit():
            name = host.lower()
        if self._anywhere or name in self._names:
            return True
        return self._everywhere and _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
