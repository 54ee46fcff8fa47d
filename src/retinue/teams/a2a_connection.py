"""A connection to an A2A 1.0 agent: its card, and requests over JSON-RPC or HTTP+JSON, as the card says.

Cards are untrusted, so they are bounded, checked, and never a reason to talk to yet another server.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from ..core.run_context import current_run
from ..errors import ModelError, ModelUnavailable, NotDone, ToolError, UsageError
from ..net.error_mapping import call_failure
from ..net.http_client import DONE, HttpClient, build_bearer_header
from ..net.retry import Attempts, Retries, TimeLimits
from ..net.url_policy import parse_url, shorten_url
from .remote_agent import hide_address

logger = logging.getLogger(__name__)
WELL_KNOWN = "/.well-known/agent-card.json"
MAX_ANSWER = 4_000_000  # bytes of a response, or of a stream
MAX_CARD = 200_000  # bytes
_RETRIES = Retries(tries=4, first_wait=0.5, longest_wait=30.0)
_KEPT = 300.0  # seconds for which a card is good
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
_OURS = re.compile(
    r"(?i)(host|connection|content-.*|transfer-.*|proxy-.*|te|trailer|upgrade|accept.*|a2a-.*|x-retinue-.*)"
)


class A2AConnection:
    """Talks to the agent whose card is at `url`, and to no other server, except those in `allow`."""

    def __init__(self, url: str, api_key: str = "", allow: Collection[str] = (), seconds: float = 600.0) -> None:
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"an A2A agent's url is the address of its server or its card, not {url[:200]!r}")
        self._url = url
        self._key = api_key.strip()
        self._allow = (allow,) if isinstance(allow, str) else tuple(allow)
        self._limits = TimeLimits(min(10.0, seconds), seconds, seconds)
        self._known: tuple[RemoteCard, HttpClient, float] | None = None  # since when

    async def streams(self) -> bool:
        """Whether the agent's tasks can be followed."""
        return (await self._fetch_agent())[0].streaming

    async def ask(
        self,
        rpc: str,
        path: str,
        params: Mapping[str, Any],
        headers: Mapping[str, str] = {},
        *,
        method: str = "POST",
        repeatable: bool = True,
    ) -> Any:
        """Return the result of the method `rpc`, which is at `path`. Asks again where the agent was unavailable, if it
        cannot have got the request, or if that is `repeatable`. Raises `ToolError`, and `NotDone` by the rule in
        `net/error_mapping.py`."""
        attempts = Attempts(_RETRIES)
        try:
            while True:
                try:
                    async with aclosing(self.exchange(rpc, path, params, headers, method)) as results:
                        async for result in results:
                            return result
                    raise ModelUnavailable(f"{self._url} answered nothing")
                except ModelUnavailable as error:
                    if _was_sent(error) and not repeatable:
                        raise
                    retry = attempts.plan_retry(error)
                await asyncio.sleep(retry.seconds)
        except ModelError as last:
            logger.warning("%s", last)
            raise call_failure(hide_address(str(last), self._url), sent=_was_sent(last)) from None

    async def exchange(
        self, rpc: str, path: str, params: Mapping[str, Any], headers: Mapping[str, str] = {}, method: str = "POST"
    ) -> AsyncGenerator[Any, None]:
        """Send one request, and yield the results in the response or stream. Raises `ToolError` and `ModelError`."""
        card, client, _ = await self._fetch_agent()
        more = {"A2A-Version": "1.0", **current_run().headers(), **headers}
        is_rpc = card.binding == "JSONRPC"
        if is_rpc:
            path, params = "", {"jsonrpc": "2.0", "id": 1, "method": rpc, "params": params}
        body = json.dumps(params).encode() if is_rpc or method == "POST" else None
        async with aclosing(client.exchange(path, body, more, MAX_ANSWER)) as reads:
            async for bodies in reads:
                for one in bodies:
                    if one is not DONE:
                        yield _read_result(one, is_rpc=is_rpc)

    async def _fetch_agent(self) -> tuple[RemoteCard, HttpClient, float]:
        """Return the agent's card, and a client for its address. A card is fetched again when it is old."""
        known = self._known
        if known is None or time.monotonic() > known[2] + _KEPT:
            try:
                card = await fetch_card(self._url, self._key, self._allow, self._limits)
            except ModelError as error:
                error.code = "model_unreachable"  # whatever was to be sent was not
                raise
            except NotDone as error:
                logger.warning("%s", error)
                raise NotDone(hide_address(str(error), self._url)) from None
            client = known[1] if known is not None and known[0] == card else self._make_client(card)
            known = self._known = (card, client, time.monotonic())
        return known

    def _make_client(self, card: RemoteCard) -> HttpClient:
        def build_headers(key: str) -> Mapping[str, str]:
            return {card.key_header: key} if card.key_header else build_bearer_header(key)

        url = card.url if card.binding == "JSONRPC" else card.url.rstrip("/")
        return HttpClient(url, self._key, self._limits, build_headers, resends=False)


def _read_result(body: Any, *, is_rpc: bool) -> Any:
    if not isinstance(body, Mapping):
        raise ToolError(f"the agent answered with {str(body)[:80]!r}; want an object")
    if (error := body.get("error")) is not None:
        said = error.get("message") if isinstance(error, Mapping) else error
        raise call_failure(f"the agent refuses: {' '.join(str(said).split())[:500]}", sent=True)
    return body.get("result") if is_rpc else body


def _was_sent(error: ModelError) -> bool:
    return error.code != "model_unreachable"


# ── the card ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class RemoteCard:
    """What is needed of an agent's card: where and how to talk to it. `key_header` is the name of the header that its
    API key goes into; empty: as a bearer token. `binding` is `JSONRPC` or `HTTP+JSON`."""

    name: str
    url: str
    binding: str
    streaming: bool = False
    key_header: str = ""


async def fetch_card(url: str, api_key: str, allow: Collection[str], limits: TimeLimits) -> RemoteCard:
    """Return the card of the agent at `url`, which is the address of its card or what precedes `/.well-known`.

    `allow` are the hosts (`host` or `host:port`) that it may name besides that of `url`. Raises `NotDone`, and
    `ModelError` if it cannot be had.
    """
    address = url if url.endswith(".json") else f"{url.rstrip('/')}{WELL_KNOWN}"
    client = HttpClient(address, api_key, limits, build_bearer_header)
    try:
        async with aclosing(client.exchange("", most=MAX_CARD)) as reads:
            async for bodies in reads:
                return check_card(bodies[0], address, allow)
    finally:
        await client.close()
    raise NotDone(f"{shorten_url(address)} is empty; want an agent's card")


def check_card(card: Any, address: str, allow: Collection[str] = ()) -> RemoteCard:
    """Return what is needed of a card that was found at `address`. Raises `NotDone` for one that cannot be used."""
    where = f"the card at {shorten_url(address)}"
    if not isinstance(card, Mapping) or not isinstance(card.get("name"), str) or not card["name"].strip():
        raise NotDone(f"{where} is not an agent's card: want an object with a name and supportedInterfaces")
    capabilities = _read_object(card.get("capabilities"))
    if required := [one for one in _read_objects(capabilities.get("extensions")) if one.get("required")]:
        raise NotDone(f"{where} requires the extension {str(required[0].get('uri'))[:200]!r}, which is not supported")
    interfaces = list(_read_objects(card.get("supportedInterfaces")))
    for one in interfaces:
        binding, version = str(one.get("protocolBinding")), str(one.get("protocolVersion"))
        if binding in ("JSONRPC", "HTTP+JSON") and version.split(".")[0] == "1":
            name, url = " ".join(card["name"].split())[:200], str(one.get("url"))
            _check_address(url, address, allow, where)
            return RemoteCard(name, url, binding, capabilities.get("streaming") is True, _find_key_header(card))
    there = ", ".join(f"{one.get('protocolBinding')} {one.get('protocolVersion')}"[:60] for one in interfaces[:5])
    raise NotDone(f"{where} offers {there or 'no interface'}; want JSONRPC or HTTP+JSON of A2A 1.0")


def _check_address(named: str, address: str, allow: Collection[str], where: str) -> None:
    """Refuse an interface at another server than the card's, which would get the key and the question."""
    try:
        there, here = parse_url(named), parse_url(address)
    except ToolError as error:
        raise NotDone(f"{where} names an address that cannot be used: {error}") from None
    same = (there.scheme, there.host, there.port) == (here.scheme, here.host, here.port)
    if not same and not {there.host, f"{there.host}:{there.port}"}.intersection(allow):
        told = f"it is on {here.host}:{here.port}, but names {shorten_url(named)} as the agent's address"
        raise NotDone(f"{where} leads elsewhere: {told} (if that is right: allow=['{there.host}:{there.port}'])")


def _find_key_header(card: Mapping[str, Any]) -> str:
    """Return the header for the API key, where the card asks for one that is no bearer token."""
    schemes = list(_read_objects(list(_read_object(card.get("securitySchemes")).values())))
    if any("httpAuthSecurityScheme" in one for one in schemes):
        return ""
    for scheme in schemes:
        given = _read_object(scheme.get("apiKeySecurityScheme"))
        name = str(given.get("name"))
        if given.get("location") == "header" and _HEADER.fullmatch(name) and not _OURS.fullmatch(name):
            return name
    return ""


def _read_object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _read_objects(value: Any) -> Iterator[Mapping[str, Any]]:
    return (one for one in value if isinstance(one, Mapping)) if isinstance(value, list) else iter(())
