"""The outermost layer: adds the request id and processing time, and turns unexpected errors into a log line and a
500.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import time
from collections.abc import Callable, Sequence
from itertools import count

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...core.run_context import TRACE_HEADER, RunContext, TraceParent, run_context
from ...errors import StoreConflict, StoreLost, StoreUnavailable, ValueRefused
from .access_log import LEFT, Answer, log_answer
from .api_errors import ApiError
from .ids import new_id
from .request_body import max_body_bytes
from .trailing_slash import without_slash

logger = logging.getLogger(__name__)
_LOGGED = 100  # origins and hosts whose refusal is logged
PATIENCE = 30.0  # seconds for a body, plus one per _SLOWEST bytes received
_SLOWEST = 10_000
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_WILDCARDS = ("0.0.0.0", "[::]", "::", "")
_SERIES = new_id("req")[:-8]  # per process: request ids must be unique, but need not be secret
_numbers = count()
_CLIENT_ID = re.compile(r"[A-Za-z0-9_.:/=+-]{1,128}")


_UNFORESEEN = (
    "The server had an error while processing your request. Sorry about that! Please give its operator the request id."
)
_CONFLICT = "Another request changed the same object at the same time. Please try again."
_AWAY = (
    (StoreLost, "The server has lost its database. Its operator finds in the log what to do.", "30"),
    (StoreUnavailable, "The server cannot reach its database at the moment. Please try again.", "1"),
)


class ErrorResponse(JSONResponse):
    """The response to an `error`. `cause` is logged.

    SDKs repeat a request that was answered 408, 409, 429 or 5xx. The response tells them not to if the request has
    written something, for what it began goes on. With an `Idempotency-Key`, a repetition finds what was begun.
    """

    def __init__(self, error: ApiError, cause: Exception) -> None:
        super().__init__(error.body, error.status, error.headers)
        self._said = error.body
        self._acted = error.acted
        self._cause = cause

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response; a server error includes the request id."""
        state = scope.setdefault("state", {})
        state["acted"] = self._acted
        if self._acted is None and state.get("wrote") and "repeat" not in state:
            self.headers["x-should-retry"] = "false"
        if self.status_code >= 500:
            state["cause"] = self._cause
            error = self._said["error"]
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


class RequestContext:
    """Wraps the whole application `app`. `patience` is the number of seconds in which a small body must arrive.

    The functions in `request.state.heads`, which inner layers add to, see the beginning of the response, the last one
    first, and may add headers.
    """

    def __init__(self, app: ASGIApp, patience: float = PATIENCE) -> None:
        self._app = app
        self._patience = patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id, answer = f"{_SERIES}{next(_numbers):08x}", Answer()
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        heads: list[Callable[[Message], None]] = state.setdefault("heads", [])

        async def sending(message: Message) -> None:
            answer.add(message)
            if message["type"] == "http.response.start":
                for see in reversed(heads):
                    see(message)
                headers = MutableHeaders(scope=message)
                headers["x-request-id"] = request_id
                headers["openai-processing-ms"] = str(answer.milliseconds)
                headers["openai-version"] = "2020-10-01"
            await send(message)

        with run_context(_context_of(scope, request_id)):
            try:
                await self._app(without_slash(scope), _limited(scope, receive, self._patience), sending)
            except (Exception, asyncio.CancelledError) as error:
                heads.clear()  # those layers were left
                await _failed(error, scope, answer, receive, sending)
            finally:
                log_answer(scope, answer)


def _context_of(scope: Scope, request_id: str) -> RunContext:
    headers = Headers(scope=scope)
    known = headers.get("x-client-request-id") or headers.get("x-request-id", "")
    caller = TraceParent.parse(headers.getlist(TRACE_HEADER)) if TRACE_HEADER in headers else None
    return RunContext(
        request=request_id,
        client_request=known if _CLIENT_ID.fullmatch(known) else "",
        client_trace="" if caller is None else caller.trace_id.hex(),
    )


async def _failed(
    error: Exception | asyncio.CancelledError, scope: Scope, answer: Answer, receive: Receive, send: Send
) -> None:
    """Answer a request that ended with `error`, if nothing was sent yet. Otherwise the connection is closed, so that
    the client notices."""
    if isinstance(error, asyncio.CancelledError):  # the server is stopping; readers of a stream see that it is cut
        goes_on = " What your request began goes on." if scope["state"].get("wrote") else ""
        error = ApiError(503, f"The server is stopping.{goes_on}", kind="server_error")
    elif isinstance(error, ClientDisconnect):
        left = "%s %s: the client disconnected before the end of the request or response"
        logger.info(left, scope["method"], scope["path"])
        answer.status = answer.status or LEFT
    else:
        known = isinstance(error, StoreUnavailable) and not answer.status
        answer.explained = not known
        if not known:
            logger.exception("%s %s failed", scope["method"], scope["path"])
    if not answer.status:
        await answer_of(error)(scope, receive, send)


def _limited(scope: Scope, receive: Receive, patience: float) -> Receive:
    """Return `receive` with limits on the size and speed of a body."""
    declared = Headers(scope=scope).get("content-length", "")
    began, size, whole = time.monotonic(), 0, False
    most = max_body_bytes(scope["path"])
    too_large = f"The body of your request is too large: the limit is {most // 1_000_000} MB."

    async def received() -> Message:
        nonlocal size, whole
        if declared.isdigit() and int(declared) > most:
            raise HTTPException(413, too_large)
        if whole:  # waiting for the client to disconnect
            return await receive()
        try:
            async with asyncio.timeout(began + patience + size / _SLOWEST - time.monotonic()):
                message = await receive()
        except TimeoutError as error:
            raise HTTPException(408, headers={"Connection": "close"}) from error
        size += len(message.get("body", b""))
        whole = not message.get("more_body", False)
        if size > most:
            raise HTTPException(413, too_large)
        return message

    return received


class TrustedHost:
    """Refuses requests for other host names, and those from browser pages whose origin is neither its own nor in
    `origins`: this prevents DNS rebinding.

    `hosts` are accepted besides localhost's names; `*` accepts all. A server that listens on all interfaces accepts any
    IP address.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str], origins: Sequence[str]) -> None:
        self._app = app
        self._names = {name.lower() for name in (*_LOOPBACK, *hosts)}
        self._anywhere = "*" in hosts
        self._everywhere = not self._names.isdisjoint(_WILDCARDS)
        self._origins = frozenset(origins)
        self._logged = set[str]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        refusal = None if scope["type"] == "lifespan" else self._refusal(scope)
        if refusal is not None and refusal.status in (403, 421):
            self._log(str(refusal))
        await (self._app if refusal is None else answer_of(refusal))(scope, receive, send)

    def _refusal(self, scope: Scope) -> ApiError | None:
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if len(hosts := headers.getlist("host")) > 1 or (not hosts and scope["http_version"] == "1.1"):
            return ApiError(400, f"HTTP/1.1 requires exactly one 'Host' header, but {len(hosts) or 'none'} were sent.")
        if host and not (self._anywhere or self._is_named(host)):
            return ApiError(421, f"This server is not known as '{host[:100]}' (see retinue serve --allow-host).")
        if origin is not None and not (self._origins & {origin, "*"} or self._is_own(origin, host)):
            return ApiError(403, f"Pages of '{origin[:100]}' may not use this server (see retinue serve --cors).")
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:  # no id contains NUL, and no database accepts it
            return ApiError(404, f"Invalid URL ({scope.get('method', 'GET')} {scope['path']})", code="unknown_url")
        return None

    def _log(self, refusal: str) -> None:
        """Log a refusal once: a page cannot read it, and whoever runs the server has to allow it."""
        if refusal not in self._logged and len(self._logged) < _LOGGED:
            self._logged.add(refusal)
            logger.warning("refused: %s", refusal.encode("ascii", "backslashreplace").decode())

    def _is_named(self, host: str) -> bool:
        name, colon, port = host.lower().rpartition(":")
        if not colon or not port.isdigit():
            name = host.lower()
        return name in self._names or (self._everywhere and _is_address(name))

    def _is_own(self, origin: str, host: str) -> bool:
        """Whether a page is this server's: the studio's. A name that only `*` admits may be anybody's."""
        scheme, _, netloc = origin.lower().partition("://")
        return scheme in ("http", "https") and bool(host) and netloc == host.lower() and self._is_named(host)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
