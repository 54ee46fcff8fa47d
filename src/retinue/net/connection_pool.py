"""Connections to a server: the route to it, directly or through a proxy, a pool of idle connections, and single
requests."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, zip_longest
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from ..errors import UsageError
from .http1 import Connection, UnreadableAnswerError
from .retry import TimeLimits
from .url_policy import PORTS, WebAddress, quote_path

_HOST = re.compile(r"[\w.:%-]+", re.ASCII)
_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")
_KEPT = 3.0  # seconds; shorter than the 5 after which servers drop idle connections (llama.cpp, uvicorn, Node)
_NEXT = 0.25  # seconds before the next address is tried in parallel


class CannotConnectError(Exception):
    """No connection could be established; `reason` says why."""

    def __init__(self, reason: OSError) -> None:
        super().__init__(str(reason))
        self.reason = reason


class ConnectTimeoutError(TimeoutError):
    """No connection was established in time."""


class TooLargeError(Exception):
    """A body has more than `most` bytes."""

    def __init__(self, most: int) -> None:
        super().__init__(f"the response has more than {most:,} bytes")
        self.most = most


FAILURES = (OSError, CannotConnectError)
"""What is raised if a request gets no response, or only the beginning of one."""

# ── routes ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Route:
    """The route to a server; `login` is the `Proxy-Authorization`, if required.

    `ips`: the addresses that a connection goes to, for a server whose name has been looked up and checked.
    """

    server: WebAddress
    proxy: WebAddress | None = None
    login: str = ""
    ips: Sequence[str] = ()

    @property
    def first(self) -> WebAddress:
        """The server that a connection is made to."""
        return self.proxy or self.server

    @property
    def tunnelled(self) -> bool:
        """Whether the proxy only forwards bytes."""
        return self.proxy is not None and self.server.scheme == "https"

    def request(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None) -> bytes:
        """Return a request for `url`. Raises `ValueError` if it cannot be encoded."""
        parts = urlsplit(url)
        kept: list[str] = []
        for part in parts.path.split("/"):  # `..` is resolved
            if part != "..":
                kept.append(part)
            elif len(kept) > 1:
                kept.pop()
        target = quote_path("/".join(kept) or "/") + (f"?{quote_path(parts.query)}" if parts.query else "")
        given = {"Host": self.server.name} | dict(headers)
        if self.proxy is not None and not self.tunnelled:
            target = f"http://{self.server.name}{target}"
            given |= {"Proxy-Authorization": self.login} if self.login else {}
        if body is not None:
            given["Content-Length"] = str(len(body))
        return _write_head(f"{method} {target}", given) + (body or b"")

    def connect(self) -> bytes:
        """Return the request for a tunnel."""
        login = {"Proxy-Authorization": self.login} if self.login else {}
        return _write_head(f"CONNECT {self.server.authority}", {"Host": self.server.authority} | login)


def _write_head(start: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"{start} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode()


def route(url: str) -> Route:
    """Return the route to the server at `url`, by the proxy from HTTPS_PROXY or similar; local servers need none.

    Raises `ValueError` if `url` is not a server address, and `UsageError` if the proxy's is not.
    """
    server = read_address(url)
    if urlsplit(url).username is not None:
        raise ValueError("an address with a user in it")
    if server.host in _THIS_MACHINE or proxy_bypass(server.host):
        return Route(server)
    proxies = getproxies()
    proxy = proxies.get(server.scheme) or proxies.get("all", "")
    if not proxy:
        return Route(server)
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    try:
        return Route(server, read_address(proxy), encode_basic_login(proxy))
    except ValueError as error:
        shown = re.sub("//[^/]*@", "//***@", proxy)
        raise UsageError(f"the environment names the proxy {shown!r}; want one of http://host:port") from error


def encode_basic_login(url: str) -> str:
    """Return the value of a header for the user and the password in `url`; empty if it has none."""
    parts = urlsplit(url)
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else ""
    return f"Basic {b64encode(login.encode()).decode()}" if login else ""


def read_address(url: str) -> WebAddress:
    """Return the address of the server in `url`. Raises `ValueError`."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if ":" not in host:
        host = host.encode("idna").decode()  # raises a ValueError, too
    if parts.scheme not in PORTS or not _HOST.fullmatch(host):
        raise ValueError(f"not an address: {url!r}")
    return WebAddress(parts.scheme, host, PORTS[parts.scheme] if parts.port is None else parts.port)


# ── connections ───────────────────────────────────────────────────────────────────────────────────


class ConnectionPool:
    """Connections to one server, which one event loop uses. `context` is called if TLS is needed.

    Without `resends`, each request has a connection of its own and is sent once, since nobody knows whether a server
    that closes an idle connection has read the request before.
    """

    def __init__(
        self,
        way: Route,
        limits: TimeLimits,
        context: Callable[[], ssl.SSLContext],
        *,
        resends: bool = True,
    ) -> None:
        self.way = way
        self._limits = limits
        self._context = context
        self._open: set[Connection] = set()
        self._resting: list[Connection] = []  # longest idle first
        self._closed = False
        self._resends = resends

    async def ask(self, request: bytes) -> Connection:
        """Send the request and wait for the response head; return the connection with `release`.

        If the server had closed an idle connection, the request is sent once more on a new one. Raises
        `CannotConnectError`, and `OSError` if there is no response.
        """
        now = asyncio.get_running_loop().time()
        until = now + self._limits.total
        kept = self._take_idle(now)
        while True:
            connection = kept or await self._connect(until)
            try:
                connection.send(request, self._limits.idle, until)
                if kept is None:  # it is not sent again
                    request = b""
                await connection.read_head()
                return connection
            except BaseException as error:
                self._close(connection)
                if kept is None or kept.heard or not isinstance(error, ConnectionError):
                    raise
            kept = None

    def release(self, connection: Connection) -> None:
        """Return the connection to the pool, or close it if it cannot be reused."""
        if connection.release() and self._resends and not self._closed:
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

    def _take_idle(self, now: float) -> Connection | None:
        """Return the most recently used idle connection that is still usable."""
        while self._resting and self._resting[0].rested < now - _KEPT:
            self._close(self._resting.pop(0))
        while self._resting:
            connection = self._resting.pop()
            if connection.is_open:
                return connection
            self._close(connection)
        return None

    async def _connect(self, until: float) -> Connection:
        """Return a new connection; by a proxy to a server with TLS, through a tunnel."""
        loop, first = asyncio.get_running_loop(), self.way.first
        until = min(until, loop.time() + self._limits.connect)
        try:
            async with asyncio.timeout_at(until):
                sock = await connect(self.way.ips or [first.host], first.port)
                tls = first.scheme == "https"
                _, connection = await loop.create_connection(
                    lambda: Connection(loop),
                    sock=sock,
                    ssl=self._context() if tls else None,
                    server_hostname=first.host if tls else None,
                )
                self._open.add(connection)
                if not self.way.tunnelled:
                    return connection
                try:
                    connection.send(self.way.connect(), self._limits.idle, until)
                    await connection.read_head()
                    if connection.status != 200:
                        raise ConnectionError(f"the proxy answered {connection.status}")
                    await connection.secure(self._context(), self.way.server.host)
                except BaseException:
                    self._close(connection)
                    raise
                return connection
        except TimeoutError:
            raise ConnectTimeoutError from None
        except OSError as error:
            raise CannotConnectError(error) from None


@asynccontextmanager
async def open_response(
    way: Route, request: bytes, limits: TimeLimits, *, packed: bool = False
) -> AsyncIterator[Connection]:
    """Send `request` once, on a connection of its own, and yield the response; its head has arrived.

    A body in gzip or deflate is refused unless `packed`. Raises as `ConnectionPool.ask` does.
    """
    pool = ConnectionPool(way, limits, make_default_trust, resends=False)
    try:
        response = await pool.ask(request)
        coding = response.headers.get("content-encoding", "identity").lower()
        if coding != "identity" and not packed:
            raise UnreadableAnswerError(f"unsupported Content-Encoding: {coding[:40]}")
        yield response
    finally:
        pool.close()


async def read_body(response: Connection, most: int, begun: bytes = b"", *, cut: bool = False) -> bytes:
    """Return the body, of which `begun` was read before; if it is to be `cut`, its first `most` bytes.

    Raises `OSError`, and `TooLargeError` for more than `most` bytes, as sent or unpacked.
    """
    body = bytearray(begun)
    while (not cut or len(body) < most) and (piece := await response.read()):
        body += piece
        if not cut and max(len(body), response.received) > most:
            raise TooLargeError(most)
    return bytes(body[:most])


def describe_failure(error: Exception) -> str:
    """Say in a message what a server did that gave no response; `error` is one of `FAILURES`."""
    match error:
        case TimeoutError():
            return "did not answer in time"
        case CannotConnectError():
            return f"cannot be reached: {describe_reason(error.reason)}"
        case UnreadableAnswerError():
            return f"sent what cannot be read: {error}"
    return f"broke off the connection ({type(error).__name__})"


def describe_reason(error: OSError) -> str:
    """Return the system's message; asyncio rewords refused connections and merges several errors."""
    found = re.search(r"\[Errno (\d+)\]", str(error))
    if found and not isinstance(error, ssl.SSLError):
        return os.strerror(int(found[1]))
    return error.strerror or str(error)


def make_default_trust() -> ssl.SSLContext:
    """Return the context for servers whose certificates the system trusts, or those that the environment names."""
    return _make_trust(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@lru_cache(4)  # it takes half a megabyte, and some time
def _make_trust(file: str | None, folder: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


# ── sockets ──────────────────────────────────────────────────────────────────────────────────────


async def connect(hosts: Sequence[str], port: int) -> socket.socket:
    """Return a socket to the first address of `hosts` that accepts a connection. Raises `OSError`.

    IPv4 and IPv6 alternate. The next address is tried when one has failed, or after 0.25 s (RFC 8305, "happy
    eyeballs"). asyncio's own implementation leaks sockets when cancelled.
    """
    found = [one for host in hosts for one in await _find_addresses(host, port)]
    first, other = ([one for one in found if (one[0] == found[0][0]) is same] for same in (True, False))
    waiting = [one for one in chain.from_iterable(zip_longest(first, other)) if one is not None]
    tries: list[asyncio.Task[socket.socket]] = []
    try:
        while True:
            if waiting:
                tries.append(asyncio.create_task(_connect_socket(*waiting.pop(0))))
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
            task.add_done_callback(_close_late)


async def _find_addresses(host: str, port: int) -> list[Any]:
    """Return the results of `getaddrinfo`."""
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)  # does not block
    except socket.gaierror:
        return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


async def _connect_socket(family: int, kind: int, protocol: int, _: str, address: Any) -> socket.socket:
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock


def _close_late(task: asyncio.Task[socket.socket]) -> None:
    """Close the socket of a superfluous attempt."""
    if not task.cancelled() and task.exception() is None:
        task.result().close()
