"""`Chain`: steps one after another, each getting what the one before said (OPEA's multi-step service)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from ..agent import Agent
from ..core.budgets import Budget
from ..core.loop.effects import Human
from ..errors import UsageError
from ..executor import NoModel
from .graph_flow import GraphFlow
from .message_group import NO_STEPS, MessageGroup
from .role import END, START, HumanGate, Role


class Chain(Agent):
    """An agent that runs steps one after another; the last one's output is its answer.

    >>> Chain([str.strip, str.upper, lambda text: f"{text}!"]).run(" hello ").answer
    'HELLO!'

    Args:
        steps: Each is a `Role`, a `HumanGate`, or what a role can be: an agent, a function, a component or a pipeline.
            The first gets the question, and each other one what the step before it said, or the fields that a `Role`
            names. A step without a name is called after its function, agent or type.

    Raises `UsageError` if there are no steps, and as `MessageGroup.compile` does.
    """

    def __init__(
        self, steps: Iterable[Any], *, name: str = "chain", human: Human | None = None, budget: Budget = NO_STEPS
    ) -> None:
        steps = list(steps)
        group = MessageGroup(name, max_visits=1, max_runs=len(steps))
        names: list[str] = []
        for step in steps:
            role = step if isinstance(step, Role | HumanGate) else Role(_choose_step_name(step, names), step)
            names.append(role.name)
            group.add_role(role)
        if not names:
            raise UsageError(f"the chain {name!r} has no steps; want some: Chain([agent, function])")
        for head, tail in pairwise([START, *names, END]):
            group.add_edge(head, tail)
        plan, tools = group.plan()
        super().__init__(NoModel(), tools, strategy=GraphFlow(plan, "chain"), name=name, human=human, budget=budget)


def _choose_step_name(step: Any, taken: Iterable[str]) -> str:
    given = getattr(step, "__name__", None) or getattr(step, "name", None) or type(step).__name__
    plain = "".join(one if one.isascii() and one.isalnum() else "_" for one in str(given)).strip("_")[:40] or "step"
    names = (plain, *(f"{plain}_{number}" for number in range(2, 1000)))
    return next(name for name in names if name not in taken and name not in (START, END))
