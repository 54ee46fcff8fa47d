"""The socket at which a server listens, and limits on its connections: idle ones, and those beyond the limits per
address and of all, are closed, so that they do not shut out others."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import Counter
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ...errors import UsageError
from .request_body import MAX_OTHER_BYTES

BACKLOG = 2_048  # connections that may wait
ACCEPTED = 32
"""Connections that are accepted in one turn of the event loop: all of them take a descriptor before one is counted."""
HEADERS = 20.0  # seconds from connecting, or from a request's first byte, to the end of its headers
SOCKETS: dict[str, Any] = {
    "ws": "websockets-sansio",
    "ws_max_size": MAX_OTHER_BYTES,
    "ws_per_message_deflate": False,
}
"""uvicorn's WebSocket options: messages are limited like bodies, and uncompressed, so that the limit is exact."""
_MOST_OPEN = 65_536  # file descriptors that a process asks for
_RESERVED = 0.25  # of them, for the database, files and other servers
_CONNECTION = "connection"  # the key of a connection in the state of its requests


def listen(host: str, port: int, option: str = "--port") -> socket.socket:
    """Return a listening socket (port 0: any free port). Raises `UsageError` if that fails; `option` is what says the
    port."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = socket.create_server(address[:2], family=family, backlog=BACKLOG)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio sets it only on its own sockets
        return listening
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno == errno.EADDRINUSE:
            reason = f"the port is in use; give another with {option} (0: any that is free)"
        raise UsageError(f"cannot listen on {host}:{port}: {reason}") from error


def url_of(host: str, listening: socket.socket) -> str:
    """Return the address of a server that listens at a socket of `host`."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listening.getsockname()[1]}"


def raise_descriptor_limit() -> int:
    """Raise the limit of open files, as far as this process may. Return how many of them connections may take."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return _MOST_OPEN
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_OPEN if hard == resource.RLIM_INFINITY else min(hard, _MOST_OPEN)
    if soft != resource.RLIM_INFINITY and soft < most:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        except (OSError, ValueError):
            most = soft
    return max(1, most - max(5 * ACCEPTED, int(_RESERVED * most)))


class Connections:
    """The open connections of a server. One address may have `each`, and all together as many as there are file
    descriptors for them: for one more, the address that has most without a request loses the longest idle of these.
    Headers must arrive within `seconds`.

    uvicorn bounds neither, but takes the protocol of a connection as an option (`protocol`). Which connections have a
    request is known by the application (`watch`).
    """

    def __init__(self, each: int, seconds: float = HEADERS) -> None:
        self.seconds = seconds
        self._each = each
        self._total = raise_descriptor_limit()
        self._open: Counter[str] = Counter()  # by address
        self._idle: dict[str, dict[_Connection, None]] = {}  # without a request, by address, the longest idle first

    def protocol(self, **given: Any) -> asyncio.Protocol:
        """Return the protocol of a new connection, given what uvicorn gives its own."""
        return _Connection(self, given)

    def watch(self, app: ASGIApp) -> ASGIApp:
        """Return `app`, which says of its connections when they have a request."""

        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            connection: _Connection = scope["state"].pop(_CONNECTION)
            connection.set_idle(is_idle=False)
            try:
                await app(scope, receive, send)
            finally:
                if scope["type"] == "websocket":
                    connection.leave()
                else:
                    connection.set_idle(is_idle=True)

        return watched

    def add(self, connection: _Connection) -> bool:
        """Count one more. Return whether there is room for it."""
        self._open[connection.address] += 1
        if self._open[connection.address] > self._each:
            return False
        if self._open.total() > self._total:
            if not self._idle:
                return False
            address = max(self._idle, key=lambda one: len(self._idle[one]))
            next(iter(self._idle[address])).close()
        return True

    def set_idle(self, connection: _Connection, *, is_idle: bool) -> None:
        """Note whether a connection has no request."""
        there = self._idle.setdefault(connection.address, {})
        if is_idle:
            there[connection] = None
        else:
            there.pop(connection, None)
        if not there:
            del self._idle[connection.address]

    def remove(self, connection: _Connection) -> None:
        """Count one less."""
        self.set_idle(connection, is_idle=False)
        self._open[connection.address] -= 1
        if not self._open[connection.address]:
            del self._open[connection.address]


class _Connection(asyncio.Protocol):
    """A connection: uvicorn's protocol, with a place among the open ones and a timeout for headers."""

    def __init__(self, those: Connections, given: dict[str, Any]) -> None:
        self.address = ""
        self._those = those
        self._protocol = HttpToolsProtocol(**given | {"app_state": {**given["app_state"], _CONNECTION: self}})
        self._timer: asyncio.TimerHandle | None = None  # while headers are awaited
        self._is_idle = True
        self._is_open = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.address = (transport.get_extra_info("peername") or ("",))[0]
        self._protocol.connection_made(transport)
        if self._those.add(self):
            self.set_idle(is_idle=True)
            self._await_headers()
        else:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._is_idle and self._timer is None:
            self._await_headers()
        self._protocol.data_received(data)

    def eof_received(self) -> None:
        self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self.leave()
        self._protocol.connection_lost(exc)

    def close(self) -> None:
        """End the connection at once."""
        self._transport.abort()
        self.leave()  # a WebSocket's protocol, which takes over the transport, does not say when that is lost

    def set_idle(self, *, is_idle: bool) -> None:
        """Note whether there is no request: the headers of one have arrived, or it is over."""
        self._is_idle = is_idle
        if self._is_open:
            self._those.set_idle(self, is_idle=is_idle)
        if not is_idle:
            self._stop_timer()

    def leave(self) -> None:
        """Give the place to others."""
        self._stop_timer()
        if self._is_open:
            self._is_open = False
            self._those.remove(self)

    def _await_headers(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._those.seconds, self.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
