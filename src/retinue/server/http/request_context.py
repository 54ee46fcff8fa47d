"""The outermost layers of a request: its id, its time, its line in the access log, an answer to what went wrong, and a
limit on the size and speed of its body; and whether its host and origin may be served at all."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import count

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...core.run_context import TRACE_HEADER, RunContext, TraceParent, current_run, run_context
from ...errors import StoreUnavailable
from ..log_output import ACCESS
from .api_errors import ApiError, ErrorResponse, answer_of
from .objects import new_id
from .request_body import max_body_bytes

logger = logging.getLogger(__name__)
PATIENCE = 30.0  # seconds for a body, plus one per _SLOWEST bytes received
_SLOWEST = 10_000
_LEFT = 499  # as in nginx: the client disconnected before the response
_LOGGED = 100  # origins and hosts whose refusal is logged
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_WILDCARDS = ("0.0.0.0", "[::]", "::", "")
_SERIES = new_id("req")[:-8]  # per process: request ids must be unique, but need not be secret
_numbers = count()
_CLIENT_ID = re.compile(r"[A-Za-z0-9_.:/=+-]{1,128}")


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
        state, answer = scope.setdefault("state", {}), _Answer(scope, send)
        state["request_id"] = answer.request_id
        state.setdefault("heads", [])
        with run_context(_context_of(scope, answer.request_id)):
            try:
                await self._app(without_slash(scope), _limit_body(scope, receive, self._patience), answer.send)
            except (Exception, asyncio.CancelledError) as error:
                state["heads"].clear()  # those layers were left
                if (response := answer.end(error)) is not None:
                    await response(scope, receive, answer.send)
            finally:
                answer.log()


class _Answer:
    """The response to a request: its status is 0 until it is sent."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self.request_id = f"{_SERIES}{next(_numbers):08x}"
        self._scope = scope
        self._send = send
        self._began = time.perf_counter()
        self._status = self._size = 0
        self._is_explained = False  # what went wrong was logged

    @property
    def _milliseconds(self) -> int:
        return int((time.perf_counter() - self._began) * 1000)

    async def send(self, message: Message) -> None:
        """Send the next message of the response."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            for see in reversed(self._scope["state"]["heads"]):
                see(message)
            headers = MutableHeaders(scope=message)
            headers["x-request-id"] = self.request_id
            headers["openai-processing-ms"] = str(self._milliseconds)
            headers["openai-version"] = "2020-10-01"
        else:
            self._size += len(message.get("body", b""))
        await self._send(message)

    def end(self, error: Exception | asyncio.CancelledError) -> ErrorResponse | None:
        """Return the response to a request that ended with `error`. It is `None` for one that was already answered, in
        part: its connection is closed, so that the client notices."""
        method, path = self._scope["method"], self._scope["path"]
        if isinstance(error, ClientDisconnect):
            logger.info("%s %s: the client disconnected before the end of the request or response", method, path)
            self._status = self._status or _LEFT
        elif isinstance(error, asyncio.CancelledError):  # the server is stopping; readers see that a stream is cut
            goes_on = " What your request began goes on." if self._scope["state"].get("wrote") else ""
            error = ApiError(503, f"The server is stopping.{goes_on}", kind="server_error")
        elif self._status or not isinstance(error, StoreUnavailable):
            self._is_explained = True
            logger.exception("%s %s failed", method, path, exc_info=error)
        return None if self._status else answer_of(error)

    def log(self) -> None:
        """Log a finished request: server errors with their cause, and every request in the access log."""
        state, method, path = self._scope["state"], self._scope["method"], self._scope["path"]
        if self._status >= 500 and not self._is_explained:
            level = logging.ERROR if self._status == 500 else logging.WARNING
            cause = state.get("cause", "unknown cause")
            logger.log(level, "%s %s was answered with %d: %s", method, path, self._status, cause)
        if not ACCESS.isEnabledFor(logging.INFO):
            return
        here, key = current_run(), state.get("key")
        given = {"client_request": here.client_request, "trace": here.client_trace}
        fields = {
            "request": self.request_id,
            **{name: value for name, value in given.items() if value},
            "client": (self._scope.get("client") or ("",))[0],
            "method": method,
            "path": path,
            "status": self._status,
            "bytes": self._size,
            "ms": self._milliseconds,
            "tenant": getattr(key, "tenant", ""),
            "key": getattr(key, "id", None) or "",
        }
        ACCESS.info("%s %s %d", method, path, self._status, extra={"fields": fields})


def without_slash(scope: Scope) -> Scope:
    """Strip the trailing slash from the path, which RFC 003 uses in places. Frameworks redirect instead, which loses
    the body."""
    if len(scope["path"]) < 2 or not scope["path"].endswith("/"):
        return scope
    raw = scope.get("raw_path") or b""
    return {**scope, "path": scope["path"][:-1], "raw_path": raw.removesuffix(b"/")}


def _context_of(scope: Scope, request_id: str) -> RunContext:
    headers = Headers(scope=scope)
    known = headers.get("x-client-request-id") or headers.get("x-request-id", "")
    caller = TraceParent.parse(headers.getlist(TRACE_HEADER)) if TRACE_HEADER in headers else None
    return RunContext(
        request=request_id,
        client_request=known if _CLIENT_ID.fullmatch(known) else "",
        client_trace="" if caller is None else caller.trace_id.hex(),
    )


def _limit_body(scope: Scope, receive: Receive, patience: float) -> Receive:
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

    `hosts` are accepted besides localhost's names; `*` accepts all, and `None` leaves it to an application around this
    one, which knows its names. A server that listens on all interfaces accepts any
    IP address.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str] | None, origins: Sequence[str]) -> None:
        self._app = app
        self._is_mounted = hosts is None
        self._names = {name.lower() for name in (*_LOOPBACK, *(hosts or ()))}
        self._anywhere = self._is_mounted or "*" in (hosts or ())
        self._everywhere = not self._names.isdisjoint(_WILDCARDS)
        self._origins = frozenset(origins)
        self._logged = set[str]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        refusal = None if scope["type"] == "lifespan" else self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, send)
            return
        said = str(refusal)
        if refusal.status in (403, 421) and said not in self._logged and len(self._logged) < _LOGGED:
            self._logged.add(said)  # once: a page cannot read it, and whoever runs the server has to allow it
            logger.warning("refused: %s", said.encode("ascii", "backslashreplace").decode())
        await answer_of(refusal)(scope, receive, send)

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

    def _is_named(self, host: str) -> bool:
        name, colon, port = host.lower().rpartition(":")
        if not colon or not port.isdigit():
            name = host.lower()
        if name in self._names:
            return True
        with suppress(ValueError):
            return self._everywhere and bool(ipaddress.ip_address(name.strip("[]")))
        return False

    def _is_own(self, origin: str, host: str) -> bool:
        """Whether a page is this server's: the studio's. A name that only `*` admits may be anybody's."""
        scheme, _, netloc = origin.lower().partition("://")
        return (
            scheme in ("http", "https")
            and bool(host)
            and netloc == host.lower()
            and (self._is_mounted or self._is_named(host))
        )
