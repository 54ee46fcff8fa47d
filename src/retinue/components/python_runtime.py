"""`PythonRuntime` and `CodeInterpreter`: run Python code written by a model in a sandbox."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count
from textwrap import dedent
from typing import Any, ClassVar

from .._internal.concurrency import run_in_thread
from ..core.component import Component
from ..errors import ToolError
from .sandbox import Sandbox, SandboxLimits

MAX_CODE = 100_000  # characters
MAX_VALUES = 10_000  # values in a result, and
MAX_TEXT = 200_000  # characters
_DEPTH = 50
_INTEGER = 14_000  # bits, within Python's limit for converting integers to text
_VARIABLE = "final_result"
_BLOCK = re.compile(r"^[ \t]*```([^`\n]*)\n(.*?)(?:^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE)
_PYTHON = ("", "python", "python3", "py")


class PythonRuntime(Component):
    """Runs Python in a sandbox without files, network or packages, and within `limits`.

    The code is `python_runtime_input`, or `query` if that is the only input: a text, from which fences are removed, or
    a list of texts as `PromptNode` returns it, of which the first is run. The output `results` is the value of
    `final_result`, or else of the last expression, or else the printed text.

    `limits` are `SandboxLimits`, or a mapping of those that differ from the defaults. Raises `UsageError` for invalid
    limits, and without the extra `sandbox`.
    """

    effects = "read"

    outputs: ClassVar[Mapping[str, Any]] = {"results": Any}
    outgoing_edges = 1

    def __init__(
        self, limits: SandboxLimits | Mapping[str, float] = SandboxLimits(), *, name: str = "PythonRuntime"
    ) -> None:
        self.name = name
        limits = limits if isinstance(limits, SandboxLimits) else SandboxLimits.of(limits)
        self.given["limits"] = limits.others() or None
        self._sandbox = Sandbox(limits)

    async def run_async(
        self, python_runtime_input: str | list[str] | None = None, query: str | list[str] | None = None
    ) -> dict[str, Any]:
        """Runs Python code; the result is the value of final_result, else of the last expression, else what it printed.
        Modules such as math, json, re, datetime, decimal, random, itertools and collections are there; statistics,
        fractions, heapq, operator, string, enum and packages such as numpy are not, nor are files, network, input(),
        yield, class inheritance, del and `import *`. Methods can be called but not passed on (key=lambda k: d.get(k),
        not key=d.get), and next() wants iter(…).

        Raises `ToolError` for whatever is wrong with the code, or with what it does.
        """
        code = extract_code(query if python_runtime_input is None else python_runtime_input)
        return {"results": convert_to_plain(await run_in_thread(self._sandbox.run, code, _VARIABLE))}


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
        printed, value = await run_in_thread(partial(self._sandbox.interact, extract_code(code), dict(given or {})))
        shown = [printed.rstrip("\n"), "" if value is None else repr(convert_to_plain(value))]
        return "\n".join(filter(None, shown))


def extract_code(given: str | Sequence[str] | None) -> str:
    """Extract the code from a model's reply. Raises `ToolError`."""
    text = given if isinstance(given, str) else next(iter(given or ()), "")
    if len(text) > MAX_CODE:
        raise ToolError(f"the code is longer than {MAX_CODE:,} characters")
    blocks = [(kind.strip().lower(), code) for kind, code in _BLOCK.findall(text)]
    python = [code for kind, code in blocks if kind in _PYTHON] or [code for _, code in blocks]
    code = dedent("\n".join(python) if python else text).strip()
    if "\n" not in code:
        code = code.strip("`").strip()
    if not code:
        raise ToolError("there is no code to run")
    return code


def convert_to_plain(value: Any) -> Any:
    """Convert `value` from a sandbox to plain data; objects of the program's own types become their names.

    A small list can expand to billions of values, and a number to billions of digits. Raises `ToolError` if it is too
    large.
    """
    values, characters = count(1), 0

    def convert(value: Any, depth: int = 0) -> Any:
        nonlocal characters
        if next(values) > MAX_VALUES or depth > _DEPTH:
            raise ToolError("the result is too large; give a smaller one, such as a count, a part or a sum")
        if isinstance(value, bool | float | complex) or value is None:
            return value
        if isinstance(value, int):
            if value.bit_length() > _INTEGER:
                raise ToolError("the result is a number of more than 4,000 digits; give a smaller one")
            return value
        if isinstance(value, dict):
            return {convert(key, depth + 1): convert(item, depth + 1) for key, item in value.items()}
        for kind in (list, tuple, set, frozenset):
            if isinstance(value, kind):
                return kind(convert(item, depth + 1) for item in value)
        foreign = type(value).__module__.startswith("pydantic_monty")
        said = f"<{getattr(value, 'name', 'object')}>" if foreign else str(value)  # also a date, a Decimal, bytes
        characters += len(said)
        if characters > MAX_TEXT:
            raise ToolError(f"the result is longer than {MAX_TEXT:,} characters; give a shorter one")
        return said

    return convert(value)
