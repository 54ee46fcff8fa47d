"""`auto`: the strategy that suits what the engine can do, chosen when a run begins."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..core.protocols import Flow, Strategy, Task, needs_tools
from .react import React
from .tool_calling import ToolCalling


@dataclass(frozen=True)
class Auto:
    """The strategy: `tool_calling` where native tool calls were tried and work, `react` where they do not, or where
    the engine holds the model to a pattern or answers from a script; without tools, a plain conversation.

    A run is recorded under the name of what was chosen. `calling` is what is taken for `tool_calling`.
    """

    calling: ToolCalling = field(default_factory=ToolCalling)
    name: str = "auto"
    native: bool = True

    def __call__(self, task: Task) -> Flow:
        """The reasoning of what is chosen for `task`."""
        return self.chosen(task)(task)

    def chosen(self, task: Task, recorded: str = "") -> Strategy:
        """What a run of `task` reasons by; of one that is `recorded`, the strategy that its log names."""
        known: dict[str, Strategy] = {one.name: one for one in (self.calling, React())}
        calls = not task.tools or (task.calls_tools and not (task.constrained or task.scripted))
        return known.get(recorded) or known[self.calling.name if calls else "react"]


def choose_strategy(strategy: Strategy, task: Task, recorded: str = "") -> Strategy:
    """What a run of `task` reasons by, of an agent with this `strategy`. One that is of no use without tools
    (its attribute `needs_tools`) is a plain conversation where there are none. `recorded`: as its log names it."""
    if isinstance(strategy, Auto):
        return strategy.chosen(task, recorded)
    if not task.tools and needs_tools(strategy):
        return ToolCalling()
    return strategy
