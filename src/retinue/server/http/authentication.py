"""The scope that each request requires. No other module decides this.

Authentication and scope checks of API keys, before any of the body is read.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import re
from contextlib import suppress
from functools import partial
from typing import Literal

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..._internal.concurrency import supervise
from ...errors import StoreUnavailable
from ...limits.rate import KeyThrottle
from ...store.api_keys import Key, Keys
from .api_errors import ApiError, answer_of
from .sse import frame

ScopeName = Literal["read", "runs", "agents", "memories", "tools", "prompts", "audit", "all"]
NAMES: tuple[ScopeName, ...] = ("read", "runs", "agents", "memories", "tools", "prompts", "audit", "all")
_READING = ("GET", "HEAD", "OPTIONS")
_WRITING: dict[str, ScopeName] = {  # by the first path segment after /v1
    "chat": "runs",
    "responses": "runs",
    "completions": "runs",
    "embeddings": "runs",
    "audio": "runs",
    "threads": "runs",
    "conversations": "runs",
    "runs": "runs",
    "assistants": "agents",
    "files": "agents",
    "uploads": "agents",
    "vector_stores": "agents",
    "models": "agents",
    "memories": "memories",
    "tools": "tools",
}
_PRIVATE = re.compile(r"/v1/memories(/.*)?")  # reading is not for every key that may read
_AUDIT = re.compile(r"/v1/audit(/.*)?")
_OPERATORS = re.compile(r"/v1/studio/evals(/.*)?")  # no tenant's
_ASKING = re.compile(  # POSTs that only read
    r"/v1/vector_stores/[^/]+/search|/a2a/.+/tasks/[^/]+:subscribe|/v1/runs/[^/]+/replay"
)


def needed(method: str, path: str) -> ScopeName:
    """Return the scope that a request requires: `read` if it changes nothing, `runs` for conversations and runs,
    `agents` for agents and their resources, `memories` to see or delete what is remembered, `tools` to register tools,
    `prompts` for what is the operator's, `audit` for the audit log. Unknown paths require `all`."""
    if _PRIVATE.fullmatch(path):
        return "memories"
    if _OPERATORS.fullmatch(path):
        return "prompts"
    if _AUDIT.fullmatch(path):
        return "audit"
    if method in _READING or _ASKING.fullmatch(path):
        return "read"
    if path.startswith("/a2a/"):
        return "runs"
    _, version, *words = f"{path}/".split("/")
    return _WRITING.get(words[0], "all") if version == "v1" and words else "all"


def allowed(scopes: tuple[str, ...] | None, wanted: ScopeName) -> bool:
    """Whether a key with `scopes` may make requests that require `wanted`."""
    if wanted == "prompts":
        return sees_prompts(scopes)
    if wanted == "audit":
        return scopes is not None and "audit" in scopes
    return scopes is None or "all" in scopes or wanted in scopes


def sees_prompts(scopes: tuple[str, ...] | None) -> bool:
    """Whether a key sees the operator's prompts, and the engines' own words. No other scope contains this one, nor does
    a key without scopes have it."""
    return scopes is not None and "prompts" in scopes


def missing(wanted: ScopeName) -> ApiError:
    """Return the error for a key without the scope `wanted`."""
    message = f"You have insufficient permissions for this operation. Missing scopes: {wanted}."
    return ApiError(403, message, code="missing_scope")


OPEN = ("/health", "/ready")
PAGES = ("/", "/docs", "/redoc", "/openapi.json", "/studio")  # they show nothing of any tenant
STUDIO = "/studio/"
_CARD = re.compile(r"(/a2a/.+)?/\.well-known/agent-card\.json")  # nor do these
_HELD = 1.0  # seconds before a wrong key too many is answered
_LOOKED_AT = 2.0  # seconds between checks of an open stream's key
_MISSING = (
    "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth "
    "(i.e. Authorization: Bearer YOUR_KEY)."
)


class Authentication:
    """Passes requests with a valid `Authorization: Bearer KEY` and sufficient scopes to `app`. `request.state.key` is
    then the key's data, `request.state.tenant` its tenant. A stream ends when its key becomes invalid."""

    def __init__(self, app: ASGIApp, keys: Keys, wrong: KeyThrottle) -> None:
        self._app = app
        self._keys = keys
        self._wrong = wrong

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        method = scope.get("method", "POST")  # a WebSocket counts as POST
        if scope["type"] == "lifespan" or is_open(method, scope["path"]):
            await self._app(scope, receive, send)
            return
        try:
            said = _said(Headers(scope=scope).get("authorization", ""))
            key = await self._known(said, _address(scope))
            if not allowed(key.scopes, wanted := needed(method, scope["path"])):
                raise missing(wanted)
        except (ApiError, StoreUnavailable) as error:
            await answer_of(error)(scope, receive, send)
            return
        scope.setdefault("state", {}).update(key=key, tenant=key.tenant)
        if scope["type"] == "websocket":  # requests over it are checked one by one
            await self._app(scope, receive, send)
            return
        watching: list[asyncio.Task[None]] = []

        def see(head: Message) -> None:
            if is_stream(head):
                watch = supervise("watching a stream's key", partial(self._watch, said, limit))
                watching.append(asyncio.create_task(watch))

        scope["state"].setdefault("heads", []).append(see)
        try:
            async with asyncio.timeout(None) as limit:  # a stream lasts while its key is valid
                await self._app(scope, receive, send)
        except TimeoutError:
            if not (watching and limit.expired()):
                raise
            await send(_ending(_incorrect(said)))
        finally:
            for task in watching:
                task.cancel()

    async def _known(self, said: str, address: str) -> Key:
        key = await self._keys.find(said)
        if key is None:
            if (seconds := self._wrong.count(address)) > 0:
                await asyncio.sleep(_HELD)  # otherwise immediate retries would cost more than all other requests
                raise _too_many(seconds)
            raise _incorrect(said)
        return key

    async def _watch(self, said: str, limit: asyncio.Timeout) -> None:
        """Expire `limit` once the key becomes invalid."""
        good = True
        while good:
            await asyncio.sleep(_LOOKED_AT)
            with suppress(StoreUnavailable):  # no key can be revoked meanwhile
                good = await self._keys.find(said) is not None
        limit.reschedule(asyncio.get_running_loop().time())


def is_open(method: str, path: str) -> bool:
    """Whether a request needs no key."""
    return path in OPEN or (method == "GET" and _is_page(path))


def _is_page(path: str) -> bool:
    return path in PAGES or path.startswith(STUDIO) or _CARD.fullmatch(path) is not None


def is_stream(start: Message) -> bool:
    """Whether the response is an event stream."""
    return Headers(raw=start["headers"]).get("content-type", "").startswith("text/event-stream")


def key_excerpt(key: str) -> str:
    """Return a printable excerpt of a key: both ends, if the key is long enough."""
    return f"{key[:4]}****{key[-4:]}" if len(key) > 12 and key.isascii() and key.isprintable() else "****"


def _said(header: str) -> str:
    scheme, _, key = header.partition(" ")
    key = key.strip()
    if scheme.lower() != "bearer" or not key:
        raise _refusal(_MISSING, None)
    return key


def _incorrect(key: str) -> ApiError:
    return _refusal(f"Incorrect API key provided: {key_excerpt(key)}.", "invalid_api_key")


def _too_many(seconds: float) -> ApiError:
    wait = {"retry-after": str(math.ceil(seconds)), "x-should-retry": "false"}
    message = f"Too many incorrect API keys were sent from your address. Please try again in {math.ceil(seconds)}s."
    return ApiError(429, message, kind="requests", code="rate_limit_exceeded", headers=wait)


def _address(scope: Scope) -> str:
    """Return the client's address; for IPv6 its /64 network, since a client may have many addresses in it."""
    host = (scope.get("client") or ("",))[0]
    with suppress(ValueError):
        address = ipaddress.ip_address(host)
        return host if address.version == 4 else str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))
    return str(host)


def _refusal(message: str, code: str | None) -> ApiError:
    return ApiError(401, message, code=code, headers={"WWW-Authenticate": "Bearer"})


def _ending(error: ApiError) -> Message:
    """Return the last message of a stream that is cut off by `error`."""
    return {"type": "http.response.body", "body": frame(error.body, "error").encode(), "more_body": False}
