"""A server at a URL (streamable HTTP). No cookies, proxies or credentials of the environment are used.

The SDK tells its waiting calls neither the status nor whether a request was sent, and a connection that breaks under
one of them ends them all. So failures of requests are answered here, as errors with the code `OWN_FAILURE`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import MCP_SESSION_ID, streamable_http_client
from mcp_types import JSONRPCError

from ..errors import ToolError
from ..net.ssrf_guard import SsrfGuard
from .messages import OWN_FAILURE, Disconnect, read_messages, write_message
from .server_address import Server
from .stdio import MAX_MESSAGE

_TIMEOUT = httpx2.Timeout(10.0, read=None)  # a call's timeout limits the wait for its answer
_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


@asynccontextmanager
async def connect_http(server: Server, lost: Disconnect) -> AsyncIterator[tuple[Any, Any]]:
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
    """Refuses compressed or oversized responses, and turns failures of requests into errors. With a guard, each request
    goes to an address that was checked for it.

    A call is never sent to where a redirect leads, since it may have been executed. A server that redirects was asked
    something else before, and where that led is where calls are sent.
    """

    def __init__(self, lost: Disconnect, guard: SsrfGuard | None) -> None:
        super().__init__()
        self._lost = lost
        self._guard = guard
        self._moved: dict[str, httpx2.URL] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method != "POST":
            return await self._exchange(request)
        asked = f"{request.url}"
        request.url = self._moved.get(asked, request.url)
        try:
            response = await self._exchange(request)
            if response.is_redirect and b'"tools/call"' not in request.content:
                self._moved[asked] = request.url.join(response.headers["location"])
                return response
            return await self._make_readable(request, response)
        except httpx2.TransportError as error:
            return _make_failure_response(
                request, str(error) or type(error).__name__, sent=not isinstance(error, _UNSENT)
            )

    async def _exchange(self, request: httpx2.Request) -> httpx2.Response:
        await self._check(request)
        try:
            response = await super().handle_async_request(request)
        except _UNSENT as error:
            self._lost.unreachable = isinstance(error, httpx2.ConnectError)
            self._lost.mark_lost(f"it cannot be reached: {error or type(error).__name__}")
            raise
        coding = response.headers.get("content-encoding", "identity")
        if coding != "identity":
            await response.aclose()
            self._lost.mark_lost(f"its answer is packed ({coding[:20]}), which was not asked for")
            raise httpx2.ReadError(self._lost.reason)
        limited = _Lines if _read_content_type(response) == "text/event-stream" else _Limited
        response.stream = limited(response.stream, self._lost)
        return response

    async def _make_readable(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        """Return the response with a body that the SDK understands. A body is read whole unless it is a stream."""
        if response.status_code == 202 or (response.is_success and _read_content_type(response) == "text/event-stream"):
            return response
        try:
            body = await response.aread()
        finally:
            await response.aclose()
        try:
            messages = read_messages(body)
        except ValueError:
            messages = []
        if response.is_success and messages:
            events = b"".join(b"data: %s\n\n" % write_message(one) for one in messages)
            headers = {name: one for name, one in response.headers.items() if name == MCP_SESSION_ID}
            return httpx2.Response(200, headers=headers | {"content-type": "text/event-stream"}, content=events)
        said = next((one.error.message for one in messages if isinstance(one, JSONRPCError)), "")
        text = f"it answered {response.status_code}{f': {said}' if said else ''}"
        return _make_failure_response(request, text, sent=True, status=response.status_code)

    async def _check(self, request: httpx2.Request) -> None:
        if self._guard is None:
            return
        try:
            way = await self._guard.route(str(request.url))
        except ToolError as error:
            self._lost.unreachable = True
            self._lost.mark_lost(str(error))
            raise httpx2.ConnectError(str(error)) from error
        request.url = request.url.copy_with(host=next((ip for ip in way.ips if ":" not in ip), way.ips[0]))
        request.extensions = {**request.extensions, "sni_hostname": way.server.host}


def _read_content_type(response: httpx2.Response) -> str:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


def _make_failure_response(request: httpx2.Request, message: str, *, sent: bool, status: int = 0) -> httpx2.Response:
    """Return the answer to a request that failed. `status` is the server's, if it was about a session."""
    data = {"sent": sent, "status": status if MCP_SESSION_ID in request.headers else 0}
    error = {"code": OWN_FAILURE, "message": message, "data": data}
    return httpx2.Response(400, json={"jsonrpc": "2.0", "id": None, "error": error})


class _Limited(httpx2.AsyncByteStream):
    """A body of limited size."""

    def __init__(self, inner: Any, lost: Disconnect) -> None:
        self._inner = inner
        self._lost = lost

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._inner:
            size += len(chunk)
            self._check(size)
            yield chunk

    def _check(self, size: int) -> None:
        if size > MAX_MESSAGE:
            self._lost.mark_lost(f"it sent more than {MAX_MESSAGE:,} bytes at once")
            raise httpx2.ReadError(self._lost.reason)

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Lines(_Limited):
    """A stream of events with lines of limited size, whose messages can be read."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        begun = bytearray()
        async for chunk in self._inner:
            begun += chunk
            if b"\n" in chunk or b"\r" in chunk:
                *lines, last = bytes(begun).splitlines(keepends=True)
                begun = bytearray()
                if last.endswith((b"\n", b"\r")):
                    lines.append(last)
                else:
                    begun += last
                yield b"".join(map(_rewrite_line, lines))
            self._check(len(begun))
        yield bytes(begun)


def _rewrite_line(line: bytes) -> bytes:
    if not line.startswith(b"data:"):
        return line
    try:
        messages = read_messages(line[5:].strip())
    except ValueError:
        return line
    return b"\n\n".join(b"data: %s" % write_message(one) for one in messages) + b"\n"
