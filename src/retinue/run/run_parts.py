"""What is worked out for each run by functions of its context: what its code needs, what its model is told, and which
tools it has."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

from .._internal.concurrency import run_in_thread
from .._internal.containment import await_isolated, describe_error
from ..core.run_context import Deps, RunContext
from ..core.tools.delegation import is_member, makes_helpers
from ..core.tools.tool import Tool, make_tool
from ..errors import UsageError

T = TypeVar("T")
DepsFunction = Callable[[RunContext[None]], Awaitable[Deps]] | Callable[[RunContext[None]], Deps]
Instruction = str | Callable[[RunContext[Deps]], str | Awaitable[str]]
Instructions = str | Sequence[Instruction[Deps]]
"""A text, or parts of one, of which a function of the run's context returns one for each run."""


@dataclass(frozen=True, slots=True)
class DynamicTools(Generic[Deps]):
    """Tools that a run has because a function of its context says so. Each drive of a run calls it again; of what it
    returns then, the run has the tools that it began with, as far as `narrow` keeps them."""

    function: Callable[[RunContext[Deps]], Iterable[Any] | Awaitable[Iterable[Any]]]
    narrow: Callable[[list[Tool]], list[Tool]] = list


def dynamic_tools(
    function: Callable[[RunContext[Deps]], Iterable[Any] | Awaitable[Iterable[Any]]],
) -> DynamicTools[Deps]:
    """Mark a function of a run's context, sync or async, that returns tools for an agent's `tools`.

    >>> @dynamic_tools
    ... def of_staff(context: RunContext) -> list[Tool]:
    ...     return [refund] if context.user in STAFF else []
    """
    return DynamicTools(function)


def read_instructions(given: Instructions[Any] | Instruction[Any] | None) -> str | tuple[Instruction[Any], ...]:
    """Return the instructions of an agent: a text, if no function is among them. Raises `UsageError`."""
    parts: list[Any] = [given or ""] if isinstance(given, str | None) or callable(given) else list(given)
    if wrong := [one for one in parts if not (isinstance(one, str) or callable(one))]:
        raise UsageError(f"instructions: want texts, and functions of the run's context, not {wrong[0]!r:.80}")
    if any(map(callable, parts)):
        return tuple(parts)
    return "\n\n".join(filter(None, map(str.strip, parts)))


async def write_instructions(parts: Collection[Instruction[Any]], context: RunContext[Any]) -> str:
    """Return the instructions of a run. Raises `UsageError` if a function fails or returns no text."""
    texts: list[str] = []
    for one in parts:
        text = one if isinstance(one, str) else await call_for_run("instructions", one, context)
        if not isinstance(text, str):
            raise UsageError(f"instructions: {_name(one)} returned a {type(text).__name__}; want a text")
        texts.append(text.strip())
    return "\n\n".join(filter(None, texts))


async def find_tools(parts: Iterable[DynamicTools[Any]], context: RunContext[Any]) -> list[Tool]:
    """Return the tools that functions give a run. Raises `UsageError` if one fails, or gives an agent: members belong
    to an agent, so that a run that waits for one can be driven elsewhere."""
    found: list[Tool] = []
    for one in parts:
        given = await call_for_run("tools", one.function, context)
        if not isinstance(given, Iterable) or isinstance(given, str):
            raise UsageError(f"tools: {_name(one.function)} returned a {type(given).__name__}; want a list of tools")
        made = [make_tool(tool) for tool in given]
        if members := [tool.name for tool in made if is_member(tool) or makes_helpers(tool)]:
            raise UsageError(f"tools: {_name(one.function)} returned the agent {members[0]}; put it among `tools`")
        found += one.narrow(made)
    return found


async def call_for_run(part: str, function: Callable[[RunContext[Any]], T | Awaitable[T]], context: Any) -> T:
    """Call a function of the context, in a thread if it is not async. Raises `UsageError` if it fails."""

    async def call() -> T:
        called = function if inspect.iscoroutinefunction(function) else partial(run_in_thread, function)
        value: Any = await called(context)
        return await value if inspect.isawaitable(value) else value  # type: ignore[no-any-return]

    try:
        return await await_isolated(call())
    except Exception as error:
        raise UsageError(f"{part}: {_name(function)} failed: {describe_error(error)}") from error


def describe_instructions(parts: str | Iterable[Instruction[Any]]) -> str:
    """Return the instructions of an agent for a person to read: functions by their names."""
    several = [parts] if isinstance(parts, str) else parts
    return "\n\n".join(one if isinstance(one, str) else f"(what {_name(one)} returns)" for one in several)


def with_approval(tool: Tool, asked: bool | Collection[str]) -> Tool:
    """Return the tool as one that a person must approve, if `asked` says so of it or of all."""
    return replace(tool, approval=True) if asked is True or tool.name in (asked or ()) else tool


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))
