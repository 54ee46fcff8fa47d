"""The parts of an agent, from Retinue's parameters and those of other frameworks: model, strategy, budget."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..agent import Agent
from ..core.budgets import Budget, Limits, with_limits
from ..core.effects import Human
from ..core.protocols import Model, Strategy
from ..core.tool import Tool
from ..errors import UsageError
from ..executor import Executor
from ..models import PromptModel
from ..models.reply_limits import limited
from ..net.time_limits import TimeLimits
from ..strategies import STRATEGIES
from ..strategies.auto import Auto
from ..strategies.planexec import Planner
from ..strategies.react import React
from .environment import resolve
from .places import Found, unknown
from .specs import AgentSpec, FileSpec

_SAMPLING = ("top_p", "top_k", "repetition_penalty")
_QUESTION = re.compile(r"\$(question|query|\{question\}|\{query\})(?![A-Za-z0-9_])")
_NOT_RESOLVED = ("tools", "answer_schema", "script", "questions")


@dataclass(frozen=True, slots=True)
class Parts:
    """An agent's given parameters, with environment variables resolved, and the variables that are missing."""

    params: Mapping[str, Any]
    missing: tuple[Found, ...]

    @classmethod
    def of(cls, spec: FileSpec, index: int, environ: Mapping[str, str]) -> Parts:
        """Return the parameters of the file's agent number `index`."""
        given = (spec.agents or [])[index].params.model_dump(exclude_unset=True)
        given = {name: value for name, value in given.items() if value is not None}
        own = {name: value for name, value in given.items() if name not in _NOT_RESOLVED}
        found = resolve(own, environ, ("agents", index, "params"))
        return cls(given | found.value, found.missing)


def agent_of(
    spec: AgentSpec, params: Mapping[str, Any], named: Mapping[str, Any], tools: Iterable[Tool], human: Human | None
) -> Agent:
    """Build the agent. `named` holds the components that the file names: its model or prompt node, and its memories."""
    tools = list(tools)
    asked = params.get("require_human_feedback")
    if isinstance(asked, list) and (wrong := [name for name in asked if name not in {tool.name for tool in tools}]):
        raise UsageError(f"require_human_feedback: {unknown('tool', wrong[0], [tool.name for tool in tools])}")
    common: dict[str, Any] = {
        "tools": tools,
        "budget": budget_of(params),
        "name": spec.name,
        "human": human,
        "require_human_feedback": params.get("require_human_feedback", False),
    }
    if params.get("role") == "executor":
        return Executor(**common)
    if "prompt_node" not in named:
        common["model"] = named.get("model") or model_of({**params, "models": named.get("models")})
    agent = Agent(
        strategy=_strategy(params),
        answer_schema=params.get("answer_schema"),
        memory=named["memory"],
        questions=params.get("questions", ()),
        **common,
        **_prompting(named),
    )
    words = [params.get(key, "") for key in ("instructions", "role_description", "custom_prompt")]
    if _QUESTION.search(words[-1]) and isinstance(agent.strategy, React | Auto):
        react = agent.strategy if isinstance(agent.strategy, React) else React()
        agent.strategy = replace(react, prompt=words.pop())
    agent.instructions = "\n".join(word.strip() for word in words if word.strip())
    return agent


def model_of(params: Mapping[str, Any]) -> Model:
    """Build the model described by an agent's own parameters."""
    names = {"llm_engine": "engine", "llm_endpoint_url": "base_url", "api_key": "api_key", "script": "script"}
    names |= {name: name for name in ("temperature", "effort", "verbosity", "thinking_tokens", "stream")}
    names |= {name: name for name in ("models", "fall_back_on") if params.get(name)}
    given: dict[str, Any] = {name: params[key] for key, name in names.items() if key in params}
    name = params.get("model", params.get("llm_model_id", ""))
    if sampling := {key: params[key] for key in _SAMPLING if key in params}:
        given["options"] = sampling
    if seconds := params.get("timeout"):
        given["limits"] = TimeLimits(min(10.0, seconds), seconds, seconds)
    return limited(PromptModel(name, **given), max_tokens=params.get("max_new_tokens"))


def budget_of(params: Mapping[str, Any]) -> Budget:
    """Return the limits, under any of their names."""
    budget = Budget(**params.get("budget", {}))  # `null` means no limit
    return with_limits(budget, {name: params[name] for name in Limits.__annotations__ if name in params})


def _strategy(params: Mapping[str, Any]) -> Strategy:
    name = params.get("strategy", "auto")
    if params.get("role") == "planner":
        asked = bool(params.get("require_human_feedback")) or name == "humanInLoopPlanExec"
        return Planner(approve=asked)
    return STRATEGIES[name]


def _prompting(named: Mapping[str, Any]) -> dict[str, Any]:
    return {"prompt_node": named["prompt_node"]} if "prompt_node" in named else {}
