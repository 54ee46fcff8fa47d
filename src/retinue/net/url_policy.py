"""Strict parsing of untrusted URLs, and which addresses they may lead to.

Python's `is_global` alone is not a guard: it lets through tunnels to private addresses (64:ff9b::7f00:1,
2002:7f00:1::), multicast and cloud services (168.63.129.16).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import quote

from ..errors import ToolError

MAX_URL = 2_000  # characters
PORTS = {"http": 80, "https": 443}
_URL = re.compile(r"([a-z][a-z0-9+.-]*)://([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#.*)?", re.IGNORECASE)
_AUTHORITY = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([^:\[\]@%]+))(?::([0-9]{0,5}))?")
_NO_PART = re.compile("[\x00-\x20\x7f-\xa0\\\\\ud800-\udfff]")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_AS_IT_IS = "/:@!$&'()*+,;=%?[]"  # what `quote` keeps in a path or query, beside letters, digits and `_.-~`

_IPV4 = [
    ip_network(one)
    for one in (
        "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 168.63.129.16/32 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 "
        "192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 "
        "198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4"
    ).split()
]
_UNICAST = ip_network("2000::/3")
_IPV6 = [  # protocol assignments and Teredo, documentation, 6to4, AS112, the former 6bone
    ip_network(one) for one in "2001::/23 2001:db8::/32 2002::/16 2620:4f:8000::/48 3ffe::/16 3fff::/20".split()
]
_ISATAP = 0x5EFE  # 64 bits from the right, whatever the "universal" bit says


@dataclass(frozen=True, slots=True)
class WebAddress:
    """A normalized web address: `host` is an ASCII name or an IP address without brackets; `path` includes the query.

    Its text form is a URL without fragment.
    """

    scheme: str
    host: str
    port: int
    path: str = "/"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.name}{self.path}"

    @property
    def authority(self) -> str:
        """Host and port."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def name(self) -> str:
        """Host and port, without a default port."""
        return self.authority.removesuffix(f":{PORTS[self.scheme]}")

    @property
    def ip(self) -> IPv4Address | IPv6Address | None:
        """The IP address, if the host is one."""
        try:
            return ip_address(self.host)
        except ValueError:
            return None


def parse_url(url: str) -> WebAddress:
    """Parse an http or https URL. Raises `ToolError` for anything else.

    A URL that two parsers could interpret differently is rejected.
    """
    url = url.strip()
    if len(url) > MAX_URL:
        raise ToolError(f"the URL is longer than {MAX_URL:,} characters")
    shown = shorten_url(url)
    found = _URL.fullmatch(url) if not _NO_PART.search(url) else None
    if found is None:
        raise ToolError(f"{shown} is not a URL; want one such as https://example.com/page")
    scheme, authority, path, query = found[1].lower(), found[2], found[3] or "/", found[4]
    if scheme not in PORTS:
        raise ToolError(f"{shown}: only http and https can be fetched")
    parts, server = _AUTHORITY.fullmatch(authority), f"{authority[:80]!r} is not the name of a server"
    if parts is None:
        raise ToolError(f"{shown}: {server} (no user, no % and no zone)")
    host = _normalize_ip(IPv6Address, parts[1]) if parts[1] else _normalize_name(parts[2])
    if not host:
        raise ToolError(f"{shown}: {server}, plainly written")
    port = int(parts[3]) if parts[3] else PORTS[scheme]
    return WebAddress(scheme, host, port, quote_path(f"{path}?{query}" if query else path))


def quote_path(path: str) -> str:
    """Return a path, with its query, as it is sent; what is escaped already stays."""
    return quote(path, safe=_AS_IT_IS)


def is_public(address: str) -> bool:
    """Return whether an IP address belongs to the public internet, as far as the address shows."""
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, IPv4Address):
        return ip.is_global and not any(ip in network for network in _IPV4)
    tunnel = (int(ip) >> 32) & 0xFDFF_FFFF == _ISATAP
    return ip.is_global and ip in _UNICAST and not tunnel and not any(ip in network for network in _IPV6)


def shorten_url(url: str) -> str:
    """Return a URL shortened to one line for messages."""
    plain = url.encode("ascii", "backslashreplace").decode()
    plain = "".join(sign if sign.isprintable() else "?" for sign in plain)
    return plain if len(plain) <= 200 else f"{plain[:200]}…"


def _normalize_name(host: str) -> str:
    """Return a server's name in lower-case ASCII, or its IPv4 address; empty if it is not plainly one of them."""
    host = (host if host.isascii() else _encode_name(host)).lower().removesuffix(".")
    labels = host.split(".")
    if len(host) > 253 or not all(map(_LABEL.fullmatch, labels)):
        return ""
    # an address is four decimal numbers; systems also accept 127.1, 0x7f000001 and 017700000001
    return _normalize_ip(IPv4Address, host) if _NUMBER.fullmatch(labels[-1]) else host


def _normalize_ip(kind: Callable[[str], IPv4Address | IPv6Address], text: str) -> str:
    try:
        return str(kind(text))
    except ValueError:
        return ""


def _encode_name(host: str) -> str:
    """Return an international name in its DNS form (IDNA 2008 after UTS 46, which also maps full-width digits)."""
    try:
        import idna
    except ImportError:
        raise ToolError(f"{host[:80]!r} needs the extra 'web': pip install 'retinue[web]'") from None
    with suppress(UnicodeError):
        return idna.encode(host, uts46=True).decode()
    with suppress(UnicodeError):  # a name of symbols, which only the older rules have
        return host.encode("idna").decode()
    return ""
