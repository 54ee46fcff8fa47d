"""Accepts paths with a trailing slash."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send


class TrailingSlash:
    """Strips the trailing slash from paths, which RFC 003 uses in places. Frameworks redirect instead, which loses the
    body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "http" and len(scope["path"]) > 1 and scope["path"].endswith("/"):
            raw = scope.get("raw_path") or b""
            scope = {**scope, "path": scope["path"][:-1], "raw_path": raw.removesuffix(b"/")}
        await self._app(scope, receive, send)
