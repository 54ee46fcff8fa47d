"""Seed 003's configurations, from a file alone, with the embedded model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from retinue import Agent, Decision, StopReason

pytestmark = pytest.mark.model

CITIES = """\
def population(city: str) -> str:
    return {"paris": "2,103,000 people live in Paris", "lyon": "520,000 people live in Lyon"}[city.lower()]
"""
TOOLS = """\
population:
  description: useful for looking up how many people live in a city
  callable_api: cities.py:population
  args_schema:
    city: {type: str, description: the name of the city}
"""
AGENT = """\
agents:
  - name: agent
    params:
      role: {role}
      llm_engine: local
      strategy: {strategy}
      require_human_feedback: {feedback}
      recursion_limit: 10
      temperature: 0.0
      tools: {tools}
"""


def written(folder: Path, strategy: str, *, role: str = "agent", feedback: str = "false") -> Agent:
    (folder / "cities.py").write_text(CITIES)
    (folder / "tools.yaml").write_text(TOOLS)
    tools = "tools.yaml" if role == "agent" else "null"
    text = AGENT.format(role=role, strategy=strategy, feedback=feedback, tools=tools)
    (folder / "agent.yml").write_text(text)
    return Agent.load_from_yaml(folder / "agent.yml")


@pytest.mark.parametrize("feedback", ["false", "true"])
@pytest.mark.parametrize("strategy", ["react", "planexec", "humanInLoopPlanExec"])
def test_each_strategy_answers(embedded_model: Path, tmp_path: Path, strategy: str, feedback: str) -> None:
    agent = written(tmp_path, strategy, feedback=feedback)
    asked: list[str] = []

    def human(action: object, problem: str) -> Decision:
        asked.append(problem)
        return Decision("approve")

    agent.human = human
    result = agent.run("How many people live in Lyon?")
    assert result.stop_reason is StopReason.ANSWER, result
    assert "520" in result.answer
    assert any("plan" in problem for problem in asked) is (strategy == "humanInLoopPlanExec")
    assert any("population" in problem for problem in asked) is (feedback == "true")


def test_a_planner_answers_with_a_plan(embedded_model: Path, tmp_path: Path) -> None:
    agent = written(tmp_path, "planexec", role="planner")
    result = agent.run("How many people live in Lyon and in Paris together?")
    assert result.stop_reason is StopReason.ANSWER, result
    steps = json.loads(result.answer)["steps"]
    assert steps
    assert all(isinstance(step, str) for step in steps)
