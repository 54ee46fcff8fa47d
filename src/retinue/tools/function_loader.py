"""Functions of Python files as tools: imported here, or called in a subprocess with its own environment variables.

Imports happen when tools are built, not during checks.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import inspect
import json
import logging
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from .._internal.containment import call_contained, describe_error
from .._internal.redaction import redact, register_named_secrets
from ..core.run_context import idempotency_key
from ..core.tools.tool import Tool
from ..errors import DataError, ForeignExit, NotDone, ToolError

MAX_RESULT = 1_000_000  # bytes
MAX_NOTE = 20_000  # bytes of standard error that are logged
KEY = "RETINUE_IDEMPOTENCY_KEY"
logger = logging.getLogger(__name__)
_WORKER = Path(__file__).with_name("subprocess_worker.py")


def load_module(file: Path) -> ModuleType:
    """Import a Python file as a module with a unique name. Raises `DataError` if that fails."""
    name = f"retinue_tools_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}_{file.stem}"
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise DataError(f"{file} is not a Python file")
    module = module_from_spec(spec)
    sys.modules[name] = module  # required by dataclasses and others
    try:
        call_contained(spec.loader.exec_module, module)
    except Exception as error:
        del sys.modules[name]
        raise DataError(f"{file.name} cannot be imported: {describe_error(error)}") from error
    return module


def find_function(module: ModuleType, name: str) -> Any:
    """Return the function or `Tool` called `name` that `module` itself defines. Raises `DataError`."""
    found = getattr(module, name, None)
    if found is None:
        raise DataError(f"{_name_module(module)} has no {name!r}")
    home = getattr(found.something if isinstance(found, Tool) else found, "__module__", None)
    if home != module.__name__ or not (callable(found) or isinstance(found, Tool)):
        raise DataError(f"{name!r} is not a function defined by {_name_module(module)}")
    return found


def find_tool(module: str, name: str) -> Tool:
    """Return the `Tool` called `name` from a module that may be imported. Raises `DataError`."""
    try:
        found = find_function(call_contained(import_module, module), name)
    except (ImportError, ForeignExit) as error:
        raise DataError(f"{module} cannot be imported: {error}") from error
    if not isinstance(found, Tool):
        raise DataError(f"{module}.{name} is not marked as a tool with @tool")
    return found


def read_described_tools(module: ModuleType) -> list[Any]:
    """Return the result of the module's `tools_descriptions()`. Raises `DataError`."""
    give = getattr(module, "tools_descriptions", None)
    if not callable(give):
        raise DataError(f"{_name_module(module)} has no function tools_descriptions()")
    try:
        given = call_contained(give)
    except Exception as error:
        raise DataError(f"{_name_module(module)}: tools_descriptions() failed: {describe_error(error)}") from error
    if not isinstance(given, list | tuple):
        raise DataError(f"{_name_module(module)}: tools_descriptions() returned a {type(given).__name__}; want a list")
    return list(given)


def pick_output(function: Callable[..., Any], output: str | None) -> Callable[..., Any]:
    """Wrap `function` so that a mapping result with the key `output` is replaced by the value under that key."""
    if output is None:
        return function

    def picked(value: Any) -> Any:
        return value[output] if isinstance(value, dict) and output in value else value

    async def picked_later(value: Awaitable[Any]) -> Any:
        return picked(await value)

    @wraps(function)
    def now(*args: Any, **kwargs: Any) -> Any:
        value = function(*args, **kwargs)
        return picked_later(value) if inspect.isawaitable(value) else picked(value)

    return now


def _name_module(module: ModuleType) -> str:
    return Path(module.__file__).name if module.__file__ else module.__name__


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
        noting = asyncio.create_task(_log_errors(process, function))
        try:
            said = await _exchange_messages(process, task.encode())
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # kills its children as well
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            await asyncio.wait([noting], timeout=1.0)  # a process that left the group may keep the pipe open
            noting.cancel()
        try:
            answer = json.loads(said)
        except ValueError as error:
            raise ToolError("its process ended without a result") from error
        if "error" in answer:
            kinds = tuple(answer.get("kinds", ()))
            raise (NotDone if NotDone.__name__ in kinds else ToolError)(str(answer["error"]), kinds=kinds)
        return answer["value"]

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


async def _log_errors(process: Process, function: str) -> None:
    """Log the process's standard error, with secrets redacted."""
    assert process.stderr is not None
    said = bytearray()
    while chunk := await process.stderr.read(65_536):
        said += chunk[: MAX_NOTE - len(said)]
    if text := said.decode("utf-8", "replace").strip():
        logger.warning("%s said: %s", function, redact(text))
