"""A tool's function in a process of its own: with its own environment variables, killed when its time is up."""

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
from ..core.toolbox import idempotency_key
from ..errors import NotDone, ToolError

MAX_RESULT = 1_000_000  # bytes
MAX_NOTE = 20_000  # bytes of what it says on standard error
KEY = "RETINUE_IDEMPOTENCY_KEY"
logger = logging.getLogger(__name__)
_WORKER = Path(__file__).with_name("subprocess_worker.py")


def in_subprocess(
    file: Path, function: str, environment: Mapping[str, str], python: Path = Path(sys.executable)
) -> Callable[..., Awaitable[Any]]:
    """A function that calls `function` of `file` in a new process each time: with the server's environment
    and these variables in it, in the file's folder, under the interpreter `python`; the call's idempotency key is
    in `RETINUE_IDEMPOTENCY_KEY`. Raises `ToolError`, with the `kinds` of what the function raised."""

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
            said = await _said(process, task.encode())
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # also what it has started itself
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            await asyncio.wait([noting], timeout=1.0)  # no longer: what left the group may hold its end of the pipe
            noting.cancel()
        return _value(said)

    return call


async def _said(process: Process, task: bytes) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(ConnectionError):  # it ended before it had read all
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
    """Log what the process says beside its result: all of it may be what the variables are kept secret for."""
    assert process.stderr is not None
    said = bytearray()
    while chunk := await process.stderr.read(65_536):
        said += chunk[: MAX_NOTE - len(said)]
    if text := said.decode("utf-8", "replace").strip():
        logger.warning("%s said: %s", function, redact(text))


def _value(said: bytes) -> Any:
    try:
        answer = json.loads(said)
    except ValueError as error:
        raise ToolError("its process ended without a result") from error
    if "error" in answer:
        kinds = tuple(answer.get("kinds", ()))
        raise (NotDone if NotDone.__name__ in kinds else ToolError)(str(answer["error"]), kinds=kinds)
    return answer["value"]
