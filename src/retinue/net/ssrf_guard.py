"""SSRF guard: fetches untrusted URLs, which come from a model, a page, a search or a redirect.

Each URL is parsed strictly, resolved once, and fetched only if all its addresses are public; the connection goes to
exactly those. Each redirect starts over. Services that the operator configured do not pass through here. Private
servers that should be reachable are listed in `allow`.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from urllib.parse import urljoin

from .._internal.concurrency import run_in_thread
from ..errors import ToolError, UsageError
from .connection_pool import (
    FAILURES,
    CannotConnectError,
    Route,
    TooLargeError,
    describe_failure,
    open_response,
    read_body,
)
from .retry import TimeLimits
from .url_policy import WebAddress, is_public, parse_url, shorten_url

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
Check = Callable[[WebAddress], None]  # raises `ToolError`
_MOST_HOPS = 5  # redirects
_HEADERS = {
    "Accept": "text/html, application/xhtml+xml, application/pdf, text/plain, */*;q=0.5",
    "Accept-Encoding": "gzip, deflate",
    "User-Agent": "Mozilla/5.0 (compatible; Retinue)",
}
CHARSET = re.compile(r";\s*charset\s*=\s*[\"']?([^\s\"';]{1,40})", re.IGNORECASE)


async def resolve_host(host: str, port: int) -> list[str]:
    """Resolve a name to IP addresses. Raises `OSError`."""
    found = await run_in_thread(partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM))
    return [str(information[4][0]) for information in found]


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """A fetched page: `url` is the final one after redirects, `charset` the server's declaration, if any. `status` is
    2xx, unless the guard was told to return any."""

    url: str
    data: bytes
    media_type: str = ""
    charset: str = ""
    status: int = 200


@dataclass(frozen=True, slots=True)
class SsrfGuard:
    """Fetches public pages only. Uses no proxy, no cookies and nothing from the environment.

    Raises `UsageError` for invalid `allow` entries.

    Args:
        allow: Servers that may be private, each as `host:port`.
        ports: Ports permitted on other servers.
        seconds: Time limit for the whole request.
        max_bytes: Size limit, both as sent and decompressed.
        resolve: Resolves a host name.
        any_status: Return pages with any status, instead of raising.
    """

    allow: tuple[str, ...] = ()
    ports: tuple[int, ...] = (80, 443)
    seconds: float = 10.0
    max_bytes: int = 5_000_000
    resolve: Resolve = resolve_host
    any_status: bool = False

    def __post_init__(self) -> None:
        for server in self.allow:
            if not _normalize_server(server):
                raise UsageError(f"allow: {server!r} is not a server; want host:port, such as intranet.example:443")

    async def get(self, url: str, check: Check | None = None) -> FetchedPage:
        """Fetch the page at `url`. `check` is called before each request, also of a redirect, and may refuse it.

        Raises `ToolError`, whose message says why the page is unavailable.
        """
        try:
            async with asyncio.timeout(self.seconds):
                return await self._follow(parse_url(url), check)
        except TimeoutError:
            problem = f"did not answer within {self.seconds:g} seconds"
        except TooLargeError as error:
            problem = f"larger than {error.most:,} bytes"
        except FAILURES as error:
            problem = describe_failure(error)
        raise ToolError(f"{shorten_url(url)}: {problem}")

    async def route(self, url: str) -> Route:
        """Return the route to `url`, which leads to the addresses that were checked. Raises `ToolError`."""
        address = parse_url(url)
        try:
            return Route(address, ips=await self._find_allowed(address))
        except CannotConnectError as error:
            raise ToolError(f"{shorten_url(url)}: {describe_failure(error)}") from error

    async def _follow(self, address: WebAddress, check: Check | None) -> FetchedPage:
        for _ in range(_MOST_HOPS + 1):
            if check is not None:
                check(address)
            answer = await self._fetch(address, await self._find_allowed(address))
            if isinstance(answer, FetchedPage):
                return answer
            try:
                target = urljoin(str(address), answer)
            except ValueError:
                shown = f"{shorten_url(answer)} is not a URL, and {shorten_url(str(address))} redirects there"
                raise ToolError(shown) from None
            address = parse_url(target)
        raise ToolError(f"{shorten_url(str(address))}: redirected more than {_MOST_HOPS} times")

    async def _find_allowed(self, address: WebAddress) -> Sequence[str]:
        """Return the IP addresses from which `address` may be fetched. Raises `ToolError` if it may not be."""
        trusted, shown = address.authority in map(_normalize_server, self.allow), shorten_url(str(address))
        if not trusted and address.port not in self.ports:
            raise ToolError(f"{shown}: port {address.port} is not one of the web's")
        if not trusted and address.ip is None and "." not in address.host:
            raise ToolError(f"{shown}: {address.host!r} is no public name")
        try:
            found = await self.resolve(address.host, address.port) if address.ip is None else [address.host]
        except OSError as error:
            raise CannotConnectError(error) from error
        if not found or not (trusted or all(map(is_public, found))):
            raise ToolError(f"{shown} is not on the public internet, so it is not fetched")
        return found

    async def _fetch(self, address: WebAddress, ips: Sequence[str]) -> FetchedPage | str:
        """Return the page, or the URL that it redirects to."""
        way, url = Route(address, ips=ips), str(address)
        limits = TimeLimits(self.seconds, self.seconds, self.seconds)
        async with open_response(way, way.request("GET", url, _HEADERS), limits, packed=True) as response:
            status, location = response.status, response.headers.get("location")
            if status in (301, 302, 303, 307, 308) and location is not None:
                return location.encode("latin-1").decode("utf-8", "replace")
            if not (self.any_status or 200 <= status < 300):
                raise ToolError(f"{shorten_url(url)}: the server answered {status}")
            data = await read_body(response, self.max_bytes)
            kind = response.headers.get("content-type", "")
            declared, found = kind.partition(";")[0].strip().lower()[:100], CHARSET.search(kind)
            return FetchedPage(url, data, declared, found[1] if found else "", status)


def _normalize_server(text: str) -> str:
    """Normalize an entry `host:port` of `allow`; empty if it is invalid."""
    try:
        address = parse_url(f"http://{text}/")
    except ToolError:
        return ""
    return address.authority if address.path == "/" and text.rpartition(":")[2].isdecimal() else ""
