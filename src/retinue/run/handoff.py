"""Hand-off: an agent passes the conversation to another one and steps aside."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..core.tools.delegation import HANDOFF
from ..core.tools.tool import Tool
from .spec import RunSpec, Specified

if TYPE_CHECKING:
    from ..core.run_result import RunResult


@dataclass(frozen=True)
class Handoff:
    """Another agent as the one that has the conversation from now on. `find` returns it, so that two agents may hand
    over to each other."""

    find: Callable[[], Any]
    passes_conversation = True

    @property
    def agent(self) -> Any:
        """The other agent."""
        return self.find()

    def run_spec(self) -> RunSpec:
        """Return the specification of the other agent's run."""
        spec: RunSpec = self.agent.run_spec()
        return spec

    async def run_async(self, query: str) -> RunResult:
        """Ask the other agent."""
        result: RunResult = await self.agent.run_async(query)
        return result


def handoff(agent: Specified | Callable[[], Specified], name: str = "", description: str = "") -> Tool:
    """Return a tool by which an agent hands the conversation over to `agent`.

    The other agent sees the conversation so far, and its answer is the run's. On a server, later runs on the same
    thread are its own, until it hands over in turn. The tool is called `transfer_to_` and the agent's name, as in the
    OpenAI Agents SDK, unless there is another `name` of this kind. Agents that hand over to each other are given as
    functions that return them, with names. Raises `UsageError` as `Tool` does.
    """
    find = agent if callable(agent) and not hasattr(agent, "run_spec") else lambda: agent
    called = name or str(getattr(agent, "name", "agent"))
    tool_name = f"{HANDOFF}{re.sub(r'[^A-Za-z0-9_]+', '_', called)}"[:64]
    told = description or f"Hands the conversation over to {called}, who answers from now on. Say why in the input."
    return Tool(tool_name, Handoff(find), told, return_direct=True)
