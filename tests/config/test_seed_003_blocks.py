"""RFC 003's role blocks as printed: one agent's configuration, or an executor's tools, as a whole file."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.test_files import printed
from retinue import Agent, DataError, Executor
from retinue.config import check
from retinue.config.yaml_files import read_spec_from_environment
from retinue.strategies.planexec import Planner

AGENT = """\
strategy: react
require_human_feedback: false
llm_endpoint_url: http://127.0.0.1:8080
llm_engine: vllm
llm_model_id: my-model
recursion_limit: 5
tools: tools.yaml
"""
TOOLS = """\
population:
  description: how many people live in a city
  callable_api: cities.py:population
  args_schema:
    query:
      type: str
      description: the city
  return_output: answer
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tools.yaml").write_text(TOOLS)
    (tmp_path / "cities.py").write_text("def population(query: str) -> str:\n    return '42'\n")
    return tmp_path


def put(folder: Path, text: str) -> Path:
    path = folder / "block.yaml"
    path.write_text(text)
    return path


def test_an_agents_block_is_an_agent(folder: Path) -> None:
    path = put(folder, AGENT)
    agent = Agent.load_from_yaml(path)
    assert (agent.name, agent.strategy.name, agent.model.name, agent.budget.steps) == ("agent", "react", "my-model", 5)
    assert [tool.name for tool in agent.tools] == ["population"]
    assert Agent.load_from_yaml(put(folder, f"agent_name: guide\n{AGENT}")).name == "guide"
    assert printed("check", path) == f"{path}: no problems found\n"


def test_one_without_tools_may_be_a_planner(folder: Path) -> None:
    block = AGENT.replace("tools: tools.yaml", "role: planner")
    assert isinstance(Agent.load_from_yaml(put(folder, block)).strategy, Planner)


def test_an_executors_block_is_an_executor(folder: Path) -> None:
    executor = Executor.load_from_yaml(folder / "tools.yaml")
    assert isinstance(executor, Executor)
    assert executor.run({"tool": "population", "input": "Paris"}).answer == "42"


def test_a_version_may_stand_above_a_block(folder: Path) -> None:
    path = put(folder, f"retinue: 1\n{AGENT}")
    assert Agent.load_from_yaml(path).strategy.name == "react"
    assert printed("check", path) == f"{path}: no problems found\n"
    assert isinstance(Agent.load_from_yaml(put(folder, f"retinue: 1\n{TOOLS}")), Executor)
    (problem,) = check(put(folder, f"retinue: 9\n{AGENT.replace('react', 'reakt')}"))[:1]
    assert str(problem).startswith(f"{path}:1:10: ")


def test_a_role_and_a_path_from_the_root_may_come_from_the_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    environ = {"role": "planner", "llm_endpoint_url": "http://127.0.0.1:8080", "model": "my-model"}
    agent = (read_spec_from_environment(environ).agents or [])[0]
    assert agent.params.role == "planner"
    here = {**environ, "role": "agent", "tools": str(Path.cwd() / "tools.yaml")}
    agent = (read_spec_from_environment(here).agents or [])[0]
    assert agent.params.tools == "tools.yaml"
    with pytest.raises(DataError, match=r"'/tools\.yaml' is not a path relative to this file's folder"):
        read_spec_from_environment({**environ, "tools": "/tools.yaml"})
    with pytest.raises(DataError, match="planer"):
        read_spec_from_environment({**environ, "role": "planer"})


def test_what_is_wrong_with_a_block_is_said_where_it_stands(folder: Path) -> None:
    path = put(folder, AGENT.replace("react", "reakt").replace("recursion_limit", "recursion_limits"))
    assert [str(problem) for problem in check(path)] == [
        f"{path}:1:11: unknown strategy 'reakt'; did you mean 'react'?",
        f"{path}:6:1: unknown key 'recursion_limits'; did you mean 'recursion_limit'?",
    ]
    tools = put(folder, TOOLS.replace("cities.py:population", "nowhere.py:f"))
    with pytest.raises(DataError, match=r"block.yaml:3:17: callable_api: 'nowhere.py' does not exist here"):
        Agent.load_from_yaml(tools)
