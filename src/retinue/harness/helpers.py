"""Helpers on demand: `task` gives one a task, and `task_result` reads the answer of one in the background."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from .._internal.message_text import suggest_name
from ..core.tools.delegation import HelperOrder, is_member, makes_helpers
from ..core.tools.helpers import RESULT, reads_helpers
from ..core.tools.tool import Tool
from ..errors import NotDone, UsageError


@dataclass(frozen=True, slots=True)
class Helpers:
    """How many helpers a run may make. All of them stay within its budget, too.

    Args:
        depth: Levels of helpers: 1 means that helpers make none.
        at_once: Helpers of a run that are at work at the same time.
        most: Helpers that one run makes in all.
    """

    depth: int = 2
    at_once: int = 4
    most: int = 20

    def __post_init__(self) -> None:
        for name in ("depth", "at_once", "most"):
            number = getattr(self, name)
            if not isinstance(number, int) or number < 1:
                raise UsageError(f"helpers: {name}: want a whole number of 1 or more, not {number!r:.80}")

    @property
    def tools(self) -> list[Tool]:
        """The tools with which a model has helpers."""
        make = Tool("task", HelperMaker(self), _TASK, effects="once", timeout=math.inf)
        return [make, Tool(RESULT, HelperReader(), _RESULT, effects="read", timeout=math.inf, polls=True)]


_TASK = (
    "Gives a task to a helper, an agent with a conversation of its own, and returns its answer. It sees nothing of "
    "this conversation: `description` has to say all it needs to know, and what to answer. It is either the `agent` of "
    "that name among your tools, or one like you, with further `instructions` and those of your tools that `tools` "
    "names (by default all). With `background`, you go on meanwhile. Several calls at once work side by side."
)
_RESULT = "Returns the answer of a helper in the background, by its id. Waits for it if the helper is still at work."


@dataclass(frozen=True, slots=True)
class HelperMaker:
    """What the tool `task` is. A run knows it by `order_helper`, and runs the helper itself."""

    limits: Helpers = Helpers()

    async def tool_function(
        self,
        description: str,
        agent: str = "",
        instructions: str = "",
        tools: list[str] | None = None,
        background: bool = False,
    ) -> str:
        """Give a task to a helper."""
        raise NotDone("helpers are made within a run")

    def order_helper(self, given: Mapping[str, Any], tools: Mapping[str, Tool]) -> HelperOrder:
        """Return what a call asks for, of a run that has these tools. Raises `UsageError` for more than that."""
        if not str(given["description"]).strip():
            raise UsageError("description: it is empty; say what is to be done")
        agent, background = str(given.get("agent") or ""), bool(given.get("background"))
        words, names = str(given.get("instructions") or ""), given.get("tools")
        own = {name: tool for name, tool in tools.items() if self._can_pass_on(tool)}
        if agent:
            if words or names:
                raise UsageError("a named agent has instructions and tools of its own: leave these out, or the agent")
            agents = [name for name, tool in own.items() if is_member(tool)]
            if agent not in agents:
                there = suggest_name(agent, agents) if agents else "there are none: leave it out"
                raise UsageError(f"agent: {agent[:80]!r} is no agent among your tools; {there}")
            if own[agent].approval:
                raise UsageError(f"agent: a person has to approve each call of {agent}: call it by its own tool")
            return HelperOrder(agent=agent, background=background)
        if unknown := [name for name in names or () if name not in own]:
            why = f"{unknown[0][:80]!r} is none of your tools that a helper can have"
            raise UsageError(f"tools: {why}; {suggest_name(unknown[0], own) if own else 'there are none'}")
        needed = {*own} if names is None else {*names, *([RESULT] if "task" in names else [])}
        wanted = [name for name in own if name in needed]
        asked = [name for name in wanted if own[name].approval]
        return HelperOrder("", words, wanted, asked, self.limits.depth - 1, background)

    def below(self, depth: int) -> HelperMaker:
        """Return what a helper has that may have helpers of so many levels."""
        return replace(self, limits=replace(self.limits, depth=depth))

    def _can_pass_on(self, tool: Tool) -> bool:
        """Whether helpers can have a tool: none that ends the caller's part in its conversation, or that runs at the
        client of its run, nor any for helpers on the last level."""
        if makes_helpers(tool) or reads_helpers(tool):
            return self.limits.depth > 1
        something = tool.something
        return not (getattr(something, "passes_conversation", False) or getattr(something, "is_of_client", False))


@dataclass(frozen=True, slots=True)
class HelperReader:
    """What the tool `task_result` is. A run knows it by `reads_helpers`, and finds the answer itself."""

    reads_helpers = True

    async def tool_function(self, helper: str) -> str:
        """Return what a helper answered."""
        raise NotDone("helpers are made within a run")


task, task_result = Helpers().tools
"""The two tools of helpers, as they are without settings: whoever has one needs the other."""
