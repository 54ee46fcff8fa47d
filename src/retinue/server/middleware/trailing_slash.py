"""Paths as they are meant: with a slash at the end as without."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send


class TrailingSlash:
    """Gives `app` the path of a request without the slash at its end, as RFC 003 writes some. A redirect, which is what
    frameworks answer, would lose a body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http" and len(scope["path"]) > 1 and scope["path"].endswith("/"):
            raw = scope.get("raw_path") or b""
            scope = {**scope, "path": scope["path"][:-1], "raw_path": raw.removesuffix(b"/")}
        await self._app(scope, receive, send)
