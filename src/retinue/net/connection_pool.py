"""Connections to a server: sockets, a pool of idle connections, tunnels through proxies."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from itertools import chain, zip_longest
from ssl import SSLContext
from typing import Any

from .http1 import Connection
from .proxy_route import Route
from .time_limits import TimeLimits

_KEPT = 3.0  # seconds; shorter than the 5 after which servers drop idle connections (llama.cpp, uvicorn, Node)
_NEXT = 0.25  # seconds before the next address is tried in parallel


class CannotConnectError(Exception):
    """No connection could be established; `reason` says why."""

    def __init__(self, reason: OSError) -> None:
        super().__init__(str(reason))
        self.reason = reason


class ConnectionPool:
    """The running event loop's connections to one server. `context` is called if TLS is needed.

    Without `resends`, each request has a connection of its own and is sent once, since nobody knows whether a server
    that closes an idle connection has read the request before.
    """

    def __init__(
        self, way: Route, limits: TimeLimits, context: Callable[[], SSLContext], *, resends: bool = True
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.way = way
        self._limits = limits
        self._context = context
        self._open: set[Connection] = set()
        self._resting: list[Connection] = []  # longest idle first
        self._closed = False
        self._resends = resends
        self.heads: dict[tuple[str, str], bytes] = {}  # of earlier requests, by method and path

    async def ask(self, request: bytes) -> Connection:
        """Send the request and wait for the response head; return the connection with `done`.

        If the server had closed an idle connection, the request is sent once more on a new one. Raises
        `CannotConnectError`, and `OSError` if there is no response.
        """
        now = self._loop.time()
        until = now + self._limits.total
        kept = self._kept(now)
        while True:
            connection = kept or await self._fresh(until)
            try:
                connection.send(request, self._limits.idle, until)
                if kept is None:  # it is not sent again
                    request = b""
                await connection.head()
                return connection
            except BaseException as error:
                self._close(connection)
                if kept is None or kept.heard or not isinstance(error, ConnectionError):
                    raise
            kept = None

    def done(self, connection: Connection) -> None:
        """Return the connection to the pool, or close it if it cannot be reused."""
        if connection.rest() and self._resends and not self._closed:
            self._resting.append(connection)
        else:
            self._close(connection)

    def close(self) -> None:
        """Close all connections."""
        self._closed = True
        for connection in tuple(self._open):
            self._close(connection)

    def _close(self, connection: Connection) -> None:
        self._open.discard(connection)
        connection.close()

    def _kept(self, now: float) -> Connection | None:
        """Return the most recently used idle connection that is still usable."""
        while self._resting and self._resting[0].rested < now - _KEPT:
            self._close(self._resting.pop(0))
        while self._resting:
            connection = self._resting.pop()
            if connection.is_open:
                return connection
            self._close(connection)
        return None

    async def _fresh(self, until: float) -> Connection:
        until = min(until, self._loop.time() + self._limits.connect)
        first = self.way.proxy or self.way.server
        try:
            async with asyncio.timeout_at(until):
                sock = await connect(first.host, first.port)
                tls: dict[str, Any] = (
                    {"ssl": self._context(), "server_hostname": first.host} if first.scheme == "https" else {}
                )
                _, connection = await self._loop.create_connection(lambda: Connection(self._loop), sock=sock, **tls)
                self._open.add(connection)
                if self.way.tunnelled:
                    await self._tunnel(connection, until)
                return connection
        except TimeoutError:
            raise
        except OSError as error:
            raise CannotConnectError(error) from None

    async def _tunnel(self, connection: Connection, until: float) -> None:
        try:
            connection.send(self.way.connect(), self._limits.idle, until)
            await connection.head()
            if connection.status != 200:
                raise ConnectionError(f"the proxy answered {connection.status}")
            await connection.secure(self._context(), self.way.server.host)
        except BaseException:
            self._close(connection)
            raise


# ── sockets ──────────────────────────────────────────────────────────────────────────────────────


async def connect(host: str, port: int) -> socket.socket:
    """Return a socket to the first address of `host` that accepts a connection. Raises `OSError`.

    The next address is tried when one has failed, or after 0.25 s (RFC 8305, "happy eyeballs"). asyncio's own
    implementation leaks sockets when cancelled.
    """
    waiting = await _addresses(host, port)
    tries: list[asyncio.Task[socket.socket]] = []
    try:
        while True:
            if waiting:
                tries.append(asyncio.create_task(_socket(*waiting.pop(0))))
            going = [task for task in tries if not task.done()]
            done, _ = await asyncio.wait(going, timeout=_NEXT if waiting else None, return_when=asyncio.FIRST_COMPLETED)
            if (there := next((task for task in done if task.exception() is None), None)) is not None:
                tries.remove(there)
                return there.result()
            if not waiting and all(task.done() for task in tries):
                return tries[0].result()  # raises the first one's error
    finally:
        for task in tries:
            task.cancel()
            task.add_done_callback(_let_go)


async def _addresses(host: str, port: int) -> list[Any]:
    """Return the results of `getaddrinfo`, alternating between address families."""
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)  # does not block
    except socket.gaierror:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    first = [one for one in found if one[0] == found[0][0]]
    other = [one for one in found if one[0] != found[0][0]]
    return [one for one in chain.from_iterable(zip_longest(first, other)) if one is not None]


async def _socket(family: int, kind: int, protocol: int, _: str, address: Any) -> socket.socket:
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock


def _let_go(task: asyncio.Task[socket.socket]) -> None:
    """Close the socket of a superfluous attempt."""
    if not task.cancelled() and task.exception() is None:
        task.result().close()
