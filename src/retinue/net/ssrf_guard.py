"""SSRF guard: fetches untrusted URLs, which come from a model, a page, a search or a redirect.

Each URL is parsed strictly, resolved once, and fetched only if all its addresses are public; the connection goes to
exactly those. Each redirect starts over. Services that the operator configured do not pass through here. Private
servers that should be reachable are listed in `allow`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import zlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any, cast
from urllib.parse import urljoin

from .._internal.concurrency import run_in_thread
from ..errors import ToolError, UsageError
from .url_policy import WebAddress, is_public, parse_url, url_excerpt

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
Check = Callable[[WebAddress], None]  # raises `ToolError`
_HEADERS = {
    "Accept": "text/html, application/xhtml+xml, application/pdf, text/plain, */*;q=0.5",
    "Accept-Encoding": "gzip, deflate",
    "User-Agent": "Mozilla/5.0 (compatible; Retinue)",
}
_PIECE = 65_536
_PACKED = ("gzip", "x-gzip", "deflate")
_EITHER, _BARE = 47, -15  # zlib's window bits: detect gzip or zlib; raw deflate, as some servers send


async def resolve_host(host: str, port: int) -> list[str]:
    """Resolve a name to IP addresses. Raises `OSError`."""
    found = await run_in_thread(partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM))
    return [str(information[4][0]) for information in found]


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """A fetched page: `url` is the final one after redirects, `charset` the server's declaration, if any.

    `status` is 2xx, unless the guard was told to return any.
    """

    url: str
    data: bytes
    media_type: str = ""
    charset: str = ""
    status: int = 200


@dataclass(frozen=True, slots=True)
class SsrfGuard:
    """Fetches public pages only. Uses no proxy, no cookies and nothing from the environment.

    Raises `UsageError` for invalid `allow` entries, and without the extra `web`.

    Args:
        allow: Servers that may be private, each as `host:port`.
        ports: Ports permitted on other servers.
        seconds: Time limit for the whole request.
        max_bytes: Size limit, both as sent and decompressed.
        max_hops: Number of redirects.
        resolve: Resolves a host name.
        any_status: Return pages with any status, instead of raising.
    """

    allow: tuple[str, ...] = ()
    ports: tuple[int, ...] = (80, 443)
    seconds: float = 10.0
    max_bytes: int = 5_000_000
    max_hops: int = 5
    resolve: Resolve = resolve_host
    any_status: bool = False

    def __post_init__(self) -> None:
        if find_spec("aiohttp") is None:
            raise UsageError("fetching pages needs the extra 'web': pip install 'retinue[web]'")
        for server in self.allow:
            if not _server(server):
                raise UsageError(f"allow: {server!r} is not a server; want host:port, such as intranet.example:443")

    async def get(self, url: str, check: Check | None = None) -> FetchedPage:
        """Fetch the page at `url`. `check` is called before each request, also of a redirect, and may refuse it.

        Raises `ToolError`, whose message says why the page is unavailable.
        """
        import aiohttp

        try:
            async with asyncio.timeout(self.seconds):
                return await self._follow(parse_url(url), check)
        except TimeoutError:
            problem = f"did not answer within {self.seconds:g} seconds"
        except (aiohttp.ClientError, OSError, ValueError, zlib.error) as error:
            problem = _reason(error)
        raise ToolError(f"{url_excerpt(url)}: {problem}")

    async def addresses(self, url: str) -> tuple[WebAddress, Sequence[str]]:
        """Return the address in `url`, and the IP addresses that a connection to it may go to. Raises `ToolError`."""
        address = parse_url(url)
        try:
            return address, await self._allowed(address)
        except OSError as error:
            raise ToolError(f"{url_excerpt(url)}: {_reason(error)}") from error

    def connector(self, ips: Sequence[str]) -> Any:
        """Return a connector of aiohttp that goes to `ips`, whatever the name. Each request needs its own."""
        import aiohttp

        return aiohttp.TCPConnector(resolver=cast(Any, _Known(ips)), use_dns_cache=False, force_close=True)

    async def _follow(self, address: WebAddress, check: Check | None) -> FetchedPage:
        for _ in range(self.max_hops + 1):
            if check is not None:
                check(address)
            answer = await self._ask(address, await self._allowed(address))
            if isinstance(answer, FetchedPage):
                return answer
            address = parse_url(urljoin(str(address), answer))
        raise ToolError(f"{url_excerpt(str(address))}: redirected more than {self.max_hops} times")

    async def _allowed(self, address: WebAddress) -> Sequence[str]:
        """Return the IP addresses from which `address` may be fetched. Raises `ToolError` if it may not be."""
        trusted = _key(address) in map(_server, self.allow)
        if not trusted and address.port not in self.ports:
            raise ToolError(f"{url_excerpt(str(address))}: port {address.port} is not one of the web's")
        if not trusted and address.ip is None and "." not in address.host:
            raise ToolError(f"{url_excerpt(str(address))}: {address.host!r} is no public name")
        if address.ip is not None:
            found: Sequence[str] = [address.host]
        else:
            found = await self.resolve(address.host, address.port)
        if not found or not (trusted or all(map(is_public, found))):
            raise ToolError(f"{url_excerpt(str(address))} is not on the public internet, so it is not fetched")
        return found

    async def _ask(self, address: WebAddress, ips: Sequence[str]) -> FetchedPage | str:
        """Return the page, or the URL that it redirects to."""
        import aiohttp
        from yarl import URL

        async with (
            aiohttp.ClientSession(
                connector=self.connector(ips),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=_HEADERS,
                timeout=aiohttp.ClientTimeout(),
                auto_decompress=False,
                trust_env=False,
            ) as http,
            http.get(URL(str(address), encoded=True), allow_redirects=False) as answer,
        ):
            if answer.status in (301, 302, 303, 307, 308) and "Location" in answer.headers:
                return answer.headers["Location"]
            if not (self.any_status or 200 <= answer.status < 300):
                raise ToolError(f"{url_excerpt(str(address))}: the server answered {answer.status}")
            data = await self._read(answer)
            return FetchedPage(str(address), data, _media_type(answer), answer.charset or "", answer.status)

    async def _read(self, answer: Any) -> bytes:
        coding = answer.headers.get("Content-Encoding", "").strip().lower() or "identity"
        if coding not in ("identity", *_PACKED):
            raise ToolError(f"{url_excerpt(str(answer.url))}: packed ({coding[:20]}), which was not asked for")
        data, sent, packed = bytearray(), 0, None
        async for piece in answer.content.iter_chunked(_PIECE):
            if coding in _PACKED and packed is None:
                packed = zlib.decompressobj(_BARE if coding == "deflate" and piece[0] & 0xF != 8 else _EITHER)
            sent += len(piece)
            data += packed.decompress(piece, self.max_bytes - len(data) + 1) if packed else piece
            if max(sent, len(data)) > self.max_bytes:
                raise ToolError(f"{url_excerpt(str(answer.url))}: larger than {self.max_bytes:,} bytes")
        return bytes(data)


@dataclass(frozen=True, slots=True)
class _Known:
    """Resolver for aiohttp that returns the addresses already checked, whatever the name."""

    ips: Sequence[str]

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[dict[str, Any]]:
        return [
            {
                "hostname": host,
                "host": ip,
                "port": port,
                "family": socket.AF_INET6 if ":" in ip else socket.AF_INET,
                "proto": socket.IPPROTO_TCP,
                "flags": socket.AI_NUMERICHOST,
            }
            for ip in self.ips
        ]

    async def close(self) -> None:
        """Do nothing; no connections are open."""


def _server(text: str) -> str:
    """Normalize an entry `host:port` of `allow`; empty if it is invalid."""
    try:
        address = parse_url(f"http://{text}/")
    except ToolError:
        return ""
    return _key(address) if address.path == "/" and text.rpartition(":")[2].isdecimal() else ""


def _key(address: WebAddress) -> str:
    return f"[{address.host}]:{address.port}" if ":" in address.host else f"{address.host}:{address.port}"


def _media_type(answer: Any) -> str:
    return str(answer.headers.get("Content-Type", "")).partition(";")[0].strip().lower()[:100]


def _reason(error: Exception) -> str:
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "its certificate is not one for that name, so it is not trusted"
    cause = getattr(error, "os_error", error)
    if isinstance(cause, socket.gaierror):
        return "there is no server of that name"
    if isinstance(cause, OSError):
        return f"cannot be reached: {os.strerror(cause.errno) if cause.errno and cause.errno > 0 else 'no way there'}"
    if isinstance(error, zlib.error):
        return "its packing is broken"
    return f"the connection broke off ({type(error).__name__})"
