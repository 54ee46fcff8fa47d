"""A connection to an A2A 1.0 agent: its card, and requests over JSON-RPC or HTTP+JSON, as the card says.

Cards are untrusted, so they are bounded, checked, and never a reason to talk to yet another server.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args
from urllib.parse import quote

from ..core.run_context import current_run
from ..errors import ModelError, ModelUnavailable, NotDone, ToolError, UsageError
from ..net.error_mapping import call_failure
from ..net.http_client import DONE, HttpClient, build_bearer_header
from ..net.retry import Attempts, Retries, TimeLimits
from ..net.url_policy import WebAddress, parse_url, shorten_url
from .remote_agent import hide_address

logger = logging.getLogger(__name__)
MAX_ANSWER = 4_000_000  # bytes of a response, or of a stream
_RETRIES = Retries(tries=4, first_wait=0.5, longest_wait=30.0)
_KEPT = 300.0  # seconds for which a card is good
_VERSION = {"A2A-Version": "1.0"}
_NONE: Mapping[str, str] = {}
Body = Mapping[str, Any]
Binding = Literal["JSONRPC", "HTTP+JSON"]
WELL_KNOWN = "/.well-known/agent-card.json"
MAX_CARD = 200_000  # bytes
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
_OURS = re.compile(
    r"(?i)(host|connection|content-.*|transfer-.*|proxy-.*|te|trailer|upgrade|accept.*|a2a-.*|x-retinue-.*)"
)


class _Known(NamedTuple):
    card: RemoteCard
    client: HttpClient
    since: float


class A2AConnection:
    """Talks to the agent whose card is at `url`, and to no other server, except those in `allow`."""

    def __init__(self, url: str, api_key: str = "", allow: Collection[str] = (), seconds: float = 600.0) -> None:
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"an A2A agent's url is the address of its server or its card, not {url[:200]!r}")
        self._url = url
        self._key = api_key.strip()
        self._allow = (allow,) if isinstance(allow, str) else tuple(allow)
        self._limits = TimeLimits(min(10.0, seconds), seconds, seconds)
        self._known: _Known | None = None

    async def streams(self) -> bool:
        """Whether the agent's tasks can be followed."""
        return (await self._fetch_agent()).card.streaming

    async def send(self, params: Body, headers: Mapping[str, str] = _NONE, *, repeatable: bool = False) -> Any:
        """Send a message, and return the task or message that answers it. It is sent again if it cannot have arrived,
        or if it is `repeatable`. Raises `ToolError`, and `NotDone` by the rule in `net/error_mapping.py`."""
        ask = self._make_request("SendMessage", "/message:send", params, headers)
        return await _ask_with_retries(ask, lambda error: repeatable or not _was_sent(error), self._url)

    async def get(self, task: str) -> Any:
        """Return a task. Raises `ToolError`."""
        ask = self._make_request("GetTask", f"/tasks/{quote(task, safe='')}", {"id": task}, method="GET")
        return await _ask_with_retries(ask, lambda error: True, self._url)

    async def cancel(self, task: str) -> None:
        """Cancel a task. Raises as `get` does."""
        await self._make_request("CancelTask", f"/tasks/{quote(task, safe='')}:cancel", {"id": task})()

    async def subscribe(self, task: str) -> AsyncGenerator[Any, None]:
        """Yield the events of a task from now on. Raises as `get` does, at any time."""
        path = f"/tasks/{quote(task, safe='')}:subscribe"
        async with aclosing(await self._exchange("SubscribeToTask", path, {"id": task})) as results:
            async for result in results:
                yield result

    async def close(self) -> None:
        """Close the running event loop's connections."""
        if self._known is not None:
            await self._known.client.close()

    def _make_request(
        self, rpc: str, path: str, params: Body, headers: Mapping[str, str] = _NONE, *, method: str = "POST"
    ) -> Callable[[], Awaitable[Any]]:
        async def ask() -> Any:
            async with aclosing(await self._exchange(rpc, path, params, headers, method=method)) as results:
                async for result in results:
                    return result
            raise ModelUnavailable(f"{self._url} answered nothing")

        return ask

    async def _exchange(
        self, rpc: str, path: str, params: Body, headers: Mapping[str, str] = _NONE, *, method: str = "POST"
    ) -> AsyncGenerator[Any, None]:
        card, client, _ = await self._fetch_agent()
        more = {**_VERSION, **current_run().headers(), **headers}
        if card.binding == "JSONRPC":
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": rpc, "params": params})
            return _read_results(client.exchange("", body.encode(), more, MAX_ANSWER), rpc=True)
        sent = None if method == "GET" else json.dumps(params).encode()
        return _read_results(client.exchange(path, sent, more, MAX_ANSWER), rpc=False)

    async def _fetch_agent(self) -> _Known:
        """Return the agent's card, and a client for its address. A card is fetched again when it is old."""
        known = self._known
        if known is None or time.monotonic() > known.since + _KEPT:
            try:
                card = await fetch_card(self._url, self._key, self._allow, self._limits)
            except ModelError as error:
                error.code = "model_unreachable"  # whatever was to be sent was not
                raise
            except NotDone as error:
                logger.warning("%s", error)
                raise NotDone(hide_address(str(error), self._url)) from None
            client = known.client if known is not None and known.card == card else self._make_client(card)
            known = self._known = _Known(card, client, time.monotonic())
        return known

    def _make_client(self, card: RemoteCard) -> HttpClient:
        def headers(key: str) -> Mapping[str, str]:
            return {card.key_header: key} if card.key_header else {"Authorization": f"Bearer {key}"}

        url = card.url if card.binding == "JSONRPC" else card.url.rstrip("/")
        return HttpClient(url, self._key, self._limits, headers, resends=False)


async def _read_results(bodies: AsyncGenerator[list[Any], None], *, rpc: bool) -> AsyncGenerator[Any, None]:
    """Yield the results in a response or stream. Raises `ToolError` for an error in it."""
    async with aclosing(bodies):
        async for several in bodies:
            for result in (_read_result(body, rpc=rpc) for body in several if body is not DONE):
                yield result


def _read_result(body: Any, *, rpc: bool) -> Any:
    if not isinstance(body, Mapping):
        raise ToolError(f"the agent answered with {str(body)[:80]!r}; want an object")
    if (error := body.get("error")) is not None:
        said = error.get("message") if isinstance(error, Mapping) else error
        raise call_failure(f"the agent refuses: {' '.join(str(said).split())[:500]}", sent=True)
    return body.get("result") if rpc else body


async def _ask_with_retries(ask: Callable[[], Awaitable[Any]], may: Callable[[ModelError], bool], url: str) -> Any:
    """Return what `ask` returns. It is asked again where it was unavailable, and `may` agrees."""
    attempts = Attempts(_RETRIES)
    try:
        while True:
            try:
                return await ask()
            except ModelUnavailable as error:
                if not may(error):
                    raise
                retry = attempts.plan_retry(error)
            await asyncio.sleep(retry.seconds)
    except ModelError as last:
        logger.warning("%s", last)
        raise call_failure(hide_address(str(last), url), sent=_was_sent(last)) from None


def _was_sent(error: ModelError) -> bool:
    return error.code != "model_unreachable"


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
    if required := [
        one for one in _read_objects(_read_object(card.get("capabilities")).get("extensions")) if one.get("required")
    ]:
        raise NotDone(f"{where} requires the extension {str(required[0].get('uri'))[:200]!r}, which is not supported")
    interfaces = list(_read_objects(card.get("supportedInterfaces")))
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
    streaming = _read_object(card.get("capabilities")).get("streaming") is True
    return RemoteCard(
        " ".join(card["name"].split())[:200], named, usable[0]["protocolBinding"], streaming, _build_key_header(card)
    )


def _check_address(named: str, address: str, allow: Collection[str], where: str) -> None:
    """Refuse an interface at another server than the card's, which would get the key and the question."""
    try:
        there, here = parse_url(named), parse_url(address)
    except ToolError as error:
        raise NotDone(f"{where} names an address that cannot be used: {error}") from None
    same = (there.scheme, there.host, there.port) == (here.scheme, here.host, here.port)
    if not same and not {there.host, _host_of(there)}.intersection(allow):
        told = f"it is on {_host_of(here)}, but names {shorten_url(named)} as the agent's address"
        raise NotDone(f"{where} leads elsewhere: {told} (if that is right: allow=['{_host_of(there)}'])")


def _host_of(address: WebAddress) -> str:
    return f"{address.host}:{address.port}"


def _build_key_header(card: Mapping[str, Any]) -> str:
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
