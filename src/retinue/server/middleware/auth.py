"""The one check of keys and of what they may do, before anything of a request's body is read."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...errors import StoreUnavailable
from ...store.keys import Key, Keys
from ..wire.errors import ApiError
from ..wire.sse import frame
from .edge import answer_of
from .scopes import allowed, needed

OPEN = ("/health", "/ready")
_LOOKED_AT = 2.0  # seconds between two looks at the key of an open stream
_MISSING = (
    "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth "
    "(i.e. Authorization: Bearer YOUR_KEY)."
)


class Keyed:
    """Lets through to `app` who says `Authorization: Bearer KEY` and may do what is asked; `request.state.key` is then
    what is known of the key, `request.state.tenant` whose it is. A stream ends when its key is no longer good."""

    def __init__(self, app: ASGIApp, keys: Keys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan" or scope["path"] in OPEN:
            await self._app(scope, receive, send)
            return
        try:
            said = _said(Headers(scope=scope).get("authorization", ""))
            key = await self._known(said)
            method = scope.get("method", "POST")  # a WebSocket is for asking
            if not allowed(key.scopes, wanted := needed(method, scope["path"])):
                raise _not_allowed(wanted)
        except (ApiError, StoreUnavailable) as error:
            await answer_of(error)(scope, receive, send)
            return
        scope.setdefault("state", {}).update(key=key, tenant=key.tenant)
        if scope["type"] == "websocket":  # what is asked over it is looked at as any request is
            await self._app(scope, receive, send)
            return
        await self._while_good(said, scope, receive, send)

    async def _known(self, said: str) -> Key:
        key = await self._keys.find(said)
        if key is None:
            raise _incorrect(said)
        return key

    async def _while_good(self, said: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; if that is by a stream, for as long as the key is good."""
        watching: asyncio.Task[None] | None = None

        async def sending(message: Message) -> None:
            nonlocal watching
            if message["type"] == "http.response.start" and is_stream(message):
                watching = asyncio.create_task(self._watch(said, limit))
            await send(message)

        try:
            async with asyncio.timeout(None) as limit:
                await self._app(scope, receive, sending)
        except TimeoutError:
            if watching is None or not limit.expired():
                raise
            await send(_ending(_incorrect(said)))
        finally:
            if watching is not None:
                watching.cancel()

    async def _watch(self, said: str, limit: asyncio.Timeout) -> None:
        """End what `limit` is of, once the key is no longer good."""
        good = True
        while good:
            await asyncio.sleep(_LOOKED_AT)
            with suppress(StoreUnavailable):  # nobody can revoke it meanwhile
                good = await self._keys.find(said) is not None
        limit.reschedule(asyncio.get_running_loop().time())


def is_stream(start: Message) -> bool:
    """Whether a response that begins so is a stream of events."""
    return Headers(raw=start["headers"]).get("content-type", "").startswith("text/event-stream")


def shown(key: str) -> str:
    """What may be said of a key: its ends, if they are not most of it."""
    return f"{key[:4]}****{key[-4:]}" if len(key) > 12 and key.isascii() and key.isprintable() else "****"


def _said(header: str) -> str:
    scheme, _, key = header.partition(" ")
    key = key.strip()
    if scheme.lower() != "bearer" or not key:
        raise _refusal(_MISSING, None)
    return key


def _incorrect(key: str) -> ApiError:
    return _refusal(f"Incorrect API key provided: {shown(key)}.", "invalid_api_key")


def _refusal(message: str, code: str | None) -> ApiError:
    return ApiError(401, message, code=code, headers={"WWW-Authenticate": "Bearer"})


def _not_allowed(wanted: str) -> ApiError:
    message = f"You have insufficient permissions for this operation. Missing scopes: {wanted}."
    return ApiError(403, message, code="missing_scope")


def _ending(error: ApiError) -> Message:
    """The end of a stream that breaks off."""
    return {"type": "http.response.body", "body": frame(error.body, "error").encode(), "more_body": False}
