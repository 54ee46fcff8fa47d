"""`Executor`, which runs tools without a model, and `Planner`, which plans without tools: OPEA's roles."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Unpack

from ._internal.sync_bridge import run_blocking
from .agent import Agent, Human, Run, RunOptions
from .core.budgets import Budget
from .core.prices import FREE
from .core.prompt import Ask
from .core.protocols import Chunks, Model
from .core.run_result import RunResult
from .core.values import Capabilities
from .errors import ModelRefused
from .strategies.given_actions import GivenActions
from .strategies.planexec import Planner as PlannerStrategy

Actions = str | Mapping[str, Any] | Sequence[Mapping[str, Any]]


class Executor(Agent):
    """Runs given actions with an agent's guarantees: checked input, time limits, human approval and a log.

    >>> from retinue.tools import calculator
    >>> Executor([calculator]).run({"tool": "Calculator", "input": "2^3"}).answer
    '8'
    """

    def __init__(
        self,
        tools: Iterable[Any] = (),
        *,
        budget: Budget = Budget(),
        name: str = "executor",
        human: Human | None = None,
        require_human_feedback: bool | Collection[str] = False,
    ) -> None:
        super().__init__(
            NoModel(),
            tools,
            strategy=GivenActions(),
            budget=budget,
            name=name,
            human=human,
            require_human_feedback=require_human_feedback,
        )

    def start(self, question: Actions, **options: Unpack[RunOptions]) -> Run:
        """Create a run of the actions: `{"tool": NAME, "input": …}`, a list of these, or either as JSON."""
        return super().start(question if isinstance(question, str) else json.dumps(question), **options)

    async def run_async(self, question: Actions, **options: Unpack[RunOptions]) -> RunResult:
        """Run the actions; the answer is what the tool said, or for a list, a list of what they said."""
        return await self.start(question, **options).finish()

    def run(self, question: Actions, **options: Unpack[RunOptions]) -> RunResult:
        """Run `run_async` and block."""
        return run_blocking(self.run_async(question, **options))


class Planner(Agent):
    """Makes plans for others to carry out, and uses no tools.

    >>> from retinue import PromptModel
    >>> model = PromptModel(script=["1. Find the director\\n2. Add up the ages\\n"])
    >>> Planner(model).run("How old?").return_values["steps"]
    ['Find the director', 'Add up the ages']

    Args:
        approve: A person decides on each plan, as `human` or when the run is resumed.
        check: The model grades its plan, and may improve it.
        max_steps: The most that a plan may have.

    The other options are `Agent`'s.
    """

    def __init__(
        self,
        model: Model | str = "local",
        *,
        approve: bool = False,
        check: bool = False,
        max_steps: int = 6,
        name: str = "planner",
        **options: Any,
    ) -> None:
        strategy = PlannerStrategy(approve=approve, check=check, max_steps=max_steps)
        super().__init__(model, strategy=strategy, name=name, **options)


class NoModel:
    """Placeholder for an agent's model."""

    name = "no model"
    price = FREE

    async def abilities(self, *, native: bool = False) -> Capabilities:
        """Return no capabilities."""
        return Capabilities()

    def reply(self, request: Ask) -> Chunks:
        """Raise `ModelRefused`."""
        raise ModelRefused("an executor has no model to ask")
