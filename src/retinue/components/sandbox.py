"""`PythonRuntime` and `CodeInterpreter`: run Python code written by a model in a sandbox.

The sandbox is `pydantic-monty`, with a separate worker process for each program. Its sync API is used, in threads: as
of 1.4.0, the async one aborts the whole process at exit after a worker had to be killed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, fields
from importlib.util import find_spec
from itertools import count
from textwrap import dedent
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any, ClassVar, Self

from .._internal.concurrency import run_in_thread
from .._internal.message_text import suggest_name
from .._internal.sync_bridge import run_blocking
from ..core.component import Component
from ..errors import ToolError, UsageError

if TYPE_CHECKING:
    from pydantic_monty import Frame, MontyError, MontySession, ResourceLimits

spawning: Callable[[], AbstractContextManager[None]] = nullcontext
"""Context in which workers are started; a server uses it to redirect their standard error."""
MAX_CODE = 100_000  # characters
MAX_VALUES = 10_000  # values in a result, and
MAX_TEXT = 200_000  # characters
_DEPTH = 50
_INTEGER = 14_000  # bits, within Python's limit for converting integers to text
_VARIABLE = "final_result"
_BLOCK = re.compile(r"^[ \t]*```([^`\n]*)\n(.*?)(?:^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE)
_PYTHON = ("", "python", "python3", "py")
MODULES = (
    "asyncio, base64, bisect, collections, copy, csv, dataclasses, datetime, decimal, functools, hashlib, "
    "itertools, json, math, random, re, time, typing"
)
_KINDS: Mapping[type, str] = {int: "whole number", float: "number"}
_GRACE = 0.5  # seconds beyond its limit before an unresponsive worker is killed
_NOT_YET = "The monty syntax parser does not yet support "
_INSTEAD = {
    "'del'": "use values.pop(key), or make a new list or dict without it",
    "yield": "gather the values in a list and return it",
    "inheritance": "write classes without a base, or functions",
}
_NO_ITERATOR = "'list' object is not an iterator"
_NO_ATTRIBUTE = re.compile(r"(?:type object )?'(\w+)'(?: object)? has no attribute '([a-z]\w*)'")
_BUILT_IN = {one.__name__: one for one in (bytes, dict, float, frozenset, int, list, set, str, tuple)}


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Limits of a program: seconds of computing and of sleeping; bytes of memory; call depth; characters printed;
    suspensions. At most `at_once` programs run concurrently."""

    seconds: float = 2.0
    sleep: float = 1.0
    memory: int = 64_000_000
    recursion: int = 200
    printed: int = 10_000
    suspensions: int = 200
    at_once: int = 4

    def __post_init__(self) -> None:
        for one in fields(self):
            value, kind = getattr(self, one.name), type(one.default)
            fits = isinstance(value, kind | int) and not isinstance(value, bool)
            if not fits or not 0 < value < float("inf"):
                raise UsageError(f"limits: {one.name} must be a positive {_KINDS[kind]}, not {value!r}")

    @classmethod
    def of(cls, given: Mapping[str, float]) -> Self:
        """Return the defaults, overridden by the limits in `given`. Raises `UsageError`."""
        names = [one.name for one in fields(cls)]
        if unknown := [name for name in given if name not in names]:
            raise UsageError(f"limits: no limit {unknown[0]!r}; {suggest_name(unknown[0], names)}")
        values: dict[str, Any] = dict(given)
        return cls(**values)

    def others(self) -> dict[str, float]:
        """Return the limits that differ from the defaults; `of` restores them."""
        return {one.name: value for one in fields(self) if (value := getattr(self, one.name)) != one.default}


class _Sandbox:
    """Runs untrusted programs, each in a fresh process. Raises `UsageError` if `pydantic-monty` is not installed."""

    def __init__(self, limits: SandboxLimits) -> None:
        if find_spec("pydantic_monty") is None:
            raise UsageError("this needs a sandbox for Python; install it: pip install 'retinue[sandbox]'")
        self.limits = limits
        self._places = BoundedSemaphore(limits.at_once)

    @contextmanager
    def open_session(self) -> Iterator[tuple[MontySession, _Printed]]:
        """Yield a session with a worker process, and what receives the program's output. Errors become `ToolError`s."""
        import pydantic_monty as monty

        limits = self.limits
        if not self._places.acquire(timeout=10 * (limits.seconds + limits.sleep)):
            raise ToolError("too many programs are running already; try again later")
        session_limits: ResourceLimits = {
            "max_feed_duration_secs": limits.seconds,
            "max_turn_duration_secs": limits.seconds,
            "max_memory": limits.memory,
            "max_recursion_depth": limits.recursion,
            "max_suspensions": limits.suspensions,
            "max_total_sleep_secs": limits.sleep,
        }
        try:
            pool = monty.Monty(
                min_processes=1,
                max_processes=1,
                max_checkouts_per_worker=1,
                checkout_timeout=10.0,
                request_timeout=limits.seconds + limits.sleep + 2 * _GRACE,
                feed_duration_limit_grace=_GRACE,
                turn_duration_limit_grace=_GRACE,
            )
            with ExitStack() as stack:
                with spawning():
                    stack.enter_context(pool)
                yield stack.enter_context(pool.checkout(limits=session_limits)), _Printed(limits.printed)
        except monty.MontyCrashedError as error:
            limit = f"it did not end within {limits.seconds:g} seconds" if error.timed_out else "it crashed"
            raise ToolError(f"the code was stopped: {limit}") from None
        except monty.MontyError as error:
            raise ToolError(_describe_sandbox_error(error)) from None
        except (RuntimeError, OSError, TypeError, ValueError) as error:  # no worker; an inconvertible value
            raise ToolError(f"the code could not be run: {error}") from error
        finally:
            self._places.release()


class _Printed:
    """Receives the output of `print`. More than `limit` characters end the program."""

    def __init__(self, limit: int) -> None:
        self.text = ""
        self._limit = limit

    def __call__(self, _: str, text: str) -> None:
        if len(self.text) + len(text) > self._limit:
            raise RuntimeError(f"more than {self._limit:,} characters were printed")
        self.text += text


def _describe_sandbox_error(error: MontyError) -> str:
    """Return the kind, text and place of the error in a form useful to a model."""
    what = error.exception()
    said = " ".join(str(what).split())[:500]
    if said.startswith(_NOT_YET):
        lacking = said.removeprefix(_NOT_YET)
        instead = next((way for part, way in _INSTEAD.items() if part in lacking), "write it another way")
        said = f"{lacking} cannot be used here; {instead}"
    if isinstance(what, ModuleNotFoundError):
        said += f"; there are: {MODULES}"
    frames: list[Frame] = getattr(error, "traceback", list)()
    line = (frames[-1].source_line or "") if frames else ""
    missing = _NO_ATTRIBUTE.fullmatch(said)
    if said == _NO_ITERATOR:
        said += "; a generator expression is a list here: put iter(…) around it"
    elif missing and hasattr(_BUILT_IN.get(missing[1]), missing[2]) and f".{missing[2]}(" not in line:
        said += f"; a method can only be called here, not passed on: write lambda x: x.{missing[2]}(…) or the like"
    where = f" (line {frames[-1].line}: {line.strip()[:100]})" if frames else ""
    return f"{type(what).__name__}: {said}{where}"


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
        self._sandbox = _Sandbox(limits)

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
        return {"results": convert_to_plain(await run_in_thread(self._run_code, code))}

    def run(
        self, python_runtime_input: str | list[str] | None = None, query: str | list[str] | None = None
    ) -> dict[str, Any]:
        """Run `run_async` and block."""
        return run_blocking(self.run_async(python_runtime_input, query))

    def _run_code(self, code: str) -> Any:
        from pydantic_monty import MontyRuntimeError

        with self._sandbox.open_session() as (session, printed):
            value = session.feed_run(code, print_callback=printed)
            try:
                value = session.feed_run(_VARIABLE, print_callback=printed)
            except MontyRuntimeError as error:
                if not isinstance(error.exception(), NameError):
                    raise
        if value is None and printed.text.strip():
            return printed.text.rstrip("\n")  # a program that prints needs no other result
        if value is None:
            raise ToolError(f"the code gave no value; assign the result to {_VARIABLE}, or print it")
        return value


class CodeInterpreter:
    """A sandbox that behaves like interactive Python. Raises `UsageError` without the extra `sandbox`."""

    effects = "read"

    def __init__(self, limits: SandboxLimits = SandboxLimits()) -> None:
        self._sandbox = _Sandbox(limits)

    async def run_async(self, code: str, given: Mapping[str, Any] | None = None) -> str:
        """What `code` prints, and the value of its last expression; `given` are values that it finds, by name. What
        is wrong with it is told as Python does, behind what it printed before.

        Raises `ToolError` if the code was stopped, or its result is too large.
        """
        printed, value = await run_in_thread(self._run_code, extract_code(code), dict(given or {}))
        shown = [printed.rstrip("\n"), "" if value is None else repr(convert_to_plain(value))]
        return "\n".join(filter(None, shown))

    def _run_code(self, code: str, given: dict[str, Any]) -> tuple[str, Any]:
        from pydantic_monty import MontyRuntimeError, MontySyntaxError

        with self._sandbox.open_session() as (session, printed):
            try:
                value = session.feed_run(code, inputs=given, print_callback=printed)
                return printed.text, value
            except (MontyRuntimeError, MontySyntaxError) as error:
                return f"{printed.text}{_describe_sandbox_error(error)}", None


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
