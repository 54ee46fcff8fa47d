"""Seed 003's configurations, from a file alone, with the embedded model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from fakes.config_files import SEED
from fakes.llamacpp import address, llamacpp_server
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


@pytest.mark.full
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


@pytest.mark.full
def test_a_planner_answers_with_a_plan(embedded_model: Path, tmp_path: Path) -> None:
    agent = written(tmp_path, "planexec", role="planner")
    result = agent.run("How many people live in Lyon and in Paris together?")
    assert result.stop_reason is StopReason.ANSWER, result
    steps = json.loads(result.answer)["steps"]
    assert steps
    assert all(isinstance(step, str) for step in steps)


WORKER = "def search_knowledge_base(query):\n    return {'retrieved_data': 'Thriller sold 70 million copies.'}\n"
FINANCE = (
    "def finqa_agent(query): return {'retrieved_data': 'The cloud unit of Acme had the highest growth in 2024.'}\n"
    "def research_agent(company): return {'report': f'no report on {company}'}\n"
)
SUMMARY = "def summarize(doc_name, company): return {'summary': 'nothing'}\n"


@pytest.mark.long
@pytest.mark.parametrize(
    ("file", "code", "question", "tool", "answer"),
    [
        (
            "opea_worker_agent_tools.yaml",
            {"worker_agent_tools.py": WORKER},
            "How many copies of the album Thriller were sold? Search the knowledge base.",
            "search_knowledge_base",
            "70",
        ),
        (
            "opea_finance_supervisor_agent_tools.yaml",
            {"supervisor_tools.py": FINANCE, "sum_agent_tools.py": SUMMARY},
            "Which business unit of Acme had the highest growth in 2024?",
            "finqa_agent",
            "cloud",
        ),
    ],
    ids=["worker", "finance"],
)
def test_the_tool_files_of_the_seed_answer_over_http(
    embedded_model: Path, tmp_path: Path, file: str, code: dict[str, str], question: str, tool: str, answer: str
) -> None:
    """As seed 003's users have it: a served model, named by `llm_engine` and its address."""
    shutil.copy(SEED.parent / file, tmp_path / "tools.yaml")
    for name, text in code.items():
        (tmp_path / name).write_text(text)
    with llamacpp_server(embedded_model) as server:
        params = {
            "strategy": "react",
            "llm_engine": "llamacpp",
            "llm_endpoint_url": address(server),
            "llm_model_id": "any",
            "recursion_limit": 12,
            "temperature": 0.0,
            "tools": "tools.yaml",
        }
        (tmp_path / "agent.yml").write_text(json.dumps({"agents": [{"name": "agent", "params": params}]}))
        result = Agent.load_from_yaml(tmp_path / "agent.yml").run(question)
    assert result.stop_reason is StopReason.ANSWER, result
    assert tool in [step.actions[0].tool for step in result.steps]
    assert answer in (result.answer or "").lower()
