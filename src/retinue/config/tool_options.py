"""A tool's options as a file has them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..core.declared_exceptions import exceptions
from ..core.tool import Tool
from ..core.tool_example import ToolExample
from ..errors import UsageError

_OPTIONS = ("effects", "timeout", "approval", "polls", "return_direct", "reflections", "not_done")


def given_options(tool: Tool, written_as: Tool | None) -> dict[str, Any]:
    """Return the options in which `tool` differs from a plain one. Raises `UsageError` if a file cannot express one.

    A built-in tool that it is `written_as` has its examples already.
    """
    plain = Tool(tool.name, tool.something, takes=tool.takes)
    options = {key: getattr(tool, key) for key in _OPTIONS if getattr(tool, key) != getattr(plain, key)}
    if "not_done" in options:
        options["not_done"] = _not_done(tool)
    if tool.examples != (written_as or plain).examples:
        options["examples"] = [_example(one) for one in tool.examples]
    return options


def _example(example: ToolExample) -> dict[str, Any]:
    given = {key: value for key, value in asdict(example).items() if value}
    return given | {"calls": list(given["calls"])}


def _not_done(tool: Tool) -> str:
    """Return a tool's `not_done` as names. Raises `UsageError` for exceptions that a file cannot name."""
    declared = exceptions(tool.not_done)
    said = ", ".join(one.__name__ for one in declared)
    try:
        same = exceptions(said) == declared
    except ValueError:
        same = False
    if not same:
        raise UsageError(f"tool {tool.name}: not_done cannot be written; a file can only name built-in exceptions")
    return said
