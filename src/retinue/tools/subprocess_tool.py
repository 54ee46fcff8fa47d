"""Runs a tool's function in a subprocess with its own environment variables, killed on timeout."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from .._internal.redaction import redact, register_named_secrets
from ..core.run_context import idempotency_key
from ..errors import NotDone, ToolError

MAX_RESULT = 1_000_000  # bytes
MAX_NOTE = 20_000  # bytes of standard error that are logged
KEY = "RETINUE_IDEMPOTENCY_KEY"
logger = logging.getLogger(__name__)
_WORKER = Path(__file__).with_name("subprocess_worker.py")


def make_subprocess_function(
    file: Path, function: str, environment: Mapping[str, str], python: Path = Path(sys.executable)
) -> Callable[..., Awaitable[Any]]:
    """Return a function that calls `function` of `file` in a new process each time.

    The process runs in the file's folder under the interpreter `python`, with the server's environment plus these
    variables; `RETINUE_IDEMPOTENCY_KEY` has the call's idempotency key. Raises `ToolError`, with the `kinds` of the
    function's exception.
    """

    register_named_secrets(environment)

    async def call(**arguments: Any) -> Any:
        task = json.dumps({"file": str(file), "function": function, "arguments": arguments}, default=str)
        try:
            process = await asyncio.create_subprocess_exec(
                str(python), "-P", str(_WORKER), stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=file.parent,
                env={**os.environ, **environment, KEY: idempotency_key()}, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise NotDone(f"its process could not be started: {error.strerror}") from error
        noting = asyncio.create_task(_note(process, function))
        try:
            said = await _exchange_messages(process, task.encode())
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # kills its children as well
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            await asyncio.wait([noting], timeout=1.0)  # a process that left the group may keep the pipe open
            noting.cancel()
        return _read_value(said)

    return call


async def _exchange_messages(process: Process, task: bytes) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(ConnectionError):  # it ended before reading everything
        process.stdin.write(task)
        await process.stdin.drain()
    process.stdin.close()
    said = bytearray()
    while chunk := await process.stdout.read(65_536):
        said += chunk
        if len(said) > MAX_RESULT:
            raise ToolError(f"the result is larger than {MAX_RESULT:,} bytes")
    return bytes(said)


async def _note(process: Process, function: str) -> None:
    """Log the process's standard error, with secrets redacted."""
    assert process.stderr is not None
    said = bytearray()
    while chunk := await process.stderr.read(65_536):
        said += chunk[: MAX_NOTE - len(said)]
    if text := said.decode("utf-8", "replace").strip():
        logger.warning("%s said: %s", function, redact(text))


def _read_value(said: bytes) -> Any:
    try:
        answer = json.loads(said)
    except ValueError as error:
        raise ToolError("its process ended without a result") from error
    if "error" in answer:
        kinds = tuple(answer.get("kinds", ()))
        raise (NotDone if NotDone.__name__ in kinds else ToolError)(str(answer["error"]), kinds=kinds)
    return answer["value"]
