"""The one check of keys, before anything of a request's body is read."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from ..errors import StoreUnavailable
from ..store.keys import Keys
from .edge import answer_of
from .errors import ApiError

OPEN = ("/health", "/ready")
_MISSING = (
    "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth "
    "(i.e. Authorization: Bearer YOUR_KEY)."
)


class Keyed:
    """Lets through to `app` who says `Authorization: Bearer KEY`; `request.state.tenant` is then whose key it is."""

    def __init__(self, app: ASGIApp, keys: Keys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or scope["path"] in OPEN:
            await self._app(scope, receive, send)
            return
        try:
            scope.setdefault("state", {})["tenant"] = await self._tenant(Headers(scope=scope).get("authorization", ""))
        except (ApiError, StoreUnavailable) as error:
            await answer_of(error)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _tenant(self, said: str) -> str:
        scheme, _, key = said.partition(" ")
        key = key.strip()
        if scheme.lower() != "bearer" or not key:
            raise _refusal(_MISSING, None)
        tenant = await self._keys.tenant_of(key)
        if tenant is None:
            raise _refusal(f"Incorrect API key provided: {shown(key)}.", "invalid_api_key")
        return tenant


def shown(key: str) -> str:
    """What may be said of a key: its ends, if they are not most of it."""
    return f"{key[:4]}****{key[-4:]}" if len(key) > 12 and key.isascii() and key.isprintable() else "****"


def _refusal(message: str, code: str | None) -> ApiError:
    return ApiError(401, message, code=code, headers={"WWW-Authenticate": "Bearer"})
