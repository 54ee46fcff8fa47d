"""Teams in files: workers of agents, and what of them a server offers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from retinue import Agent
from retinue.config import check, load_spec
from retinue.server.agents.deployment import Deployment

TEAM = """\
retinue: 1
agents:
  - name: boss
    params:
      script:
        - {when: "47", say: It is 47.}
        - {when: "", call: {tool: research_desk, input: {query: How old is Ada?}}}
      strategy: tool_calling
      workers:
        - research desk
        - {agent: maths, name: calculating, description: Calculates., approval: true}
      budget: {total_steps: 20, depth: 2, children: 10}
  - name: research desk
    params:
      role_description: Finds things out.
      script:
        - {when: old, call: {tool: register, input: {query: Ada}}}
        - {when: "47", say: Ada is 47.}
      strategy: tool_calling
      workers: [register]
  - name: register
    params: {script: [{when: "", say: "47"}], strategy: tool_calling}
  - name: maths
    params: {script: [{when: "", say: "2"}], strategy: tool_calling, exposed: true}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "team.yml"
    path.write_text(TEAM)
    return path


def test_a_team_of_three_levels_answers(file: Path) -> None:
    assert list(check(file)) == []
    boss = Agent.load_from_yaml(file, "boss")
    tools = {tool.name: tool for tool in boss.tools}
    assert tools["research_desk"].description == "Finds things out."
    assert (tools["calculating"].description, tools["calculating"].approval) == ("Calculates.", True)
    assert (boss.budget.total_steps, boss.budget.depth, boss.budget.children) == (20, 2, 10)
    done = boss.run("How old is Ada?")
    assert done.answer == "It is 47."
    assert list(done.children) == ["call_1_0", "call_1_0/call_1_0"]


def test_a_server_offers_the_top_and_who_says_so(file: Path) -> None:
    assert sorted(Deployment.of(load_spec(file)).agents) == ["boss", "maths"]


def test_a_team_is_written_as_it_was_read(file: Path, tmp_path: Path) -> None:
    boss = Agent.load_from_yaml(file, "boss")
    again = tmp_path / "again.yml"
    boss.save_to_yaml(again)
    assert sorted(Deployment.of(load_spec(again)).agents) == ["boss", "maths"]
    assert Agent.load_from_yaml(again, "boss").run("How old is Ada?").answer == "It is 47."


def test_a_worker_has_no_time_limit_of_a_tools(file: Path) -> None:
    command = [sys.executable, "-m", "retinue", "tools", str(file), "--agent", "boss"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "# research_desk: once, within its own budget" in shown


def test_a_team_deeper_than_its_tops_budget_is_told(tmp_path: Path) -> None:
    def told(budget: str) -> list[str]:
        lines = ["retinue: 1", "agents:"]
        for level in range(8):
            more = f"workers: [level{level + 1}]" if level < 7 else "exposed: false"
            more += budget if level == 0 else ""
            lines.append(f"  - {{name: level{level}, params: {{script: [{{when: '', say: done}}], {more}}}}}")
        path = tmp_path / "team.yml"
        path.write_text("\n".join(lines))
        return [str(one) for one in check(path)]

    (problem,) = told("")
    assert problem.endswith("warning: level0 has 7 levels of agents below it, and a budget for 5: set 'budget.depth'")
    assert told(", budget: {depth: 7}") == told(", budget: {depth: null}") == []
    (problem,) = told(", budget: {depth: 6}")
    assert "a budget for 6" in problem


REMOTE = """\
retinue: 1
components:
  - {name: far, type: RemoteAgent, params: {url: "http://127.0.0.1:9"}}
agents:
  - name: boss
    params:
      script: [{when: "", say: done}]
      workers: [far, {agent: near, name: helper}]
      require_human_feedback: [far, helper]
  - {name: near, params: {script: [{when: "", say: done}]}}
groups:
  - name: team
    roles: [{name: ask, agent: far}]
    edges: [{head: START, tail: ask}, {head: ask, tail: END}]
"""


def test_an_agent_of_another_server_is_an_agent_everywhere_and_workers_may_need_approval(tmp_path: Path) -> None:
    path = tmp_path / "team.yml"
    path.write_text(REMOTE)
    assert [str(one) for one in check(path) if not one.warning] == []
    assert [tool.approval for tool in Agent.load_from_yaml(path, "boss").tools] == [True, True]
    assert [tool.name for tool in Agent.load_from_yaml(path, "team").tools] == ["ask"]
    path.write_text(REMOTE.replace("[far, helper]", "[far, near]"))
    (problem,) = [str(one) for one in check(path) if not one.warning]
    assert "unknown tool 'near'" in problem
