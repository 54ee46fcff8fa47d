"""A server as a child process with its own environment and process group, all of which is ended with it.

The SDK's own transport accepts messages of any size, and leaves the server's children running if the server exits.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from .._internal.redaction import redact
from ..errors import ToolError
from .messages import Disconnect, read_messages, write_message
from .server_address import Server

logger = logging.getLogger(__name__)

MAX_MESSAGE = 16 * 1024 * 1024  # bytes; the result may contain images
GRACE = 1.0  # seconds to exit after its input is closed
_MAX_GARBAGE = MAX_MESSAGE  # bytes of output that is not a message
_TAIL = 2_000  # bytes of error output kept
_LAST_WORDS = 0.5  # seconds to wait for error output after its exit


@asynccontextmanager
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
