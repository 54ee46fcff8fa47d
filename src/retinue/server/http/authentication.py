"""Who asks: API keys or an application's own login, and their scopes, which are checked before any of the body is read.
No other module decides which scope a request requires."""

from __future__ import annotations

import asyncio
import inspect
import ipaddress
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Literal, Protocol, get_args

from fastapi import HTTPException, Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..._internal.concurrency import supervise
from ...errors import StoreUnavailable, UsageError
from ...limits.rate import KeyThrottle
from ...store.api_keys import Key, Keys, describe_bad_tenant, describe_bad_user, hash_key
from ..login import Login, UserOf
from .api_errors import ApiError, answer_of
from .sse import frame

ScopeName = Literal["read", "runs", "agents", "memories", "tools", "secrets", "prompts", "audit", "act-as", "all"]
NAMES: tuple[ScopeName, ...] = get_args(ScopeName)
USER_HEADER = "X-Retinue-User"
_APART = ("prompts", "audit", "act-as")  # which no other scope contains
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
    "policies": "runs",
    "tools": "tools",
    "secrets": "secrets",
}
_SPECIAL: tuple[tuple[re.Pattern[str], ScopeName], ...] = (  # also to read
    (re.compile(r"/v1/memories(/.*)?"), "memories"),
    (re.compile(r"/v1/secrets(/.*)?"), "secrets"),
    (re.compile(r"/v1/studio/evals(/.*)?"), "prompts"),  # no tenant's
    (re.compile(r"/v1/audit(/.*)?"), "audit"),
)
_ASKING = re.compile(  # POSTs that only read
    r"/v1/vector_stores/[^/]+/search|/a2a/.+/tasks/[^/]+:subscribe|/v1/runs/[^/]+/replay"
)
OUTER = "retinue.outer"  # in a request's scope: the scope that the application around the server had
_OPEN = ("/health", "/ready")
_PAGES = re.compile(  # they show nothing of any tenant
    r"/|/docs|/redoc|/openapi\.json|/studio|/studio/.*|(/a2a/.+)?/\.well-known/agent-card\.json"
)
_HELD = (
    1.0  # seconds before a wrong key too many is answered: immediate retries would cost more than all other requests
)
_LOOKED_AT = 2.0  # seconds between checks of an open stream's key
_MISSING = (
    "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth "
    "(i.e. Authorization: Bearer YOUR_KEY)."
)


def is_open(method: str, path: str) -> bool:
    """Whether a request needs no key."""
    return path in _OPEN or (method == "GET" and _PAGES.fullmatch(path) is not None)


def required_scope(method: str, path: str) -> ScopeName:
    """Return the scope that a request requires: `read` if it changes nothing, `runs` for conversations and runs,
    `agents` for agents and their resources, `memories` to see or delete what is remembered, `tools` to register tools,
    `secrets` to set secrets, `prompts` for what is the operator's, `audit` for the audit log. Unknown paths require
    `all`."""
    for pattern, name in _SPECIAL:
        if pattern.fullmatch(path):
            return name
    if method in _READING or _ASKING.fullmatch(path):
        return "read"
    if path.startswith("/a2a/"):
        return "runs"
    _, version, *words = f"{path}/".split("/")
    return _WRITING.get(words[0], "all") if version == "v1" and words else "all"


def has_scope(scopes: tuple[str, ...] | None, wanted: ScopeName) -> bool:
    """Whether a key with `scopes` may make requests that require `wanted`. No other scope contains `prompts`, `audit`
    or `act-as`, nor does a key without scopes have these."""
    if wanted in _APART:
        return scopes is not None and wanted in scopes
    return scopes is None or "all" in scopes or wanted in scopes


def sees_prompts(scopes: tuple[str, ...] | None) -> bool:
    """Whether a key sees the operator's prompts, and the engines' own words."""
    return has_scope(scopes, "prompts")


def act_for(key: Key, named: Sequence[str]) -> Key:
    """Return the key for a request that says for which user it is: `named` are the values of `X-Retinue-User`. A key
    with the scope `act-as` may name anybody of its tenant, one that has a user only that one. Raises `ApiError`."""
    if not named or list(named) == [key.user]:
        return key
    if key.user is not None or not has_scope(key.scopes, "act-as"):
        raise missing_scope("act-as")
    problem = describe_bad_user(named[0]) if len(named) == 1 else "it is there more than once"
    if problem:
        raise ApiError(400, f"Invalid '{USER_HEADER}': {problem}.", param=USER_HEADER, code="invalid_value")
    return replace(key, user=named[0])


def _check_scope(key: Key, method: str, path: str) -> None:
    """Raise `ApiError` if the key may not do so. Users set secrets of their own, but no tools for everybody."""
    wanted = required_scope(method, path)
    if key.user is not None and wanted == "secrets":
        wanted = "runs"
    if not has_scope(key.scopes, wanted):
        raise missing_scope(wanted)
    if key.user is not None and wanted == "tools":
        raise ApiError(403, "Tools serve a whole tenant: the key of a user registers none.", code="user_key")


def missing_scope(wanted: ScopeName) -> ApiError:
    """Return the error for a key without the scope `wanted`."""
    message = f"You have insufficient permissions for this operation. Missing scopes: {wanted}."
    return ApiError(403, message, code="missing_scope")


def is_stream(start: Message) -> bool:
    """Whether the response is an event stream."""
    return Headers(raw=start["headers"]).get("content-type", "").startswith("text/event-stream")


class Callers(Protocol):
    """Those who may ask."""

    async def find(self, scope: Scope) -> Key | None:
        """Return for whom a request is, or `None` if that cannot be told."""

    async def refuse(self, scope: Scope) -> ApiError:
        """Return what is said to such a request."""


class KeyHolders:
    """Clients with an API key: `Authorization: Bearer KEY`. `wrong` counts wrong keys by address."""

    def __init__(self, keys: Keys, wrong: KeyThrottle) -> None:
        self._keys = keys
        self._wrong = wrong

    async def find(self, scope: Scope) -> Key | None:
        """Return the key of a request as it is known."""
        said = _bearer(scope)
        return await self._keys.find(said) if said else None

    async def refuse(self, scope: Scope) -> ApiError:
        """Return the error for a missing or a wrong key."""
        said = _bearer(scope)
        if not said:
            return _unauthorized(_MISSING, None)
        if (seconds := math.ceil(self._wrong.count(_address(scope)))) > 0:
            await asyncio.sleep(_HELD)
            wait = {"retry-after": str(seconds), "x-should-retry": "false"}
            message = f"Too many incorrect API keys were sent from your address. Please try again in {seconds}s."
            return ApiError(429, message, kind="requests", code="rate_limit_exceeded", headers=wait)
        return _incorrect(said)


class LoggedIn:
    """Users of the application in which the server is mounted: its `user_of` is asked of each request as the
    application got it, before the prefix was taken off."""

    def __init__(self, user_of: UserOf) -> None:
        self._user_of = user_of

    async def find(self, scope: Scope) -> Key | None:
        """Return what the user may do, as a key. Raises `ApiError` for what `user_of` refuses with an `HTTPException`,
        and `UsageError` if it returns what is not a `Login`."""
        outer = scope.get(OUTER, scope)
        try:
            login = self._user_of(Request({"method": "GET", **outer, "type": "http"}))
            login = await login if inspect.isawaitable(login) else login
        except HTTPException as error:
            status = error.status_code if error.status_code >= 400 else 401  # not a redirection to a login page
            raise ApiError(status, str(error.detail), code="refused_by_application") from error
        if login is None:
            return None
        if not isinstance(login, Login):
            raise UsageError(f"user_of returned a {type(login).__name__}; want a retinue.Login, or None")
        user, tenant, scopes = str(login.user), str(login.tenant), login.scopes
        if problem := describe_bad_user(user) or describe_bad_tenant(tenant):
            raise UsageError(f"user_of: {problem}")
        id_ = f"login_{hash_key(f'{tenant}/{user}')[:24]}"
        return Key(id_, tenant, user, scopes=None if scopes is None else tuple(scopes), user=user)

    async def refuse(self, scope: Scope) -> ApiError:
        """Return the error for somebody who is not logged in."""
        return ApiError(401, "You are not logged in to the application that this server is part of.", code="no_login")


class Authentication:
    """Passes requests of `callers` with sufficient scopes to `app`. `request.state.key` is then the key's data,
    `request.state.tenant` its tenant. A stream ends when its key becomes invalid."""

    def __init__(self, app: ASGIApp, callers: Callers) -> None:
        self._app = app
        self._callers = callers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        method, path = scope.get("method", "POST"), scope.get("path", "")  # a WebSocket counts as POST
        if scope["type"] == "lifespan" or is_open(method, path):
            await self._app(scope, receive, send)
            return
        try:
            key = await self._check(scope, method, path)
        except (ApiError, StoreUnavailable) as error:
            await answer_of(error)(scope, receive, send)
            return
        scope.setdefault("state", {}).update(key=key, tenant=key.tenant)
        if scope["type"] == "websocket":  # requests over it are checked one by one
            await self._app(scope, receive, send)
        else:
            await self._pass(scope, receive, send)

    async def _check(self, scope: Scope, method: str, path: str) -> Key:
        """Return the key of a request. Raises `ApiError`."""
        key = await self._callers.find(scope)
        if key is None:
            raise await self._callers.refuse(scope)
        key = act_for(key, Headers(scope=scope).getlist(USER_HEADER))
        _check_scope(key, method, path)
        return key

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request. A stream is cut off, with an error, once its key becomes invalid."""
        watching: list[asyncio.Task[None]] = []

        def see(head: Message) -> None:
            if is_stream(head):
                watch = supervise("watching a stream's key", partial(self._watch, scope, limit))
                watching.append(asyncio.create_task(watch))

        scope["state"].setdefault("heads", []).append(see)
        try:
            async with asyncio.timeout(None) as limit:
                await self._app(scope, receive, send)
        except TimeoutError:
            if not (watching and limit.expired()):
                raise
            end = frame((await self._callers.refuse(scope)).body, "error").encode()
            await send({"type": "http.response.body", "body": end, "more_body": False})
        finally:
            for task in watching:
                task.cancel()

    async def _watch(self, scope: Scope, limit: asyncio.Timeout) -> None:
        """Expire `limit` once the key becomes invalid."""
        good = True
        while good:
            await asyncio.sleep(_LOOKED_AT)
            with suppress(StoreUnavailable):  # no key can be revoked meanwhile
                good = await self._callers.find(scope) is not None
        limit.reschedule(asyncio.get_running_loop().time())


def _bearer(scope: Scope) -> str:
    scheme, _, said = Headers(scope=scope).get("authorization", "").partition(" ")
    return said.strip() if scheme.lower() == "bearer" else ""


def _address(scope: Scope) -> str:
    """Return the client's address; for IPv6 its /64 network, since a client may have many addresses in it."""
    host = (scope.get("client") or ("",))[0]
    with suppress(ValueError):
        address = ipaddress.ip_address(host)
        return host if address.version == 4 else str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))
    return str(host)


def _incorrect(key: str) -> ApiError:
    """Return the error for an incorrect key: it shows both ends, if the key is long enough."""
    ends = f"{key[:4]}****{key[-4:]}" if len(key) > 12 and key.isascii() and key.isprintable() else "****"
    return _unauthorized(f"Incorrect API key provided: {ends}.", "invalid_api_key")


def _unauthorized(message: str, code: str | None) -> ApiError:
    return ApiError(401, message, code=code, headers={"WWW-Authenticate": "Bearer"})
