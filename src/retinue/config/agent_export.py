"""Exports an agent built in code as the parameters of a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from ..agent import Agent
from ..core.budgets import Budget
from ..core.protocols import Strategy
from ..errors import UsageError
from ..executor import Executor
from ..strategies import STRATEGIES
from ..strategies.planexec import Planner
from ..strategies.react import React
from ..strategies.wrappers.prompt_additions import Instructions
from ..strategies.wrappers.wrapper import Wrapper

AddComponent = Callable[[Any, str], str]


def agent_parameters(agent: Agent, add: AddComponent) -> dict[str, Any]:
    """Return the agent's parameters, without its tools. `add` adds a component to the file. Raises `UsageError`."""
    params: dict[str, Any] = {}
    if isinstance(agent, Executor):
        params["role"] = "executor"
    else:
        params |= _strategy(agent, agent.strategy)
        if agent.instructions:
            params["instructions"] = "\n".join(filter(None, (agent.instructions, params.get("instructions"))))
        if agent.questions:
            params["questions"] = list(agent.questions)
        if agent.prompt_node is not None:
            params["prompt_node"] = add(agent.prompt_node, "prompt_node")
        else:
            params["model"] = add(agent.model, "model")
    if memories := [add(memory, "memory") for memory in agent.memories]:
        params["memory"] = memories
    if agent.budget != Budget():
        params["budget"] = {
            one.name: value for one in fields(Budget) if (value := getattr(agent.budget, one.name)) != one.default
        }
    if agent.require_human_feedback and "require_human_feedback" not in params:
        asked = agent.require_human_feedback
        params["require_human_feedback"] = True if asked is True else sorted(asked)
    if agent.schema is not None:
        params["answer_schema"] = dict(agent.schema)
    return params


def _strategy(agent: Agent, strategy: Strategy) -> dict[str, Any]:
    if isinstance(strategy, Wrapper) and isinstance(strategy.reason, Instructions):
        return _strategy(agent, strategy.inner) | {"instructions": strategy.reason.text}
    if isinstance(strategy, Planner) and replace(strategy, approve=False) == Planner():
        return {"role": "planner"} | ({"require_human_feedback": True} if strategy.approve else {})
    if isinstance(strategy, React) and replace(strategy, prompt="") == React():
        template = getattr(agent.prompt_node, "default_prompt_template", None)
        own = strategy.prompt and strategy.prompt != getattr(template, "prompt_text", None)
        return {"strategy": "react"} | ({"custom_prompt": strategy.prompt} if own else {})
    for name, known in STRATEGIES.items():
        if known == strategy:
            return {"strategy": name}
    raise UsageError(f"{agent.name}: the custom strategy {strategy.name} cannot be written; use one of STRATEGIES")
