"""A server at a URL (streamable HTTP). No cookies, proxies or credentials of the environment are used."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from ..errors import ToolError
from ..net.ssrf_guard import SsrfGuard
from .disconnect import Disconnect
from .server_address import Server
from .stdio import MAX_MESSAGE

_TIMEOUT = httpx2.Timeout(10.0, read=None)  # a call's timeout limits the wait for its answer


@asynccontextmanager
async def over_http(server: Server, lost: Disconnect) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the streams of messages from and to `server`."""
    assert server.url is not None
    headers = {**server.headers, "Accept-Encoding": "identity"}
    transport = _Careful(lost, server.guard)
    async with (
        httpx2.AsyncClient(transport=transport, headers=headers, timeout=_TIMEOUT, trust_env=False) as client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=MAX_MESSAGE) as streams,
    ):
        yield streams


class _Careful(httpx2.AsyncHTTPTransport):
    """Refuses compressed or oversized responses, and records HTTP errors. With a guard, each request goes to an address
    that was checked for it."""

    def __init__(self, lost: Disconnect, guard: SsrfGuard | None) -> None:
        super().__init__()
        self._lost = lost
        self._guard = guard

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        await self._check(request)
        try:
            response = await super().handle_async_request(request)
        except httpx2.TransportError as error:
            self._lost.unreachable = isinstance(error, httpx2.ConnectError)
            self._lost.because(f"it cannot be reached: {error or type(error).__name__}")
            raise
        if request.method == "POST" and response.status_code >= 400:
            self._lost.complaint = f"it answered {response.status_code}"
        packed = response.headers.get("content-encoding", "identity")
        if packed != "identity":
            await response.aclose()
            self._lost.because(f"its answer is packed ({packed[:20]}), which was not asked for")
            raise httpx2.ReadError(self._lost.reason)
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _Limited(response.stream, self._lost)
        return response

    async def _check(self, request: httpx2.Request) -> None:
        if self._guard is None:
            return
        try:
            address, ips = await self._guard.addresses(str(request.url))
        except ToolError as error:
            self._lost.unreachable = True
            self._lost.because(str(error))
            raise httpx2.ConnectError(str(error)) from error
        request.url = request.url.copy_with(host=next((ip for ip in ips if ":" not in ip), ips[0]))
        request.extensions = {**request.extensions, "sni_hostname": address.host}


class _Limited(httpx2.AsyncByteStream):
    def __init__(self, inner: Any, lost: Disconnect) -> None:
        self._inner = inner
        self._lost = lost

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._inner:
            size += len(chunk)
            if size > MAX_MESSAGE:
                self._lost.because(f"it sent more than {MAX_MESSAGE:,} bytes at once")
                raise httpx2.ReadError(self._lost.reason)
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
