"""The subprocess side of `make_subprocess_function`: calls one function as described on stdin, and writes its result.

Run as a script by whatever interpreter has the tool's packages; uses only the standard library.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any


def main() -> None:
    """Read the task, run it, and write `{"value": …}`, or `{"error": …, "kinds": [names of its classes]}`."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # output printed by the tool is not its result
    task = json.loads(sys.stdin.buffer.read())
    process, status = os.getpid(), 0
    try:
        said = json.dumps({"value": _call_function(task)}, default=_simplify_value)
    except BaseException as error:
        kinds = [kind.__name__ for kind in type(error).__mro__]
        text = str(error) if "ToolError" in kinds else f"{kinds[0]}: {error}"
        said = json.dumps({"error": text, "kinds": kinds})
        status = error.code if isinstance(error, SystemExit) and isinstance(error.code, int) else 1
    if os.getpid() != process:  # a forked child of the function; its output is not the result
        os._exit(status & 0xFF)
    out.write(said)
    out.close()


def _call_function(task: dict[str, Any]) -> Any:
    spec = spec_from_file_location("retinue_tool", task["file"])
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["retinue_tool"] = module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module, task["function"])
    function = getattr(function, "something", function)  # unwrap @tool
    if getattr(function, "__module__", None) != "retinue_tool":
        raise ValueError(f"{task['function']} is no function that this file defines")
    value = function(**task["arguments"])
    if inspect.isawaitable(value) or isinstance(value, AsyncIterator):
        import asyncio

        value = asyncio.run(_finish(value))
    if isinstance(value, Iterator):
        value = list(value)
    if inspect.isroutine(value) or hasattr(value, "gen"):
        raise TypeError(f"it returned a {type(value).__name__}, which nobody called or entered")
    return value


async def _finish(value: Any) -> Any:
    while inspect.isawaitable(value):
        value = await value
    return [item async for item in value] if isinstance(value, AsyncIterator) else value


def _simplify_value(value: Any) -> Any:
    """Return a simpler form of a value that JSON lacks; a library's own is known by a method's name."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if is_dataclass(value) and hasattr(value, "content"):
        return value.content
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    for name in ("model_dump", "to_string", "tolist", "isoformat"):
        if callable(form := getattr(type(value), name, None)):
            return form(value)
    return getattr(value, "content", None) or str(value)


if __name__ == "__main__":
    main()
