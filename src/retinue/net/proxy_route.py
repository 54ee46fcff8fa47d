"""Routes to servers, directly or through a proxy, and the heads of requests."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from ..errors import UsageError
from .url_policy import PORTS, WebAddress, quote_path

_HOST = re.compile(r"[\w.:%-]+", re.ASCII)
_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")


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
