"""Resolves which parts of a file a part needs, directly and through others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from .registry import COMPONENTS
from .specs import AgentSpec, ComponentSpec, FileSpec, PipelineSpec, ToolOptions, ToolRef, Tools, WorkerRef

Part = ComponentSpec | PipelineSpec | AgentSpec


def parts(spec: FileSpec) -> dict[str, Part]:
    """Return everything the file defines, by name; components, pipelines and agents share one namespace."""
    return {part.name: part for part in (*(spec.components or ()), *(spec.pipelines or ()), *(spec.agents or ()))}


def servers(spec: FileSpec) -> list[str]:
    """Return the names of the file's MCP servers."""
    return [component.name for component in spec.components or () if component.type == "MCPTools"]


def reached(spec: FileSpec, names: Iterable[str]) -> set[str]:
    """Return `names` and everything they need."""
    defined = parts(spec)
    found: set[str] = set()
    new = [name for name in names if name in defined]
    while new:
        name = new.pop()
        if name not in found:
            found.add(name)
            new += [other for other in _needs(defined[name], spec) if other in defined]
    return found


def shares(agent: AgentSpec, spec: FileSpec) -> bool:
    """Whether the agent may use the shared tools at the top of the file."""
    tools = agent.params.tools
    if agent.params.role == "planner" or spec.tools is None:
        return False
    if tools is None or isinstance(tools, str):
        return True
    return isinstance(tools, list) and any(isinstance(tool, str) for tool in tools)


def worker_tools(agent: AgentSpec) -> list[ToolRef]:
    """Return the agent's workers as tools. A worker without another `name` is called like its agent."""
    items = [WorkerRef(agent=one) if isinstance(one, str) else one for one in agent.params.workers or ()]
    return [
        ToolRef(
            name=one.name or tool_name(one.agent), pipeline_or_node=one.agent, description=one.description
        ).model_copy(update={name: getattr(one, name) for name in ToolOptions.model_fields})
        for one in items
    ]


def tool_name(agent: str) -> str:
    """Return what a supervisor calls an agent: its name, without what the name of a tool cannot have."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", agent)[:64]


def exposed(spec: FileSpec) -> list[AgentSpec]:
    """Return the agents that a server offers: all but the workers of others, unless they say otherwise."""
    agents = spec.agents or []
    workers = {tool.pipeline_or_node for agent in agents for tool in worker_tools(agent)}
    return [one for one in agents if (one.name not in workers if one.params.exposed is None else one.params.exposed)]


def _needs(part: Part, spec: FileSpec) -> Iterator[str]:
    if isinstance(part, ComponentSpec):
        for name, parameter in COMPONENTS[part.type].parameters.items():
            named = (part.params or {}).get(name)
            if parameter.refers and isinstance(named, str):
                yield named
    elif isinstance(part, PipelineSpec):
        yield from (node.name for node in part.nodes)
    else:
        memory = part.params.memory or ()
        yield from filter(None, (part.params.model, part.params.prompt_node))
        yield from [memory] if isinstance(memory, str) else memory
        yield from needed_by(part.params.tools, spec)
        yield from (tool.pipeline_or_node for tool in worker_tools(part))
        yield from part.params.handoffs or ()
        if shares(part, spec):
            yield from needed_by(spec.tools, spec)


def needed_by(tools: Tools | None, spec: FileSpec) -> Iterator[str]:
    """Yield the parts of the file that a `tools` value names."""
    if isinstance(tools, str):
        tools = [tools]
    if isinstance(tools, list):
        mine = servers(spec)
        yield from (tool.pipeline_or_node for tool in tools if isinstance(tool, ToolRef))
        yield from (tool for tool in tools if isinstance(tool, str) and tool in mine)
