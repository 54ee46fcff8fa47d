"""How a server is reached: its address, the proxy before it, and the connections that are kept to it."""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ssl import SSLContext
from urllib.parse import quote, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from .connections import Connection
from .settings import TimeLimits

_KEPT = 3.0  # seconds; servers drop idle connections after 5 (llama.cpp, uvicorn, Node): be gone before them
_HAPPY_EYEBALLS = 0.25  # seconds until the next address is tried beside the first (RFC 8305)
_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[\w.:%-]+", re.ASCII)
_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")
_AS_IT_IS = "/%:@!$&'()*+,;=~?"  # what `quote` leaves alone in a path or a query


class CannotConnectError(Exception):
    """There is no connection to be had; `reason` says why."""

    def __init__(self, reason: OSError) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Connections:
    """The connections of the running event loop to one server. `context` is called where TLS is wanted."""

    def __init__(self, way: Route, limits: TimeLimits, context: Callable[[], SSLContext]) -> None:
        self._loop = asyncio.get_running_loop()
        self.way = way
        self._limits = limits
        self._context = context
        self._open: set[Connection] = set()
        self._resting: list[Connection] = []  # that of the longest rest first
        self._closed = False

    async def ask(self, request: bytes) -> Connection:
        """Send the request and wait for the head of its answer; give the connection back with `done`.

        Sent once more if the server had hung up a connection that was kept. Raises `CannotConnectError`,
        and `OSError` if no answer comes.
        """
        until = self._loop.time() + self._limits.total
        kept = self._kept()
        if kept is not None:
            try:
                return await self._asked(kept, request, until)
            except ConnectionError:
                if kept.heard:
                    raise
        return await self._asked(await self._connected(until), request, until)

    def done(self, connection: Connection) -> None:
        """Keep the connection, or close it if it is good for nothing more."""
        if connection.rest() and not self._closed:
            self._resting.append(connection)
        else:
            self._close(connection)

    def close(self) -> None:
        """Close them all."""
        self._closed = True
        for connection in tuple(self._open):
            self._close(connection)

    def _close(self, connection: Connection) -> None:
        self._open.discard(connection)
        connection.close()

    def _kept(self) -> Connection | None:
        """The connection that was used last, unless it is too old."""
        while self._resting and self._resting[0].rested < self._loop.time() - _KEPT:
            self._close(self._resting.pop(0))
        while self._resting:
            connection = self._resting.pop()
            if connection.is_open:
                return connection
            self._close(connection)
        return None

    async def _asked(self, connection: Connection, request: bytes, until: float) -> Connection:
        try:
            connection.send(request, self._limits.idle, until)
            await connection.head()
        except BaseException:
            self._close(connection)
            raise
        return connection

    async def _connected(self, until: float) -> Connection:
        until = min(until, self._loop.time() + self._limits.connect)
        first = self.way.proxy or self.way.server
        try:
            async with asyncio.timeout_at(until):
                _, connection = await self._loop.create_connection(
                    lambda: Connection(self._loop),
                    first.host,
                    first.port,
                    ssl=self._context() if first.scheme == "https" else None,
                    happy_eyeballs_delay=_HAPPY_EYEBALLS,
                )
                self._open.add(connection)
                if self.way.tunnelled:
                    await self._tunnel(connection, until)
                return connection
        except TimeoutError:
            raise
        except OSError as error:
            raise CannotConnectError(error) from error

    async def _tunnel(self, connection: Connection, until: float) -> None:
        await self._asked(connection, self.way.connect(), until)
        try:
            if connection.status != 200:
                raise ConnectionError(f"the proxy answered {connection.status}")
            await connection.secure(self._context(), self.way.server.host)
        except BaseException:
            self._close(connection)
            raise


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server or a proxy listens. `host` is in ASCII, an IPv6 address without its brackets."""

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """Host and port as `CONNECT` wants them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def name(self) -> str:
        """Host and port as the header `Host` has them: without the port that everybody expects."""
        return self.authority.removesuffix(f":{_PORTS[self.scheme]}")


@dataclass(frozen=True, slots=True)
class Route:
    """The way to a server; `login` is the proxy's `Proxy-Authorization`, if it wants one."""

    server: Address
    proxy: Address | None = None
    login: str = ""

    @property
    def tunnelled(self) -> bool:
        """Whether the proxy only passes bytes on."""
        return self.proxy is not None and self.server.scheme == "https"

    def head(self, method: str, url: str, headers: Mapping[str, str]) -> bytes:
        """The head of a request for `url`, but its last line. Raises `ValueError` if that cannot be written."""
        target = _target(url)
        given = {"Host": self.server.name} | dict(headers)
        if self.proxy is not None and not self.tunnelled:
            target = f"http://{self.server.name}{target}"
            given |= {"Proxy-Authorization": self.login} if self.login else {}
        return _head(f"{method} {target}", given)

    def connect(self) -> bytes:
        """The request for a tunnel."""
        login = {"Proxy-Authorization": self.login} if self.login else {}
        return _head(f"CONNECT {self.server.authority}", {"Host": self.server.authority} | login) + b"\r\n"


def route(url: str) -> Route:
    """The way to the server at `url`, by the proxy that HTTPS_PROXY and the like name for it, if any does;
    by none to one on this machine. Raises `ValueError` if `url` is no address of a server."""
    server = _address(url)
    if urlsplit(url).username is not None:
        raise ValueError("an address with a user in it")
    if server.host in _THIS_MACHINE or proxy_bypass(server.host):
        return Route(server)
    proxies = getproxies()
    proxy = proxies.get(server.scheme) or proxies.get("all", "")
    if not proxy:
        return Route(server)
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    parts = urlsplit(proxy)
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else ""
    return Route(server, _address(proxy), f"Basic {b64encode(login.encode()).decode()}" if login else "")


def _address(url: str) -> Address:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if ":" not in host:
        host = host.encode("idna").decode()  # which raises a ValueError, too
    if parts.scheme not in _PORTS or not _HOST.fullmatch(host):
        raise ValueError(f"no address: {url!r}")
    return Address(parts.scheme, host, _PORTS[parts.scheme] if parts.port is None else parts.port)


def _target(url: str) -> str:
    """The path and the query of `url`, without its `..`."""
    parts = urlsplit(url)
    kept: list[str] = []
    for part in parts.path.split("/"):
        if part != "..":
            kept.append(part)
        elif len(kept) > 1:
            kept.pop()
    target = quote("/".join(kept) or "/", _AS_IT_IS)
    return f"{target}?{quote(parts.query, _AS_IT_IS)}" if parts.query else target


def _head(start: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"{start} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "".join(f"{line}\r\n" for line in lines).encode()
