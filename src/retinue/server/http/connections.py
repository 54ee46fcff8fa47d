"""The socket at which a server listens.

Closes idle connections, and connections beyond the limits per address and of all, so that they do not shut out
others.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from ...errors import UsageError
from .request_body import MAX_OTHER_BYTES

BACKLOG = 2_048  # connections that may wait


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


HEADERS = 20.0  # seconds from connecting, or from a request's first byte, to the end of its headers


_MOST_OPEN = 65_536  # file descriptors that a process asks for
ACCEPTED = 32
"""Connections that are accepted in one turn of the event loop: all of them take a descriptor before one is counted."""
_RESERVED = 0.25  # of them, for the database, files and other servers


def raise_descriptor_limit() -> int:
    """Raise the limit of open files, as far as this process may. Return how many of them connections may take."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return _MOST_OPEN
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_OPEN if hard == resource.RLIM_INFINITY else min(hard, _MOST_OPEN)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    most = _MOST_OPEN if soft == resource.RLIM_INFINITY else min(soft, _MOST_OPEN)
    return max(1, most - max(5 * ACCEPTED, int(_RESERVED * most)))


def connections(most: int, seconds: float = HEADERS) -> Any:
    """Return uvicorn's HTTP protocol with a timeout of `seconds` for headers, at most `most` connections per address,
    and as many of all addresses as there are file descriptors for them."""
    return partial(_Bounded, _Places(most, raise_descriptor_limit()), seconds)


class _Places:
    """The open connections by address. `most` may be open of one address, and `total` of all."""

    def __init__(self, most: int, total: int) -> None:
        self._most = most
        self._total = total
        self._number = 0
        self._there: Counter[str] = Counter()
        self._idle: dict[str, dict[_Bounded, None]] = {}  # without a request, the longest idle first

    def take(self, address: str) -> bool:
        """Count one more connection. Return whether there is room for it: if not, the address that has most of them
        loses one that has no request."""
        self._number += 1
        self._there[address] += 1
        if self._there[address] > self._most:
            return False
        return self._number <= self._total or self._close_one()

    def leave(self, address: str) -> None:
        """Count one less."""
        self._number -= 1
        self._there[address] -= 1
        if not self._there[address]:
            del self._there[address]

    def rests(self, address: str, connection: _Bounded) -> None:
        """Note that a connection has no request."""
        self._idle.setdefault(address, {})[connection] = None

    def works(self, address: str, connection: _Bounded) -> None:
        """Note that a connection has a request, or is closed."""
        idle = self._idle.get(address, {})
        idle.pop(connection, None)
        if not idle:
            self._idle.pop(address, None)

    def _close_one(self) -> bool:
        if not self._idle:
            return False
        address = max(self._idle, key=lambda one: len(self._idle[one]))
        connection = next(iter(self._idle[address]))
        connection.transport.abort()
        self.works(connection.address, connection)
        return True


class _Socket(WebSocketsSansIOProtocol):
    lost: Callable[[], None] = staticmethod(lambda: None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost()
        super().connection_lost(exc)

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body":  # refused, which is not an error
            self.handshake_complete = True


SOCKETS: dict[str, Any] = {"ws": _Socket, "ws_max_size": MAX_OTHER_BYTES, "ws_per_message_deflate": False}
"""uvicorn's WebSocket options: messages are limited like bodies, and uncompressed, so that the limit is exact."""


class _Bounded(HttpToolsProtocol):
    def __init__(self, places: _Places, seconds: float, **more: Any) -> None:
        super().__init__(**more)
        self.address = ""
        self._places = places
        self._seconds = seconds
        self._ending: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = (self.client or ("",))[0]
        if self._places.take(self.address):
            self._wait()
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        super().handle_websocket_upgrade()
        protocol = self.transport.get_protocol()
        assert isinstance(protocol, _Socket)
        protocol.lost = self._leave  # the WebSocket protocol sees the disconnect, not this one

    def _leave(self) -> None:
        self._come()
        self._places.leave(self.address)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._ending is None:
            self._wait()

    def on_headers_complete(self) -> None:
        self._come()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing() and (self.cycle is None or self.cycle.response_complete):
            self._places.rests(self.address, self)

    def _wait(self) -> None:
        self._places.rests(self.address, self)
        self._ending = self.loop.call_later(self._seconds, self.transport.abort)

    def _come(self) -> None:
        self._places.works(self.address, self)
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
