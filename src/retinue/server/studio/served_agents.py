"""`/studio/agents`: the structure of the agents and pipelines that this server offers. An extension."""

from __future__ import annotations

from fastapi import APIRouter

from ..context import ContextDep
from ..http.api_errors import no_model
from ..http.authentication import sees_prompts
from ..http.objects import Object
from ..http.request_body import JsonRoute
from .agent_outline import AgentOutline

router = APIRouter(prefix="/studio/agents", route_class=JsonRoute)


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
