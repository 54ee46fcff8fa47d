"""Builds what a file defines: components, pipelines, and agents with their model, tools, strategy and limits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from .._internal.message_text import suggest_name
from .._internal.yaml_io import YamlSerializable
from ..agent import Agent
from ..core.budgets import Budget, Limits, with_limits
from ..core.component_declaration import component
from ..core.loop.effects import Human
from ..core.protocols import Memory, Model, Strategy
from ..core.tools.tool import Tool
from ..errors import DataError, UsageError
from ..executor import Executor
from ..mcp import MCPTools
from ..mcp.tool_pins import PINS
from ..models import PromptModel
from ..models.reply_limits import limit_replies
from ..net.retry import TimeLimits
from ..pipelines import Node, Pipeline, problems
from ..run.handoff import handoff
from ..strategies import STRATEGIES
from ..strategies.auto import Auto
from ..strategies.planexec import Planner
from ..strategies.react import React
from .environment import Resolved, resolve, resolve_component
from .export import Origin
from .problems import Found, KeyPath, describe_unknown, fail
from .references import (
    Part,
    find_reached,
    index_parts,
    list_needed,
    list_servers,
    list_worker_tools,
    may_use_shared_tools,
)
from .registry import COMPONENTS, TOOLS, build_built_in_tool
from .specs import SECTIONS, AgentSpec, ChainSpec, ComponentSpec, FileSpec, GroupSpec, PipelineSpec, ToolRef, Tools
from .team_builder import TeamBuilder
from .tool_files import build_entry_tools, load_tools, resolve_existing_path, resolve_path_within

T = TypeVar("T")
_SAMPLING = ("top_p", "top_k", "repetition_penalty")
_QUESTION = re.compile(r"\$(question|query|\{question\}|\{query\})(?![A-Za-z0-9_])")
_NOT_RESOLVED = ("tools", "answer_schema", "script", "questions")


@dataclass
class Builder:
    """Builds what a file defines, each part once and only on demand.

    `human` decides for the agents. Every method raises `DataError` with source positions: first for all missing
    variables at once, then for the first part that cannot be built.
    """

    spec: FileSpec
    human: Human | None = None

    def __post_init__(self) -> None:
        self._parts = index_parts(self.spec)
        self._paths: dict[str, KeyPath] = {
            part.name: (section, at)
            for section in SECTIONS
            for at, part in enumerate(getattr(self.spec, section) or ())
        }
        self._built: dict[str, Any] = {}
        self._under_way: list[str] = []
        self._build_tools = ToolBuilder(self.spec, self._build_part)

    def get(self, name: str) -> Any:
        """Return the component, model, pipeline or agent called `name`."""
        if name not in self._parts:
            raise DataError(f"{self.spec.source.file}: {describe_unknown('name', name, self._parts)}")
        self._check_variables(name)
        return self._build_part(name)

    def build_tools(self, name: str) -> list[Tool]:
        """Return the tools of the agent called `name`, without building its model."""
        agent = self._parts[name]
        assert isinstance(agent, AgentSpec)
        self._check_variables(*find_reached(self.spec, [name]) - {name, agent.params.model, agent.params.prompt_node})
        made = self._build_tools.build_agent_tools(agent, self._paths[name])
        asked = agent.params.require_human_feedback
        return [replace(one, approval=True) if asked is True or one.name in (asked or ()) else one for one in made]

    def build_agent(self, name: str, tools: Iterable[Tool]) -> Agent:
        """The agent called `name`, without memories, and with these tools instead of its own."""
        agent = self._parts.get(name)
        if isinstance(agent, GroupSpec | ChainSpec):
            self._check_variables(name)
            team: Agent = copy(self._make(agent))
            team.tools = list(tools)
            return team
        if not isinstance(agent, AgentSpec):
            raise DataError(f"{self.spec.source.file}: there is no agent {name!r}")
        fail(sorted(self.spec.source.locate_problem(one) for one in self._resolve_params(agent).missing))
        self._check_variables(*filter(None, (agent.params.model, agent.params.prompt_node)))
        return self._with_place(agent, lambda: self._build_agent_of(agent, tools, []))

    def build_shared_tools(self) -> list[Tool]:
        """Return the shared tools at the top of the file."""
        self._check_variables(*list_needed(self.spec.tools, self.spec))
        return list(self._build_tools.shared.values())

    def _check_variables(self, *names: str) -> None:
        """Raise `DataError` for all variables that `names` need but the environment lacks."""
        wanted = find_reached(self.spec, names)
        components = [at for at, one in enumerate(self.spec.components or ()) if one.name in wanted]
        found = [one for at in components for one in resolve_component(self.spec, at).missing]
        agents = [one for one in self.spec.agents or () if one.name in wanted]
        found += [one for agent in agents for one in self._resolve_params(agent).missing]
        fail(sorted(self.spec.source.locate_problem(one) for one in found))

    def _build_part(self, name: str) -> Any:
        if name not in self._built:
            if name in self._under_way:
                circle = " needs ".join([*self._under_way[self._under_way.index(name) :], name])
                raise DataError(f"{self.spec.source.file}: circular references: {circle}")
            self._under_way.append(name)
            made = self._built[name] = self._make(self._parts[name])
            if isinstance(made, YamlSerializable):
                made.origin = Origin(self.spec, name, made.state())
            self._under_way.pop()
        return self._built[name]

    def _make(self, part: Part) -> Any:
        path, teams = self._paths[part.name], TeamBuilder(self.spec, self._build_part, self.human)
        match part:
            case ComponentSpec():
                return self._with_place(part, lambda: self._build_component(part))
            case PipelineSpec():
                return self._with_place(part, lambda: self._build_pipeline(part))
            case GroupSpec():
                return self._with_place(part, lambda: teams.group(part, path))
            case ChainSpec():
                return self._with_place(part, lambda: teams.build_chain(part, path))
            case AgentSpec():
                return self._with_place(part, lambda: self._build_whole_agent(part))

    def _with_place(self, part: Part, make: Callable[[], T]) -> T:
        """Return what `make` builds; its errors get the position of the part."""
        try:
            return make()
        except (UsageError, ValueError, TypeError) as error:
            found = Found((*self._paths[part.name], "name"), f"{part.name}: {error}")
            raise DataError(str(self.spec.source.locate_problem(found))) from error

    # ── components and pipelines ─────────────────────────────────────────────────────────────────

    def _build_component(self, component: ComponentSpec) -> Any:
        resolved = resolve_component(self.spec, int(self._paths[component.name][1]))
        params = {name: self._build_parameter(component, name, value) for name, value in resolved.value.items()}
        if component.type == "PromptModel":
            return _build_prompt_model(params, params.pop("max_length", None))
        if component.type == "MCPTools":
            return MCPTools(
                component.name, pins=self._build_tools.folder / PINS, cwd=self._build_tools.folder, **params
            )
        return COMPONENTS[component.type].constructor(**params)

    def _build_parameter(self, component: ComponentSpec, name: str, value: Any) -> Any:
        """Return a parameter's value, or the component it refers to."""
        parameter = COMPONENTS[component.type].parameters[name]
        if parameter.refers and isinstance(value, list):
            return [self._build_part(one) if one in self._parts else one for one in value]
        other = self._parts.get(value) if isinstance(value, str) and parameter.refers else None
        if isinstance(other, ComponentSpec) and other.type in parameter.refers:
            return self._build_part(other.name)
        if name == "default_prompt_template" and str(value).endswith(".txt") and "\n" not in value:
            return str(resolve_existing_path(self._build_tools.folder, value))
        return (
            str(resolve_path_within(self._build_tools.folder, value)) if parameter.path and value is not None else value
        )

    def _build_pipeline(self, pipeline: PipelineSpec) -> Pipeline:
        nodes = [Node(self._build_part(node.name), node.name, node.inputs) for node in pipeline.nodes]
        place = (*self._paths[pipeline.name], "name")
        fail(self.spec.source.locate_problem(Found(place, f"{pipeline.name}: {wrong}")) for wrong in problems(nodes))
        return Pipeline(nodes, name=pipeline.name)

    # ── agents ───────────────────────────────────────────────────────────────────────────────────

    def _resolve_params(self, agent: AgentSpec) -> Resolved:
        """Return an agent's given parameters, with environment variables resolved."""
        given = {
            name: value for name, value in agent.params.model_dump(exclude_unset=True).items() if value is not None
        }
        own = {name: value for name, value in given.items() if name not in _NOT_RESOLVED}
        found = resolve(own, path=(*self._paths[agent.name], "params"))
        return Resolved(given | found.value, found.missing)

    def _build_whole_agent(self, spec: AgentSpec) -> Agent:
        memories = _build_memories(self._resolve_params(spec).value, self._build_part, self._build_tools.folder)
        return self._build_agent_of(spec, self._build_tools.build_agent_tools(spec, self._paths[spec.name]), memories)

    def _build_agent_of(self, spec: AgentSpec, tools: Iterable[Tool], memories: Sequence[Memory]) -> Agent:
        """Build an agent with these tools and memories, from Retinue's parameters and those of other frameworks."""
        params, tools = self._resolve_params(spec).value, list(tools)
        asked = params.get("require_human_feedback", False)
        if isinstance(asked, list) and (wrong := [name for name in asked if name not in {tool.name for tool in tools}]):
            raise UsageError(
                f"require_human_feedback: {describe_unknown('tool', wrong[0], [tool.name for tool in tools])}"
            )
        common: dict[str, Any] = {
            "tools": tools, "budget": _build_budget(params), "name": spec.name, "human": self.human,
            "require_human_feedback": asked,
        }  # fmt: skip
        if params.get("role") == "executor":
            return Executor(**common)
        agent = Agent(
            strategy=_choose_strategy(params),
            answer_schema=params.get("answer_schema"),
            memory=memories,
            questions=params.get("questions", ()),
            **self._build_model_or_prompt_node(params),
            **common,
        )
        words = [params.get(key, "") for key in ("instructions", "role_description", "custom_prompt")]
        if _QUESTION.search(words[-1]) and isinstance(agent.strategy, React | Auto):
            react = agent.strategy if isinstance(agent.strategy, React) else React()
            agent.strategy = replace(react, prompt=words.pop())
        agent.instructions = "\n".join(word.strip() for word in words if word.strip())
        return agent

    def _build_model_or_prompt_node(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return an agent's model or prompt node: one that the file defines, or what its own parameters say."""
        for key in ("prompt_node", "model"):
            if params.get(key) in self._parts:
                return {key: self._build_part(params[key])}
        models = [self._build_part(name) if name in self._parts else name for name in params.get("models", ())]
        return {"model": _build_model({**params, "models": models})}


def _build_model(params: Mapping[str, Any]) -> Model:
    """Build the model described by an agent's own parameters."""
    names = {"llm_engine": "engine", "llm_endpoint_url": "base_url", "api_key": "api_key", "script": "script"}
    names |= {name: name for name in ("temperature", "effort", "verbosity", "thinking_tokens", "stream")}
    names |= {name: name for name in ("models", "fall_back_on") if params.get(name)}
    given: dict[str, Any] = {name: params[key] for key, name in names.items() if key in params}
    name = params.get("model", params.get("llm_model_id", ""))
    if sampling := {key: params[key] for key in _SAMPLING if key in params}:
        given["options"] = sampling
    return _build_prompt_model(
        {"model_name_or_path": name, "timeout": params.get("timeout"), **given}, params.get("max_new_tokens")
    )


def _build_budget(params: Mapping[str, Any]) -> Budget:
    """Return the limits, under any of their names."""
    budget = Budget(**params.get("budget", {}))  # `null` means no limit
    return with_limits(budget, {name: params[name] for name in Limits.__annotations__ if name in params})


def _choose_strategy(params: Mapping[str, Any]) -> Strategy:
    name = params.get("strategy", "auto")
    if params.get("role") == "planner":
        asked = bool(params.get("require_human_feedback")) or name == "humanInLoopPlanExec"
        return Planner(approve=asked)
    return STRATEGIES[name]


def _build_prompt_model(params: Mapping[str, Any], max_tokens: int | None) -> Model:
    """Build a `PromptModel` from a file's parameters: `timeout` in seconds, and `model_kwargs`, an alias of `options`.
    A reply has at most `max_tokens`."""
    given = {name: value for name, value in params.items() if value is not None}
    seconds = given.pop("timeout", None)
    if kwargs := given.pop("model_kwargs", None):
        given["options"] = {**given.get("options", {}), **kwargs}
    if seconds is not None:
        given["limits"] = TimeLimits(min(10.0, seconds), seconds, seconds)
    return limit_replies(PromptModel(**given), max_tokens=max_tokens)


def _build_memories(params: Mapping[str, Any], part: Callable[[str], Any], folder: Path) -> list[Memory]:
    """Build the memories that an agent's parameters name; `part` returns the file's components."""
    if params.get("with_memory"):
        from ..memory import ConversationMemory

        kept = params.get("memory_type") == "store"
        return [ConversationMemory(path=resolve_path_within(folder, params["store_config"]["path"]) if kept else None)]
    named = params.get("memory", ())
    return [part(name) for name in ([named] if isinstance(named, str) else named)]


class ToolBuilder:
    """Builds the tools of a file's agents: their own, shared ones, and built-in ones. `part` returns what the file
    defines under a name."""

    def __init__(self, spec: FileSpec, part: Callable[[str], Any]) -> None:
        self._spec = spec
        self._build_part = part
        self.folder = Path(spec.source.file).parent

    def build_agent_tools(self, agent: AgentSpec, path: KeyPath) -> list[Tool]:
        """Return the tools of the agent at `path`, and its workers.

        Without `tools`, an agent gets the shared ones; with `[]`, none."""
        workers = [self._build_tool(tool) for tool in list_worker_tools(agent)]
        workers += [handoff(partial(self._build_part, name), name) for name in agent.params.handoffs or ()]
        if agent.params.tools is not None:
            return [*self._build_tools(agent.params.tools, (*path, "params", "tools"), agent), *workers]
        return [*(self.shared.values() if may_use_shared_tools(agent, self._spec) else ()), *workers]

    @cached_property
    def shared(self) -> dict[str, Tool]:
        """The shared tools at the top of the file, by name."""
        return {tool.name: tool for tool in self._build_tools(self._spec.tools or [], ("tools",), None)}

    def _build_tools(self, tools: Tools, path: KeyPath, agent: AgentSpec | None) -> list[Tool]:
        if isinstance(tools, dict):
            return build_entry_tools(tools, self.folder, self._spec.source.select_value(path))
        items = [tools] if isinstance(tools, str) else tools
        made: list[Tool] = []
        for at, item in enumerate(items):
            place = path if isinstance(tools, str) else (*path, at)
            try:
                made += [self._build_tool(item)] if isinstance(item, ToolRef) else self._find_tools(item, agent)
            except (UsageError, ValueError) as error:
                raise DataError(str(self._spec.source.locate_problem(Found(place, f"tools: {error}")))) from error
        return made

    def _find_tools(self, text: str, agent: AgentSpec | None) -> list[Tool]:
        """Return the tools that `text` names: a shared tool, a built-in one, those of an MCP server of the file, or
        those of a tool file or folder."""
        if agent is not None and may_use_shared_tools(agent, self._spec) and text in self.shared:
            return [self.shared[text]]
        if text in TOOLS:
            return [build_built_in_tool(text)]
        if text in list_servers(self._spec):
            tools: list[Tool] = self._build_part(text).tools()
            return tools
        return load_tools(resolve_existing_path(self.folder, text))

    def _build_tool(self, ref: ToolRef) -> Tool:
        """Return a component, pipeline or agent as a tool."""
        something, options = self._build_part(ref.pipeline_or_node), dict(ref.options)
        if ref.output_variable is not None:
            _check_output(ref, something)
            options["output_variable"] = ref.output_variable
        return Tool(ref.name, something, ref.description or self._find_description(ref), **options)

    def _find_description(self, ref: ToolRef) -> str:
        part = index_parts(self._spec)[ref.pipeline_or_node]
        return (part.params.role_description or "") if isinstance(part, AgentSpec) else ""


def _check_output(ref: ToolRef, something: Any) -> None:
    """Raise `UsageError` if a part with known outputs lacks the one named."""
    outputs = None if isinstance(something, Agent) else component(something).outputs
    if outputs and ref.output_variable not in outputs:
        wrong = f"{ref.pipeline_or_node} has no output {ref.output_variable!r}"
        raise UsageError(f"output_variable: {wrong}; {suggest_name(str(ref.output_variable), outputs)}")
