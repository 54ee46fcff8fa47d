"""The subprocess side of `in_subprocess`: calls one function as described on stdin, and writes its result.

Run as a script by whatever interpreter has the tool's packages; uses only the standard library.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any


def main() -> None:
    """Read the task, run it, and write `{"value": …}`, or `{"error": …, "kinds": [names of its classes]}`."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # output printed by the tool is not its result
    task = json.loads(sys.stdin.buffer.read())
    process, status = os.getpid(), 0
    try:
        said = json.dumps({"value": _called(task)}, default=_plain)
    except BaseException as error:
        kinds = [kind.__name__ for kind in type(error).__mro__]
        text = str(error) if "ToolError" in kinds else f"{kinds[0]}: {error}"
        said = json.dumps({"error": text, "kinds": kinds})
        status = error.code if isinstance(error, SystemExit) and isinstance(error.code, int) else 1
    if os.getpid() != process:  # a forked child of the function; its output is not the result
        os._exit(status & 0xFF)
    out.write(said)
    out.close()


def _called(task: dict[str, Any]) -> Any:
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
    if inspect.isawaitable(value):
        import asyncio

        value = asyncio.run(_awaited(value))
    return value


async def _awaited(value: Any) -> Any:
    return await value


def _plain(value: Any) -> Any:
    return getattr(value, "content", None) or str(value)


if __name__ == "__main__":
    main()
