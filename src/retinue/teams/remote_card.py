"""Agent cards of other servers: untrusted, so bounded, checked, and never a reason to talk to yet another server."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal, get_args

from ..errors import NotDone, ToolError
from ..net.http_client import HttpClient, bearer
from ..net.retry import TimeLimits
from ..net.url_policy import WebAddress, parse_url, url_excerpt

Binding = Literal["JSONRPC", "HTTP+JSON"]
WELL_KNOWN = "/.well-known/agent-card.json"
MAX_CARD = 200_000  # bytes
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
_OURS = re.compile(
    r"(?i)(host|connection|content-.*|transfer-.*|proxy-.*|te|trailer|upgrade|accept.*|a2a-.*|x-retinue-.*)"
)


@dataclass(frozen=True, slots=True)
class RemoteCard:
    """What is needed of an agent's card: where and how to talk to it. `key_header` is the name of the header that its
    API key goes into; empty: as a bearer token."""

    name: str
    url: str
    binding: Binding
    streaming: bool = False
    key_header: str = ""


async def fetch_card(url: str, api_key: str, allow: Collection[str], limits: TimeLimits) -> RemoteCard:
    """Return the card of the agent at `url`, which is the address of its card or what precedes `/.well-known`.

    `allow` are the hosts (`host` or `host:port`) that it may name besides that of `url`. Raises `NotDone`, and
    `ModelError` if it cannot be had.
    """
    address = url if url.endswith(".json") else f"{url.rstrip('/')}{WELL_KNOWN}"
    client = HttpClient(address, api_key, limits, bearer)
    try:
        async with aclosing(client.exchange("", most=MAX_CARD)) as reads:
            async for bodies in reads:
                return check_card(bodies[0], address, allow)
    finally:
        await client.close()
    raise NotDone(f"{url_excerpt(address)} is empty; want an agent's card")


def check_card(card: Any, address: str, allow: Collection[str] = ()) -> RemoteCard:
    """Return what is needed of a card that was found at `address`. Raises `NotDone` for one that cannot be used."""
    where = f"the card at {url_excerpt(address)}"
    if not isinstance(card, Mapping) or not isinstance(card.get("name"), str) or not card["name"].strip():
        raise NotDone(f"{where} is not an agent's card: want an object with a name and supportedInterfaces")
    if required := [
        one for one in _objects(_object(card.get("capabilities")).get("extensions")) if one.get("required")
    ]:
        raise NotDone(f"{where} requires the extension {str(required[0].get('uri'))[:200]!r}, which is not supported")
    interfaces = list(_objects(card.get("supportedInterfaces")))
    usable = [
        one
        for one in interfaces
        if one.get("protocolBinding") in get_args(Binding) and str(one.get("protocolVersion")).split(".")[0] == "1"
    ]
    if not usable:
        there = ", ".join(f"{one.get('protocolBinding')} {one.get('protocolVersion')}"[:60] for one in interfaces[:5])
        raise NotDone(f"{where} offers {there or 'no interface'}; want JSONRPC or HTTP+JSON of A2A 1.0")
    named = str(usable[0].get("url"))
    _check_address(named, address, allow, where)
    streaming = _object(card.get("capabilities")).get("streaming") is True
    return RemoteCard(" ".join(card["name"].split())[:200], named, usable[0]["protocolBinding"], streaming, _key(card))


def _check_address(named: str, address: str, allow: Collection[str], where: str) -> None:
    """Refuse an interface at another server than the card's, which would get the key and the question."""
    try:
        there, here = parse_url(named), parse_url(address)
    except ToolError as error:
        raise NotDone(f"{where} names an address that cannot be used: {error}") from None
    same = (there.scheme, there.host, there.port) == (here.scheme, here.host, here.port)
    if not same and not {there.host, _host(there)}.intersection(allow):
        told = f"it is on {_host(here)}, but names {url_excerpt(named)} as the agent's address"
        raise NotDone(f"{where} leads elsewhere: {told} (if that is right: allow=['{_host(there)}'])")


def _host(address: WebAddress) -> str:
    return f"{address.host}:{address.port}"


def _key(card: Mapping[str, Any]) -> str:
    """Return the header for the API key, where the card asks for one that is no bearer token."""
    schemes = list(_objects(list(_object(card.get("securitySchemes")).values())))
    if any("httpAuthSecurityScheme" in one for one in schemes):
        return ""
    for scheme in schemes:
        given = _object(scheme.get("apiKeySecurityScheme"))
        name = str(given.get("name"))
        if given.get("location") == "header" and _HEADER.fullmatch(name) and not _OURS.fullmatch(name):
            return name
    return ""


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    return (one for one in value if isinstance(one, Mapping)) if isinstance(value, list) else iter(())
