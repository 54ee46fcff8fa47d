"""`auto` chooses a strategy by the engine's capabilities when a run begins; `preset` chooses one for `retinue ask`."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..core.protocols import Flow, Strategy, Task, needs_tools
from .react import React
from .tool_calling import ToolCalling


@dataclass(frozen=True)
class Auto:
    """Chooses `tool_calling` if native tool calls were probed and work, and otherwise `react`.

    `react` is also chosen if the engine has constrained decoding or a script. Without tools, the run is a plain
    conversation. A run is recorded under the name of the chosen strategy. `calling` is used as `tool_calling`.
    """

    calling: ToolCalling = field(default_factory=ToolCalling)
    name: str = "auto"
    native: bool = True

    def __call__(self, task: Task) -> Flow:
        """Run the strategy chosen for `task`."""
        return self.choose_strategy(task)(task)

    def choose_strategy(self, task: Task, recorded: str = "") -> Strategy:
        """Return the strategy for a run of `task`; for a `recorded` run, the one its log names."""
        known: dict[str, Strategy] = {one.name: one for one in (self.calling, React())}
        calls = not task.tools or (task.calls_tools and not (task.constrained or task.scripted))
        return known.get(recorded) or known[self.calling.name if calls else "react"]


def preset_strategy(engine: str, *, searches: bool) -> str:
    """Return the name of the strategy that `retinue ask` uses if none is named: `careful` or `auto`.

    `careful` is for small models that have something to search. The models of the engine `local` are small, since they
    run on the user's own processor. Of a model behind a server nobody can tell its size, so it keeps `auto`.
    """
    return "careful" if searches and engine == "local" else "auto"


def find_usual_steps(strategy: str) -> int:
    """Return how many replies a question may take with the strategy of this name, if the user sets no limit."""
    return 60 if strategy == "careful" else 10  # the replies of `careful` are a few words each, and it takes up to 40


def choose_strategy(strategy: Strategy, task: Task, recorded: str = "") -> Strategy:
    """Return the strategy for a run of `task` by an agent with `strategy`.

    A strategy that requires tools (`needs_tools`) is replaced by a plain conversation if there are none. `recorded` is
    the name in the log of a recorded run.
    """
    if isinstance(strategy, Auto):
        return strategy.choose_strategy(task, recorded)
    if not task.tools and needs_tools(strategy):
        return ToolCalling()
    return strategy
