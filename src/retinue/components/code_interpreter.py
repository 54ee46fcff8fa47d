"""`CodeInterpreter`: runs Python code written by a model and returns its output."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from .._internal.concurrency import run_in_thread
from .python_runtime import code_in, plain
from .sandbox import Sandbox, SandboxLimits


class CodeInterpreter:
    """A sandbox that behaves like interactive Python. Raises `UsageError` without the extra `sandbox`."""

    effects = "read"

    def __init__(self, limits: SandboxLimits = SandboxLimits()) -> None:
        self._sandbox = Sandbox(limits)

    async def run_async(self, code: str, given: Mapping[str, Any] | None = None) -> str:
        """What `code` prints, and the value of its last expression; `given` are values that it finds, by name. What
        is wrong with it is told as Python does, behind what it printed before.

        Raises `ToolError` if the code was stopped, or its result is too large.
        """
        printed, value = await run_in_thread(partial(self._sandbox.interact, code_in(code), dict(given or {})))
        shown = [printed.rstrip("\n"), "" if value is None else repr(plain(value))]
        return "\n".join(filter(None, shown))
