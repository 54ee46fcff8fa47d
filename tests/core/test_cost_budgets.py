"""What runs cost: prices of models, budgets of cost, and how a team shares one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from retinue import Agent, Budget, PromptModel, StopReason, Usage, UsageError
from retinue.core.budgets import BudgetSpent, Meter
from retinue.core.events import Replied
from retinue.core.prices import Price
from retinue.core.values import Observation

PRICE = {"input": 1_000_000, "output": 2_000_000}  # a word costs 1 or 2


def look(place: str) -> str:
    """Look at a place."""
    return f"It rains in {place}."


def looks(number: int) -> list[dict[str, Any]]:
    """So many looks at places, one after the other."""
    return [
        {"when": "", "call": {"tool": "look", "input": {"place": f"Town {at}"}}, "times": 1} for at in range(number)
    ]


def model(*script: Any, **more: Any) -> PromptModel:
    return PromptModel(script=list(script), price=PRICE, **more)


def agent(*script: Any, **more: Any) -> Agent:
    return Agent(model(*script), more.pop("tools", [look]), strategy="tool_calling", **more)


def test_usage_has_its_cost_and_adds_up() -> None:
    usage = Price.of({"input": 2, "output": 8, "cached": 0.5}).priced(Usage(3_000_000, 1_000_000, 1_000_000, 1))
    assert usage.cost == 2 * 2 + 0.5 + 8
    assert (usage + usage).cost == 25
    assert Price.of({"input": 2, "output": 8}).priced(Usage(3, 1, 1)).cost == (3 * 2 + 8) / 1_000_000


@given(st.builds(Usage, *[st.integers(0, 10**9)] * 2), st.floats(0, 1e6), st.floats(0, 1e6))
def test_a_cost_is_never_less_than_nothing(usage: Usage, read: float, written: float) -> None:
    assert Price.of({"input": read, "output": written}).priced(usage).cost >= 0


@pytest.mark.parametrize(
    ("price", "said"),
    [
        ({"input": 1}, "'output' is missing"),
        ({"input": 1, "output": 2, "cashed": 1}, "there is no 'cashed'; .*cached"),
        ({"input": -1, "output": 2}, "input is -1; want 0 or more"),
        ({"input": "1", "output": 2}, "input is '1'"),
        ({"input": True, "output": 2}, "input is True"),
        ({"input": float("inf"), "output": 2}, "input is inf"),
    ],
)
def test_prices_that_are_none(price: Any, said: str) -> None:
    with pytest.raises(UsageError, match=f"^price: .*{said}"):
        PromptModel(script=["Hi"], price=price)


def test_a_result_says_what_the_run_cost() -> None:
    result = agent("Hello there.").run("Hi")
    assert result.usage.cost == result.usage.input_tokens + 2 * result.usage.output_tokens > 0
    assert Agent(PromptModel(script=["Hello."])).run("Hi").usage.cost == 0


def test_a_run_ends_before_it_costs_more() -> None:
    spent = agent(*looks(40), budget=Budget(steps=None, cost=400, early_stopping_method="force")).run("What is it?")
    assert spent.stop_reason is StopReason.COST_BUDGET_EXCEEDED
    *_, last = (one.reply.usage.cost for one in spent.events if isinstance(one, Replied))
    assert 400 <= spent.usage.cost < 400 + last  # what a request costs is known when it is answered
    assert spent.events[-1].detail.startswith("cost: ")  # type: ignore[union-attr]
    assert spent.resumable
    more = agent("Enough.").resume(spent.events, budget=Budget(steps=None, cost=1e9))
    assert more.answer == "Enough."


def test_the_last_request_is_for_an_answer() -> None:
    answered = agent(*looks(3), {"when": "", "say": "Enough."}, budget=Budget(cost=400)).run("Where does it rain?")
    assert answered.answer == "Enough."
    assert answered.usage.cost <= 400


@pytest.mark.parametrize("cost", [0, -1, float("nan")])
def test_a_budget_of_nothing_is_refused(cost: float) -> None:
    with pytest.raises(UsageError, match="cost allows nothing"):
        Budget(cost=cost)


def test_without_prices_a_budget_of_cost_is_refused() -> None:
    wanted = r"a budget of cost needs the prices of the model 'scripted': give it price=\{'input': …, 'output': …\}"
    plain = Agent(PromptModel(script=["Hi"]), name="plain")
    with pytest.raises(UsageError, match=wanted):
        Agent(PromptModel(script=["Hi"]), budget=Budget(cost=1)).run("Hi")
    middle = agent("Hi", tools=[plain], name="middle")
    with pytest.raises(UsageError, match=wanted):  # of a member of a member, before anything is asked
        agent("Hi", tools=[middle], budget=Budget(cost=1)).run("Hi")
    begun = plain.run("Hi").events[:-1]
    with pytest.raises(UsageError, match=wanted):
        plain.resume(begun, budget=Budget(cost=1))


def test_models_that_cost_nothing_say_so() -> None:
    free = PromptModel(script=["Hi"], price={"input": 0, "output": 0})
    assert Agent(free, budget=Budget(cost=1)).run("Hi").answer == "Hi"


def asks(name: str) -> dict[str, Any]:
    return {"when": "", "call": {"tool": name, "input": {"query": "What is it?"}}, "times": 1}


def test_a_team_costs_what_all_its_members_cost_and_no_more_than_its_top_was_given() -> None:
    worker = agent(*looks(40), {"when": "", "say": "It rains."}, name="worker", budget=Budget(steps=None))
    top = agent(asks("worker"), {"when": "", "say": "Enough."}, tools=[worker], budget=Budget(steps=None, cost=2_000))
    result = top.run("Do it.")
    asked = [one for log in (result.events, *result.children.values()) for one in log if isinstance(one, Replied)]
    assert result.steps[0].observations[0].text == "It rains."
    assert 10 < len(asked) < 40
    assert 1_000 < result.usage.cost <= 2_000
    assert result.usage.cost == pytest.approx(sum(one.reply.usage.cost for one in asked))


def test_calls_of_one_step_share_what_is_left_and_nothing_is_shared_when_it_is_spent() -> None:
    meter = Meter(Budget(cost=1.0))
    meter.count_turn([Observation("1", "", usage=Usage(cost=0.25, runs=1))])
    assert meter.divide_rest(3, None).cost == 0.25
    assert Budget(cost=0.1).within(meter.divide_rest(3, None)).cost == 0.1
    assert Budget().within(meter.divide_rest(3, None)).cost == 0.25
    for _ in range(3):
        meter.count_turn([Observation("2", "", usage=Usage(cost=0.25))])
    with pytest.raises(BudgetSpent, match="the team's budget of cost is spent"):
        meter.divide_rest(1, None)


YAML = """
components:
  - name: m
    type: PromptModel
    params:
      engine: scripted
      script: [{say: Hello.}]
      price: {input: 1.25, output: 10, cached: 0.125}
agents:
  - {name: one, params: {model: m, strategy: tool_calling, budget: {cost: 0.5}}}
"""


def test_a_file_gives_prices_and_a_budget(tmp_path: Path) -> None:
    path = tmp_path / "agents.yml"
    path.write_text(YAML)
    one = Agent.load_from_yaml(path)
    assert one.budget.cost == 0.5
    assert one.run("Hi").usage.cost == pytest.approx(one.run("Hi").usage.input_tokens * 1.25e-6 + 1e-5)
    one.save_to_yaml(tmp_path / "again.yml")
    again = Agent.load_from_yaml(tmp_path / "again.yml")
    assert (again.budget, again.model.given["price"]) == (one.budget, {"input": 1.25, "output": 10, "cached": 0.125})  # type: ignore[attr-defined]


def test_the_trace_shows_what_it_cost(capsys: pytest.CaptureFixture[str]) -> None:
    agent("Hello there.", trace=True).run("Hi")
    assert ", cost " in capsys.readouterr().err
