"""Planner, executor and agent, each served from one configuration, and composed over the network (RFC 003, parts 2 and
3)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fakes.app_server import KEY, Serving
from retinue import Agent, MessageGroup, RemoteAgent
from retinue.server.agents.deployment import Deployment
from retinue.teams import END, START

FILE = """\
retinue: 1
agents:
  - name: planner
    params:
      role: planner
      script: [{raw: "Plan:\\n1. 6*7\\n2. 2^3\\n"}]
  - name: executor
    params:
      role: executor
      tools: {calculate: {callable_api: calculator}}
  - name: agent
    params:
      script: [{when: "42.*8", say: "They are 42 and 8."}]
      strategy: tool_calling
"""


def actions(plan: str) -> str:
    """The calls of a plan, as an executor takes them."""
    return json.dumps([{"tool": "calculate", "input": step} for step in json.loads(plan)["steps"]])


def outputs(executed: str) -> str:
    """What came of the calls."""
    return " and ".join(one["output"] for one in json.loads(executed))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "roles.yml"
    path.write_text(FILE)
    return path


def composed(**at: str) -> Agent:
    group = MessageGroup("service")
    for role in ("planner", "executor", "agent"):
        group.add_role(role, RemoteAgent(at[role], role, KEY, name=role))
    group.add_role("actions", actions).add_role("outputs", outputs)
    for head, tail in [
        (START, "planner"),
        ("planner", "actions"),
        ("actions", "executor"),
        ("executor", "outputs"),
        ("outputs", "agent"),
        ("agent", END),
    ]:
        group.add_edge(head, tail)
    return group.compile()


def test_each_role_is_a_service_and_a_group_composes_them(file: Path, tmp_path: Path) -> None:
    agents = dict(Deployment.load(file).agents)
    folders = [tmp_path / name for name in agents]
    for folder in folders:
        folder.mkdir()
    with (
        Serving(folders[0], {"planner": agents["planner"]}) as planner,
        Serving(folders[1], {"executor": agents["executor"]}) as executor,
        Serving(folders[2], {"agent": agents["agent"]}) as agent,
    ):
        done = composed(planner=planner.url, executor=executor.url, agent=agent.url).run("What are 6*7 and 2^3?")
        assert done.answer == "They are 42 and 8."
        for served in (planner, executor, agent):
            (run,) = served.ask("GET", "/v1/runs").body["data"]
            assert run["status"] == "completed"


def test_one_server_may_have_all_three(file: Path, tmp_path: Path) -> None:
    with Serving(tmp_path, dict(Deployment.load(file).agents)) as served:
        at = dict.fromkeys(("planner", "executor", "agent"), served.url)
        assert composed(**at).run("What are 6*7 and 2^3?").answer == "They are 42 and 8."
