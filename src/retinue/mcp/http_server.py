"""Our MCP server over HTTP: with a key for every request, and for no address but those it is meant for."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import uvicorn
from mcp.server import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from .._internal.sync_bridge import run_to_completion

PATH = "/mcp"
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class KeyCheck:
    """Lets through to `app` who says `Authorization: Bearer KEY`."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._wanted = f"Bearer {key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        given = Headers(scope=scope).get("authorization", "") if scope["type"] == "http" else ""
        if scope["type"] == "lifespan" or hmac.compare_digest(given.encode(), self._wanted):
            await self._app(scope, receive, send)
        else:
            refusal = PlainTextResponse("want: Authorization: Bearer KEY\n", 401, {"WWW-Authenticate": "Bearer"})
            await refusal(scope, receive, send)


def app_of(server: Server[Any], key: str, hosts: Sequence[str] = ()) -> ASGIApp:
    """The application, at `/mcp`. It answers to loopback's names and `hosts`, and to no page of a browser, so a
    stranger's name that leads to this machine (DNS rebinding) leads to nothing."""
    names = [*_LOOPBACK, *hosts]
    security = TransportSecuritySettings(allowed_hosts=[*names, *(f"{name}:*" for name in names)], allowed_origins=[])
    return KeyCheck(server.streamable_http_app(streamable_http_path=PATH, transport_security=security), key)


def serve_http(server: Server[Any], host: str, port: int, key: str, hosts: Sequence[str] = ()) -> None:
    """Serve until it is interrupted."""
    app = app_of(server, key, [host, *hosts])
    http = uvicorn.Server(uvicorn.Config(app, host=host, port=port, log_level="warning", ws="none"))
    with suppress(KeyboardInterrupt):
        run_to_completion(http.serve())
