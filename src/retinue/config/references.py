"""Resolves which parts of a file a part needs, directly and through others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from .._internal.source_text import Found
from ..core.budgets import Budget
from .registry import COMPONENTS
from .specs import (
    SECTIONS,
    AgentSpec,
    ChainSpec,
    ComponentSpec,
    ContextSpec,
    FileSpec,
    GroupSpec,
    PipelineSpec,
    ToolOptions,
    ToolRef,
    Tools,
    WorkerRef,
)

SPEECH = ("SpeechToText", "TextToSpeech")  # whose input or output is the name of a file
Part = ComponentSpec | PipelineSpec | AgentSpec | GroupSpec | ChainSpec


def index_parts(spec: FileSpec) -> dict[str, Part]:
    """Return everything the file defines, by name; all sections share one namespace."""
    return {part.name: part for section in SECTIONS for part in getattr(spec, section) or ()}


def list_servers(spec: FileSpec) -> list[str]:
    """Return the names of the file's MCP servers."""
    return [component.name for component in spec.components or () if component.type == "MCPTools"]


def find_reached(spec: FileSpec, names: Iterable[str]) -> set[str]:
    """Return `names` and everything they need."""
    defined = index_parts(spec)
    found, new = set[str](), list(names)
    while new:
        name = new.pop()
        if name in defined and name not in found:
            found.add(name)
            new += _list_needs(defined[name], spec)
    return found


def _list_needs(part: Part, spec: FileSpec) -> Iterator[str]:
    """Yield the names that a part uses."""
    if isinstance(part, ComponentSpec) and part.type not in COMPONENTS:  # of an own type: any text may name a part
        for value in (part.params or {}).values():
            yield from (one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str))
        return
    if isinstance(part, ComponentSpec):
        for name, parameter in COMPONENTS[part.type].parameters.items():
            named = (part.params or {}).get(name)
            named = named if isinstance(named, list) else [named]
            yield from [one for one in named if parameter.refers and isinstance(one, str)]
        return
    yield from _list_inner_parts(part, spec)
    if isinstance(part, GroupSpec):
        yield from list_models(part)
    elif isinstance(part, AgentSpec):
        memory = part.params.memory or ()
        summary = part.params.context.model if isinstance(part.params.context, ContextSpec) else None
        yield from filter(None, (part.params.model, part.params.prompt_node, summary, *(part.params.models or ())))
        yield from [memory] if isinstance(memory, str) else memory
        yield from (*(part.params.handoffs or ()), *(part.params.hooks or ()))
        if may_use_shared_tools(part, spec):
            yield from list_needed(spec.tools, spec)


def _list_inner_parts(part: Part, spec: FileSpec) -> list[str]:
    """Return the names of the parts that run below a part, as its nodes, workers, tools or roles."""
    if isinstance(part, ComponentSpec):
        return []
    if isinstance(part, PipelineSpec):
        return [node.name for node in part.nodes]
    if isinstance(part, AgentSpec):
        tools = part.params.tools
        if tools is None and may_use_shared_tools(part, spec):
            tools = spec.tools
        return [*list_needed(tools, spec), *(tool.pipeline_or_node for tool in list_worker_tools(part))]
    roles = part.roles if isinstance(part, GroupSpec) else part.steps
    return [name for role in roles if (name := role if isinstance(role, str) else role.part)]


def list_needed(tools: Tools | None, spec: FileSpec) -> Iterator[str]:
    """Yield the parts of the file that a `tools` value names."""
    servers = list_servers(spec)
    for tool in [tools] if isinstance(tools, str) else tools if isinstance(tools, list) else ():
        if isinstance(tool, ToolRef):
            yield tool.pipeline_or_node
        elif tool in servers:
            yield tool


def list_models(group: GroupSpec) -> list[str]:
    """Return the models that a group names, each once."""
    selectors = [edges.selector for edges in group.conditional_edges or ()]
    named = [group.model, *(one.model for one in selectors if not isinstance(one, str))]
    return list(dict.fromkeys(filter(None, named)))


def may_use_shared_tools(agent: AgentSpec, spec: FileSpec) -> bool:
    """Whether the agent may use the shared tools at the top of the file."""
    tools = agent.params.tools
    if agent.params.role == "planner" or spec.tools is None:
        return False
    if tools is None or isinstance(tools, str):
        return True
    return isinstance(tools, list) and any(isinstance(tool, str) for tool in tools)


def list_worker_tools(agent: AgentSpec) -> list[ToolRef]:
    """Return the agent's workers as tools. A worker without another `name` is called like its agent."""
    items = [WorkerRef(agent=one) if isinstance(one, str) else one for one in agent.params.workers or ()]
    return [
        ToolRef(
            name=one.name or name_worker_tool(one.agent), pipeline_or_node=one.agent, description=one.description
        ).model_copy(update={name: getattr(one, name) for name in ToolOptions.model_fields})
        for one in items
    ]


def name_worker_tool(agent: str) -> str:
    """Return what a supervisor calls an agent: its name, without what the name of a tool cannot have."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", agent)[:64]


def list_exposed(spec: FileSpec) -> list[AgentSpec | GroupSpec | ChainSpec]:
    """Return the agents, groups and chains that a server offers: all but the workers of others and what groups and
    chains are made of, unless they say otherwise."""
    agents, teams = spec.agents or [], [*(spec.groups or ()), *(spec.chains or ())]
    members = {tool.pipeline_or_node for agent in agents for tool in list_worker_tools(agent)}
    members |= {name for team in teams for name in _list_inner_parts(team, spec)}
    told = {one.name: one.params.exposed for one in agents} | {one.name: one.exposed for one in teams}
    return [one for one in (*agents, *teams) if (one.name not in members if told[one.name] is None else told[one.name])]


def check_depth(spec: FileSpec) -> Iterator[Found]:
    """Yield a warning for each team with more levels of agents than the budget of its top allows."""
    defined = index_parts(spec)
    below = {name: [one for one in _list_inner_parts(part, spec) if one in defined] for name, part in defined.items()}
    teams = {name for name, part in defined.items() if not isinstance(part, ComponentSpec | PipelineSpec)}
    levels = dict.fromkeys(defined, 0)
    for _ in defined:  # no way down is longer than there are parts
        levels = {name: max((levels[one] + (one in teams) for one in ones), default=0) for name, ones in below.items()}
    tops = {one.name for one in list_exposed(spec)}
    for section in ("agents", "groups", "chains"):
        for at, one in enumerate(getattr(spec, section) or ()):
            limits = one.params.budget if isinstance(one, AgentSpec) else one.budget
            stated = limits is not None and "depth" in limits.model_fields_set
            depth = limits.depth if limits is not None and stated else Budget().depth
            if (stated or one.name in tops) and depth is not None and levels[one.name] > depth:
                message = f"{one.name} has {levels[one.name]} levels of agents below it, and a budget for {depth}: set"
                yield Found((section, at, "name"), f"{message} 'budget.depth'", warning=True)


def find_speech(spec: FileSpec, name: str) -> str:
    """Return the name of a component of speech that a chain, a group or a pipeline is made of, or an empty string."""
    defined, found, new = index_parts(spec), set[str](), [name]
    while new:
        part = defined.get(name := new.pop())
        if part is None or name in found or isinstance(part, AgentSpec):
            continue
        if _read_type(part) in SPEECH:
            return part.name
        found.add(name)
        new += _list_inner_parts(part, spec)
    return ""


def peel_speech(spec: FileSpec) -> tuple[FileSpec, dict[str, tuple[str, str]]]:
    """Return the file with the served chains without the `SpeechToText` that they begin with and the `TextToSpeech`
    that they end with, and the names of both by chain (empty if there is none). A chain of which something else is made
    stays as it is."""
    defined, served = index_parts(spec), {one.name for one in list_exposed(spec)}
    needed = {name for part in defined.values() for name in _list_needs(part, spec)}
    chains, ends = list[ChainSpec](), dict[str, tuple[str, str]]()
    for chain in spec.chains or ():
        names = [step if isinstance(step, str) else step.part for step in chain.steps]
        first, last = (_read_type(defined.get(names[at])) for at in (0, -1))
        hears, speaks = first == SPEECH[0], last == SPEECH[1]
        steps = chain.steps[hears : len(names) - speaks]
        if steps and (hears or speaks) and chain.name in served - needed:
            ends[chain.name] = (names[0] if hears else "", names[-1] if speaks else "")
            chain = chain.model_copy(update={"steps": steps})
        chains.append(chain)
    return (spec.model_copy(update={"chains": chains}), ends) if ends else (spec, ends)


def _read_type(part: Part | None) -> str:
    return part.type if isinstance(part, ComponentSpec) else ""
