"""Our MCP server over HTTP: every request needs a key and must address an allowed host."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from socket import socket
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
    """Passes requests with `Authorization: Bearer KEY` to `app`."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._wanted = f"Bearer {key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        given = Headers(scope=scope).get("authorization", "") if scope["type"] == "http" else ""
        if scope["type"] == "lifespan" or hmac.compare_digest(given.encode(), self._wanted):
            await self._app(scope, receive, send)
        else:
            refusal = PlainTextResponse(
                "required header: Authorization: Bearer KEY\n", 401, {"WWW-Authenticate": "Bearer"}
            )
            await refusal(scope, receive, send)


def app_of(server: Server[Any], key: str, hosts: Sequence[str] = ()) -> ASGIApp:
    """Return the application, which serves `/mcp`. It accepts requests for loopback names and `hosts`, and none from
    browser pages: this prevents DNS rebinding."""
    names = [*_LOOPBACK, *hosts]
    security = TransportSecuritySettings(allowed_hosts=[*names, *(f"{name}:*" for name in names)], allowed_origins=[])
    return KeyCheck(server.streamable_http_app(streamable_http_path=PATH, transport_security=security), key)


def serve_http(server: Server[Any], key: str, listening: socket, hosts: Sequence[str] = ()) -> None:
    """Serve at a socket that listens, until interrupted, which raises `KeyboardInterrupt`."""
    http = uvicorn.Server(uvicorn.Config(app_of(server, key, hosts), log_level="warning", ws="none"))
    run_to_completion(http.serve(sockets=[listening]))
