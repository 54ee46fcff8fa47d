"""The two ways to a server, each with streams of messages from and to it: a child process, or a URL (streamable HTTP).

The process has its own environment and process group, all of which is ended with it. The SDK's own transport accepts
messages of any size, and leaves the server's children running if the server exits.

To a URL, no cookies, proxies or credentials of the environment are used. The SDK tells its waiting calls neither the
status nor whether a request was sent, and a connection that breaks under one of them ends them all. So failures of
requests are answered here, as errors with the code `OWN_FAILURE`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from typing import Any

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import MCP_SESSION_ID, streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage

from .._internal.redaction import redact
from ..errors import ToolError
from ..net.ssrf_guard import SsrfGuard
from .messages import OWN_FAILURE, Disconnect, read_messages, write_message
from .server_address import Server

logger = logging.getLogger(__name__)

MAX_MESSAGE = 16 * 1024 * 1024  # bytes; the result may contain images
GRACE = 1.0  # seconds to exit after its input is closed
_MAX_GARBAGE = MAX_MESSAGE  # bytes of output that is not a message
_TAIL = 2_000  # bytes of error output kept
_LAST_WORDS = 0.5  # seconds to wait for error output after its exit
_TIMEOUT = httpx2.Timeout(10.0, read=None)  # a call's timeout limits the wait for its answer
_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


@contextlib.asynccontextmanager
async def connect_stdio(server: Server, lost: Disconnect) -> AsyncIterator[tuple[Any, Any]]:
    """Start a process of `server`. Yields the streams of messages from and to it. Raises `ToolError` if it cannot be
    started."""
    assert server.command is not None
    try:
        process = await asyncio.create_subprocess_exec(
            server.command, *server.args, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=server.cwd,
            env=get_default_environment() | dict(server.env), start_new_session=True, limit=MAX_MESSAGE,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ToolError(f"{server.name}: {server.command!r} cannot be started: {why}") from error
    inward, reading = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    writing, outward = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as tasks:
            heard = anyio.Event()
            tasks.start_soon(_read_errors, process, lost, heard)
            tasks.start_soon(_read_output, server.name, process, inward, lost, heard)
            tasks.start_soon(_write_input, process, outward)
            try:
                yield reading, writing
            finally:
                tasks.cancel_scope.cancel()
    finally:
        for stream in (inward, reading, writing, outward):
            stream.close()
        with anyio.CancelScope(shield=True):
            await _end_process(process)


async def _read_output(
    name: str,
    process: Process,
    inward: MemoryObjectSendStream[SessionMessage | Exception],
    lost: Disconnect,
    heard: anyio.Event,
) -> None:
    """Read messages from the server. Other lines, which some servers print, are skipped."""
    assert process.stdout is not None
    garbage = 0  # bytes
    with inward, contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        while garbage <= _MAX_GARBAGE:
            try:
                line = await process.stdout.readuntil(b"\n")
                messages = read_messages(line, guess=True)
            except asyncio.IncompleteReadError:
                with anyio.move_on_after(_LAST_WORDS):
                    await heard.wait()
                lost.mark_lost("it ended")
                return
            except asyncio.LimitOverrunError:
                lost.mark_lost(f"it sent more than {MAX_MESSAGE:,} bytes at once")
                return
            except ValueError:
                garbage += len(line)
                if line.startswith((b"{", b"[")):
                    logger.warning("%s wrote what cannot be read: %s", name, redact(repr(line[:200])))
                continue
            for message in messages:
                await inward.send(SessionMessage(message))
        lost.mark_lost("it writes what are no messages")


async def _write_input(process: Process, outward: MemoryObjectReceiveStream[SessionMessage]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(ConnectionError):  # it exited; the reader reports that
        async for message in outward:
            process.stdin.write(write_message(message.message) + b"\n")
            await process.stdin.drain()


async def _read_errors(process: Process, lost: Disconnect, heard: anyio.Event) -> None:
    """Keep the last line of error output, to explain an exit."""
    assert process.stderr is not None
    kept = b""
    while chunk := await process.stderr.read(65_536):
        kept = (kept + chunk)[-_TAIL:]
        lines = kept.decode(errors="replace").strip().splitlines()
        lost.complaint = lines[-1][:300] if lines else ""
    heard.set()


async def _end_process(process: Process) -> None:
    """End the process and its children."""
    assert process.stdin is not None
    process.stdin.close()
    if process.returncode is None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), GRACE)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(TimeoutError):  # a process that left the group may hold its pipes
        await asyncio.wait_for(process.wait(), GRACE)
    process._transport.close()  # type: ignore[attr-defined]


# ── a URL ─────────────────────────────────────────────────────────────────────────────────────────


@contextlib.asynccontextmanager
async def connect_http(server: Server, lost: Disconnect) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the streams of messages from and to `server`."""
    assert server.url is not None
    own = server.headers if server.personal is None else server.personal
    headers = {**own, "Accept-Encoding": "identity"}
    transport = _CarefulTransport(lost, server.guard, (httpx2.URL(server.url), own))
    async with (
        httpx2.AsyncClient(transport=transport, headers=headers, timeout=_TIMEOUT, trust_env=False) as client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=MAX_MESSAGE) as streams,
    ):
        yield streams


class _CarefulTransport(httpx2.AsyncHTTPTransport):
    """Refuses compressed or oversized responses, and turns failures of requests into errors. With a guard, each request
    goes to an address that was checked for it.

    A call is never sent to where a redirect leads, since it may have been executed. A server that redirects was asked
    something else before, and where that led is where calls are sent; another host gets none of the `credentials`,
    which are the configured address and its headers.
    """

    def __init__(
        self, lost: Disconnect, guard: SsrfGuard | None, credentials: tuple[httpx2.URL, Mapping[str, str]]
    ) -> None:
        super().__init__()
        self._lost = lost
        self._guard = guard
        self._credentials = credentials
        self._moved: dict[str, httpx2.URL] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        asked = f"{request.url}"
        if request.method == "POST":
            request.url = self._moved.get(asked, request.url)
        (server, headers), goes = self._credentials, request.url
        upgraded = (goes.host, goes.scheme, server.scheme) == (server.host, "https", "http")
        if not upgraded and (goes.scheme, goes.host, goes.port) != (server.scheme, server.host, server.port):
            for name in headers:
                request.headers.pop(name, None)
        if request.method != "POST":
            return await self._exchange(request)
        try:
            response = await self._exchange(request)
            if response.is_redirect and b'"tools/call"' not in request.content:
                self._moved[asked] = request.url.join(response.headers["location"])
                return response
            return await self._make_readable(request, response)
        except httpx2.TransportError as error:
            sent = not isinstance(error, _UNSENT)
            return _make_failure_response(request, str(error) or type(error).__name__, sent=sent)

    async def _exchange(self, request: httpx2.Request) -> httpx2.Response:
        if self._guard is not None:
            try:
                way = await self._guard.route(str(request.url))
            except ToolError as error:
                self._lost.unreachable = True
                self._lost.mark_lost(str(error))
                raise httpx2.ConnectError(str(error)) from error
            request.url = request.url.copy_with(host=next((ip for ip in way.ips if ":" not in ip), way.ips[0]))
            request.extensions = {**request.extensions, "sni_hostname": way.server.host}
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
        response.stream = _LimitedBody(response.stream, self._lost, lines=_is_stream(response))
        return response

    async def _make_readable(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        """Return the response with a body that the SDK understands. A body is read whole unless it is a stream."""
        if response.status_code == 202 or (response.is_success and _is_stream(response)):
            return response
        try:
            body = await response.aread()
        finally:
            await response.aclose()
        messages: list[JSONRPCMessage] = []
        with contextlib.suppress(ValueError):
            messages = read_messages(body)
        if response.is_success and messages:
            events = b"".join(b"data: %s\n\n" % write_message(one) for one in messages)
            headers = {name: one for name, one in response.headers.items() if name == MCP_SESSION_ID}
            return httpx2.Response(200, headers=headers | {"content-type": "text/event-stream"}, content=events)
        said = next((one.error.message for one in messages if isinstance(one, JSONRPCError)), "")
        text = f"it answered {response.status_code}{f': {said}' if said else ''}"
        return _make_failure_response(request, text, sent=True, status=response.status_code)


def _is_stream(response: httpx2.Response) -> bool:
    kind: str = response.headers.get("content-type", "")
    return kind.partition(";")[0].strip().lower() == "text/event-stream"


def _make_failure_response(request: httpx2.Request, message: str, *, sent: bool, status: int = 0) -> httpx2.Response:
    """Return the answer to a request that failed. `status` is the server's, if it was about a session."""
    data = {"sent": sent, "status": status if MCP_SESSION_ID in request.headers else 0}
    error = {"code": OWN_FAILURE, "message": message, "data": data}
    return httpx2.Response(400, json={"jsonrpc": "2.0", "id": None, "error": error})


class _LimitedBody(httpx2.AsyncByteStream):
    """A body of limited size; with `lines`, a stream of events with lines of limited size, whose messages can be
    read."""

    def __init__(self, inner: Any, lost: Disconnect, *, lines: bool) -> None:
        self._inner = inner
        self._lost = lost
        self._lines = lines

    async def __aiter__(self) -> AsyncIterator[bytes]:
        begun, size = bytearray(), 0
        async for chunk in self._inner:
            ready, size = chunk, size + len(chunk)
            if self._lines:
                begun += chunk
                ready = b""
                if b"\n" in chunk or b"\r" in chunk:
                    lines = bytes(begun).splitlines(keepends=True)
                    begun = bytearray(b"" if lines[-1].endswith((b"\n", b"\r")) else lines.pop())
                    ready = b"".join(map(_rewrite_line, lines))
                size = len(begun)
            if size > MAX_MESSAGE:
                self._lost.mark_lost(f"it sent more than {MAX_MESSAGE:,} bytes at once")
                raise httpx2.ReadError(self._lost.reason)
            yield ready
        yield bytes(begun)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _rewrite_line(line: bytes) -> bytes:
    if line.startswith(b"data:"):
        with contextlib.suppress(ValueError):
            messages = read_messages(line[5:].strip())
            return b"\n\n".join(b"data: %s" % write_message(one) for one in messages) + b"\n"
    return line
