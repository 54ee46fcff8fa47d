"""Every strategy in a run that is forced to stop."""

from __future__ import annotations

from typing import Any

import pytest

from retinue import Agent, Budget, Decision, PromptModel, StopReason, tool
from retinue.core.events import Asked
from retinue.core.values import AgentAction
from retinue.strategies import STRATEGIES

every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)


@tool(effects="read")
def lookup(name: str) -> str:
    """Look somebody up."""
    return f"{name} is known"


def approve(action: AgentAction, problem: str) -> Decision:
    return Decision("approve")


def agent(strategy: str, *script: Any, **budget: Any) -> Agent:
    model = PromptModel(script=[*script])
    return Agent(model, [lookup], strategy=strategy, budget=Budget(**budget), human=approve)


def calls(count: int) -> list[dict[str, Any]]:
    """A model that looks up one person after another, whoever asks."""
    first = {"when": "^(?!.*known)", "call": {"tool": "lookup", "input": "p0"}}
    more = [{"when": f"p{at} is", "call": {"tool": "lookup", "input": f"p{at + 1}"}} for at in range(count)]
    return [*reversed(more), first]


@every_strategy
def test_force_stops_without_another_call(strategy: str) -> None:
    result = agent(strategy, *calls(30), steps=4, early_stopping_method="force").run("Who?")
    assert result.stop_reason is StopReason.MAX_ITERATION_EXCEEDED
    assert result.answer == ""
    assert result.evidence
    assert not any(event.closing for event in result.events if isinstance(event, Asked))
    assert result.usage.requests == 4
