"""Every strategy at its limits: the last step, both ways to stop early, a run cut off and resumed at any event."""

from __future__ import annotations

from typing import Any

import pytest

from retinue import Agent, Budget, Decision, PromptModel, StopReason, tool
from retinue.events import Asked, Called, Event, Finished
from retinue.schema import AgentAction
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
def test_the_last_step_asks_for_nothing_but_an_answer(strategy: str) -> None:
    last = {"when": "p3 is", "finish": "p3"}
    result = agent(strategy, last, *calls(9), steps=6 if strategy.lower().endswith("planexec") else 5).run("Who?")
    assert (result.answer, result.stop_reason) == ("p3", StopReason.ANSWER)
    assert [event.closing for event in result.events if isinstance(event, Asked)][-1]


@every_strategy
def test_force_stops_without_another_call(strategy: str) -> None:
    result = agent(strategy, *calls(30), steps=4, early_stopping_method="force").run("Who?")
    assert result.stop_reason is StopReason.MAX_ITERATION_EXCEEDED
    assert result.answer == ""
    assert result.evidence
    assert not any(event.closing for event in result.events if isinstance(event, Asked))
    assert result.usage.requests == 4


@every_strategy
def test_a_run_cut_off_after_any_event_goes_on_to_the_same_end_and_does_nothing_twice(strategy: str) -> None:
    script = [{"when": "p2 is", "finish": "p2"}, *calls(9)]
    whole = agent(strategy, *script).run("Who?")
    assert whole.answer == "p2"
    log: list[Event] = list(whole.events)
    for cut in range(1, len(log)):
        resumed = agent(strategy, *script).resume(log[:cut])
        assert isinstance(resumed.events[-1], Finished)
        assert resumed.answer == "p2", f"cut after event {cut}"
        made = [event.action for event in resumed.events if isinstance(event, Called)]
        assert len({action.id for action in made}) == len(made)
        assert [action.tool_input for action in made] == [step.actions[0].tool_input for step in whole.steps]


@every_strategy
def test_a_model_that_cannot_keep_to_the_form_ends_the_run_cleanly(strategy: str) -> None:
    result = agent(strategy, {"raw": ""}, steps=20).run("Who?")
    assert result.stop_reason in (StopReason.UNREADABLE_REPLY, StopReason.MAX_ITERATION_EXCEEDED)
    assert result.answer == ""
    assert result.usage.requests <= 20
