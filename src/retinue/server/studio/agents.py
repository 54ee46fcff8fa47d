"""`/studio/agents`: the structure of served agents and pipelines as JSON, for drawings: their tools, their members at
any depth, and what leads to what. An extension.

Names, structure and the questions that one may ask are for every key of the server. What else the operator wrote in
words (instructions, descriptions, the questions at gates, conditions) is only in an outline `with_prompts`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter

from ...agent import Agent
from ...core.component import FIRST
from ...core.tools.tool import Tool
from ...executor import NoModel
from ...pipelines import Node, Pipeline
from ...pipelines.graph import ROOT, find_root_name
from ...run.run_parts import describe_instructions
from ...teams.graph_flow import Branch, GraphFlow, GraphPlan, RolePlan
from ...teams.role import END, START
from ...teams.selectors import ModelChoice, When
from ..agents.deployment import Through
from ..context import ContextDep
from ..http.api_errors import no_model
from ..http.authentication import sees_prompts
from ..http.objects import Object
from ..http.request_body import JsonRoute

router = APIRouter(prefix="/studio/agents", route_class=JsonRoute)
_DEEPEST = 8  # members of members


@router.get("")
async def list_agents(context: ContextDep) -> Object:
    """List the agents and pipelines, with their structure."""
    outline = AgentOutline(sees_prompts(context.scope.scopes))
    agents = context.server.deployment.agents
    return {"object": "list", "data": [outline.of(name, agent) for name, agent in agents.items()]}


@router.get("/{agent:path}")
async def retrieve_agent(context: ContextDep, agent: str) -> Object:
    """Retrieve an agent's structure: its tools, its members at any depth, and the graph of its roles or nodes. What the
    operator wrote in words, such as instructions, needs the scope `prompts`."""
    found = context.server.deployment.agents.get(agent)
    if found is None:
        raise no_model(agent, context.server.deployment.agents)
    return AgentOutline(sees_prompts(context.scope.scopes)).of(agent, found)


@dataclass(frozen=True, slots=True)
class AgentOutline:
    """Outlines of agents, and of what they are made of."""

    with_prompts: bool = False

    def of(self, name: str, agent: Agent) -> Object:
        """Return the outline of the agent or pipeline that is served as `name`."""
        named = {"id": name, "object": "studio.agent", "questions": list(agent.questions)}
        return self._part(agent, 0) | named

    def _part(self, something: Any, depth: int) -> Object:
        match something:
            case Agent(strategy=Through()):
                return self._part(something.tools[0].something, depth)
            case Agent():
                return self._agent(something, depth)
            case Pipeline():
                graph = self._pipeline(something, depth)
                return {"kind": "pipeline", "name": something.name, "tools": [], "graph": graph}
            case Tool():
                return self._part(something.something, depth)
            case _:
                return {"kind": "code", "name": _kind_of(something), "tools": [], "graph": None}

    def _agent(self, agent: Agent, depth: int) -> Object:
        plan = agent.strategy.plan if isinstance(agent.strategy, GraphFlow) else None
        kind = "agent" if plan is None else agent.strategy.name  # a graph or a chain
        return {
            "kind": kind,
            "name": agent.name,
            "model": None if isinstance(agent.model, NoModel) else agent.model.name,
            "strategy": agent.strategy.name,
            "tools": [self._tool(tool, depth) for tool in agent.tools],
            "graph": None if plan is None else self._graph(plan),
            **(
                {"instructions": describe_instructions(agent.instructions)}
                if self.with_prompts
                else {"withheld": ["instructions"]}
            ),
        }

    def _tool(self, tool: Tool, depth: int) -> Object:
        nested = isinstance(tool.something, Agent | Pipeline) and depth < _DEEPEST
        words = {"description": tool.description, "parameters": tool.signature.parameters} if self.with_prompts else {}
        return {
            "name": tool.name,
            "effects": tool.effects,
            "approval": tool.approval,
            "part": self._part(tool.something, depth + 1) if nested else None,
            **words,
        }

    # ── graphs of roles ──────────────────────────────────────────────────────────────────────────

    def _graph(self, plan: GraphPlan) -> Object:
        ends = [{"id": name, "label": name, "kind": "end"} for name in (START, END)]
        return {
            "nodes": [ends[0], *map(self._role, plan.roles.values()), ends[1]],
            "edges": [
                *(_edge(head, tail) for head, tail in plan.edges),
                *(_edge(head, tail, "error") for head, tail in plan.error_edges),
                *(edge for branch in plan.branches for edge in self._branch(branch)),
            ],
        }

    def _role(self, role: RolePlan) -> Object:
        question = {"question": role.gate} if self.with_prompts and role.gate else {}
        return {
            "id": role.name,
            "label": role.name,
            "kind": "role" if role.gate is None else "gate",
            "reads": None if role.reads is None else list(role.reads.values()),
            "writes": list(role.writes),
            "max_visits": role.max_visits,
            **question,
        }

    def _branch(self, branch: Branch) -> Iterator[Object]:
        conditions = self._conditions(branch)
        for word, tail in branch.tails.items():
            condition = conditions.get(word)
            edge = _edge(branch.head, tail, "conditional", "" if word == tail else word)
            yield edge | {"chooses": _chooser(branch), **({"condition": condition} if condition else {})}

    def _conditions(self, branch: Branch) -> dict[str, str]:
        if not self.with_prompts or not isinstance(branch.selector, When):
            return {}
        found: dict[str, str] = {}
        for text, word in branch.selector.cases:
            found[word] = f"{found[word]} or {text}" if word in found else text
        return found | ({branch.selector.otherwise: "otherwise"} if branch.selector.otherwise not in found else {})

    # ── pipelines ────────────────────────────────────────────────────────────────────────────────

    def _pipeline(self, pipeline: Pipeline, depth: int) -> Object:
        root = find_root_name(pipeline.nodes)
        names = {ROOT: root}
        return {
            "nodes": [
                {"id": root, "label": root, "kind": "end"},
                *(self._node(node, depth) for node in pipeline.nodes),
            ],
            "edges": [
                _edge(names.get(wire.source, wire.source), node.name, "always", label)
                for node in pipeline.nodes
                for wire in node.wires
                for label in [wire.branch if wire.explicit or wire.branch != FIRST else wire.key]
            ],
        }

    def _node(self, node: Node, depth: int) -> Object:
        nested = isinstance(node.something, Agent | Pipeline) and depth < _DEEPEST
        part = self._part(node.something, depth + 1) if nested else None
        return {"id": node.name, "label": node.name, "kind": "node", "made_of": _kind_of(node.something), "part": part}


def _edge(head: str, tail: str, kind: str = "always", label: str = "") -> Object:
    return {"head": head, "tail": tail, "kind": kind, "label": label}


def _chooser(branch: Branch) -> str:
    match branch.selector:
        case When():
            return "expression"
        case ModelChoice():
            return "model"
        case _:
            return branch.tool


def _kind_of(something: Any) -> str:
    """Return the type of a component, or the name of a function."""
    name = str(getattr(something, "__name__", None) or type(something).__name__)
    return "function" if name == "<lambda>" else name
