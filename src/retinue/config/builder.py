"""Builds objects from specs; only this module assembles what a file defines. Agents are built in `agent_parts`.

The parts of an agent, from Retinue's parameters and those of other frameworks: model, strategy, budget.

The tools of a file's agents: their own, shared ones, and built-in ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from .._internal.message_text import suggestion
from .._internal.yaml_io import YamlSerializable
from ..agent import Agent
from ..core.budgets import Budget, Limits, with_limits
from ..core.component_declaration import component
from ..core.effects import Human
from ..core.protocols import Model, Strategy
from ..core.tool import Tool, tool_of
from ..errors import DataError, UsageError
from ..executor import Executor
from ..mcp import MCPTools
from ..mcp.tool_pins import PINS
from ..models import PromptModel
from ..models.reply_limits import limited
from ..net.retry import TimeLimits
from ..pipelines import Node, Pipeline, problems
from ..run.handoff import handoff
from ..strategies import STRATEGIES
from ..strategies.auto import Auto
from ..strategies.planexec import Planner
from ..strategies.react import React
from .environment import resolve, resolve_component
from .export import Origin
from .memories import memories_of
from .problems import Found, KeyPath, fail, unknown
from .references import Part, needed_by, parts, reached, servers, shares, worker_tools
from .registry import COMPONENTS, TOOLS
from .specs import AgentSpec, ChainSpec, ComponentSpec, FileSpec, GroupSpec, PipelineSpec, ToolRef, Tools
from .team_builder import Teammaker
from .tool_files import entry_tools, existing_path, load_tools, path_within

T = TypeVar("T")


@dataclass
class Builder:
    """Builds what a file defines, each part once and only on demand.

    `human` decides for the agents. Every method raises `DataError` with source positions: first for all missing
    variables at once, then for the first part that cannot be built.
    """

    spec: FileSpec
    human: Human | None = None

    def __post_init__(self) -> None:
        self._parts = parts(self.spec)
        self._built: dict[str, Any] = {}
        self._under_way: list[str] = []
        self._tools = Toolmaker(self.spec, self._part)

    def get(self, name: str) -> Any:
        """Return the component, model, pipeline or agent called `name`."""
        if name not in self._parts:
            raise DataError(f"{self.spec.source.file}: {unknown('name', name, self._parts)}")
        self._complain(name)
        return self._part(name)

    def tools(self, name: str) -> list[Tool]:
        """Return the tools of the agent called `name`, without building its model."""
        agent = self._parts[name]
        assert isinstance(agent, AgentSpec)
        self._complain(*reached(self.spec, [name]) - {name, agent.params.model, agent.params.prompt_node})
        made = self._tools.of(agent, _index(self.spec.agents or (), agent))
        asked = agent.params.require_human_feedback
        return [replace(one, approval=True) if asked is True or one.name in (asked or ()) else one for one in made]

    def agent(self, name: str, tools: Iterable[Tool]) -> Agent:
        """The agent called `name`, without memories, and with these tools instead of its own."""
        agent = self._parts.get(name)
        if isinstance(agent, GroupSpec | ChainSpec):
            self._complain(name)
            team = copy(self._team(agent))
            team.tools = list(tools)
            return team
        if not isinstance(agent, AgentSpec):
            raise DataError(f"{self.spec.source.file}: there is no agent {name!r}")
        index = _index(self.spec.agents or (), agent)
        own = Parts.of(self.spec, index)
        fail(sorted(self.spec.source.problem(one) for one in own.missing))
        self._complain(*filter(None, (agent.params.model, agent.params.prompt_node)))
        made = self._speaking(own.params) | {"memory": ()}
        return self._placed(("agents", index), name, lambda: agent_of(agent, own.params, made, tools, self.human))

    def shared_tools(self) -> list[Tool]:
        """Return the shared tools at the top of the file."""
        self._complain(*needed_by(self.spec.tools, self.spec))
        return list(self._tools.shared.values())

    def _complain(self, *names: str) -> None:
        """Raise `DataError` for all variables that `names` need but the environment lacks."""
        wanted = reached(self.spec, names)
        found = [
            one
            for index, component in enumerate(self.spec.components or ())
            if component.name in wanted
            for one in resolve_component(self.spec, index).missing
        ]
        found += [
            one
            for index, agent in enumerate(self.spec.agents or ())
            if agent.name in wanted
            for one in Parts.of(self.spec, index).missing
        ]
        fail(sorted(self.spec.source.problem(one) for one in found))

    def _part(self, name: str) -> Any:
        if name not in self._built:
            if name in self._under_way:
                circle = " needs ".join([*self._under_way[self._under_way.index(name) :], name])
                raise DataError(f"{self.spec.source.file}: circular references: {circle}")
            self._under_way.append(name)
            made = self._built[name] = self._make(self._parts[name])
            if isinstance(made, YamlSerializable):
                made.origin = Origin.of(made, self.spec, name)
            self._under_way.pop()
        return self._built[name]

    def _make(self, part: Part) -> Any:
        if isinstance(part, ComponentSpec):
            index = _index(self.spec.components or (), part)
            return self._placed(("components", index), part.name, lambda: self._component(part, index))
        if isinstance(part, PipelineSpec):
            path: KeyPath = ("pipelines", _index(self.spec.pipelines or (), part))
            return self._placed(path, part.name, lambda: self._pipeline(part, path))
        if isinstance(part, GroupSpec | ChainSpec):
            return self._team(part)
        index = _index(self.spec.agents or (), part)
        return self._placed(("agents", index), part.name, lambda: self._agent(part, index))

    def _team(self, part: GroupSpec | ChainSpec) -> Agent:
        teams = Teammaker(self.spec, self._part, self.human)
        if isinstance(part, GroupSpec):
            path: KeyPath = ("groups", _index(self.spec.groups or (), part))
            return self._placed(path, part.name, lambda: teams.group(part, path))
        way: KeyPath = ("chains", _index(self.spec.chains or (), part))
        return self._placed(way, part.name, lambda: teams.chain(part, way))

    def _placed(self, path: KeyPath, name: str, make: Callable[[], T]) -> T:
        """Return what `make` builds; its errors get the position of the part."""
        try:
            return make()
        except (UsageError, ValueError, TypeError) as error:
            raise DataError(str(self.spec.source.problem(Found((*path, "name"), f"{name}: {error}")))) from error

    def _component(self, component: ComponentSpec, index: int) -> Any:
        resolved = resolve_component(self.spec, index)
        params = {name: self._referred(component, name, value) for name, value in resolved.value.items()}
        if component.type == "PromptModel":
            return prompt_model(params)
        if component.type == "MCPTools":
            return MCPTools(component.name, pins=self._tools.folder / PINS, cwd=self._tools.folder, **params)
        return COMPONENTS[component.type].constructor(**params)

    def _referred(self, component: ComponentSpec, name: str, value: Any) -> Any:
        """Return a parameter's value, or the component it refers to."""
        parameter = COMPONENTS[component.type].parameters[name]
        if parameter.refers and isinstance(value, list):
            return [self._part(one) if one in self._parts else one for one in value]
        other = self._parts.get(value) if isinstance(value, str) and parameter.refers else None
        if isinstance(other, ComponentSpec) and other.type in parameter.refers:
            return self._part(other.name)
        if name == "default_prompt_template" and str(value).endswith(".txt") and "\n" not in value:
            return str(existing_path(self._tools.folder, value))
        return str(path_within(self._tools.folder, value)) if parameter.path and value is not None else value

    def _pipeline(self, pipeline: PipelineSpec, path: KeyPath) -> Pipeline:
        nodes = [Node(self._part(node.name), node.name, node.inputs) for node in pipeline.nodes]
        place = (*path, "name")
        fail(self.spec.source.problem(Found(place, f"{pipeline.name}: {wrong}")) for wrong in problems(nodes))
        return Pipeline(nodes, name=pipeline.name)

    def _agent(self, spec: AgentSpec, index: int) -> Agent:
        found = Parts.of(self.spec, index)
        made = self._speaking(found.params)
        made["memory"] = memories_of(found.params, self._part, self._tools.folder)
        return agent_of(spec, found.params, made, self._tools.of(spec, index), self.human)

    def _speaking(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The model or the prompt node of an agent, if the file defines it."""
        given = {key: params.get(key) for key in ("model", "prompt_node")}
        found = {key: self._part(name) for key, name in given.items() if isinstance(name, str) and name in self._parts}
        models = [self._part(name) if name in self._parts else name for name in params.get("models", ())]
        return found | ({"models": models} if models else {})


def prompt_model(params: Mapping[str, Any]) -> Model:
    """Build a `PromptModel` from a file's parameters: `timeout` in seconds, `max_length` in tokens per reply, and
    `model_kwargs`, an alias of `options`."""
    given = {name: value for name, value in params.items() if value is not None}
    length, seconds = given.pop("max_length", None), given.pop("timeout", None)
    if kwargs := given.pop("model_kwargs", None):
        given["options"] = {**given.get("options", {}), **kwargs}
    if seconds is not None:
        given["limits"] = TimeLimits(min(10.0, seconds), seconds, seconds)
    return limited(PromptModel(**given), max_tokens=length)


def _index(items: Any, item: Any) -> int:
    return next(index for index, one in enumerate(items) if one is item)


_SAMPLING = ("top_p", "top_k", "repetition_penalty")
_QUESTION = re.compile(r"\$(question|query|\{question\}|\{query\})(?![A-Za-z0-9_])")
_NOT_RESOLVED = ("tools", "answer_schema", "script", "questions")


@dataclass(frozen=True, slots=True)
class Parts:
    """An agent's given parameters, with environment variables resolved, and the variables that are missing."""

    params: Mapping[str, Any]
    missing: tuple[Found, ...]

    @classmethod
    def of(cls, spec: FileSpec, index: int) -> Parts:
        """Return the parameters of the file's agent number `index`."""
        given = (spec.agents or [])[index].params.model_dump(exclude_unset=True)
        given = {name: value for name, value in given.items() if value is not None}
        own = {name: value for name, value in given.items() if name not in _NOT_RESOLVED}
        found = resolve(own, path=("agents", index, "params"))
        return cls(given | found.value, found.missing)


def agent_of(
    spec: AgentSpec, params: Mapping[str, Any], named: Mapping[str, Any], tools: Iterable[Tool], human: Human | None
) -> Agent:
    """Build the agent. `named` holds the components that the file names: its model or prompt node, and its memories."""
    tools = list(tools)
    asked = params.get("require_human_feedback")
    if isinstance(asked, list) and (wrong := [name for name in asked if name not in {tool.name for tool in tools}]):
        raise UsageError(f"require_human_feedback: {unknown('tool', wrong[0], [tool.name for tool in tools])}")
    common: dict[str, Any] = {
        "tools": tools,
        "budget": budget_of(params),
        "name": spec.name,
        "human": human,
        "require_human_feedback": params.get("require_human_feedback", False),
    }
    if params.get("role") == "executor":
        return Executor(**common)
    if "prompt_node" not in named:
        common["model"] = named.get("model") or model_of({**params, "models": named.get("models")})
    agent = Agent(
        strategy=_strategy(params),
        answer_schema=params.get("answer_schema"),
        memory=named["memory"],
        questions=params.get("questions", ()),
        **common,
        **_prompting(named),
    )
    words = [params.get(key, "") for key in ("instructions", "role_description", "custom_prompt")]
    if _QUESTION.search(words[-1]) and isinstance(agent.strategy, React | Auto):
        react = agent.strategy if isinstance(agent.strategy, React) else React()
        agent.strategy = replace(react, prompt=words.pop())
    agent.instructions = "\n".join(word.strip() for word in words if word.strip())
    return agent


def model_of(params: Mapping[str, Any]) -> Model:
    """Build the model described by an agent's own parameters."""
    names = {"llm_engine": "engine", "llm_endpoint_url": "base_url", "api_key": "api_key", "script": "script"}
    names |= {name: name for name in ("temperature", "effort", "verbosity", "thinking_tokens", "stream")}
    names |= {name: name for name in ("models", "fall_back_on") if params.get(name)}
    given: dict[str, Any] = {name: params[key] for key, name in names.items() if key in params}
    name = params.get("model", params.get("llm_model_id", ""))
    if sampling := {key: params[key] for key in _SAMPLING if key in params}:
        given["options"] = sampling
    if seconds := params.get("timeout"):
        given["limits"] = TimeLimits(min(10.0, seconds), seconds, seconds)
    return limited(PromptModel(name, **given), max_tokens=params.get("max_new_tokens"))


def budget_of(params: Mapping[str, Any]) -> Budget:
    """Return the limits, under any of their names."""
    budget = Budget(**params.get("budget", {}))  # `null` means no limit
    return with_limits(budget, {name: params[name] for name in Limits.__annotations__ if name in params})


def _strategy(params: Mapping[str, Any]) -> Strategy:
    name = params.get("strategy", "auto")
    if params.get("role") == "planner":
        asked = bool(params.get("require_human_feedback")) or name == "humanInLoopPlanExec"
        return Planner(approve=asked)
    return STRATEGIES[name]


def _prompting(named: Mapping[str, Any]) -> dict[str, Any]:
    return {"prompt_node": named["prompt_node"]} if "prompt_node" in named else {}


class Toolmaker:
    """Builds tools; `part` returns what the file defines under a name."""

    def __init__(self, spec: FileSpec, part: Callable[[str], Any]) -> None:
        self._spec = spec
        self._part = part
        self.folder = Path(spec.source.file).parent

    def of(self, agent: AgentSpec, index: int) -> list[Tool]:
        """Return the tools of the file's agent number `index`, and its workers. Without `tools`, an agent gets the
        shared ones; with `[]`, none."""
        workers = [self._used(tool) for tool in worker_tools(agent)]
        workers += [handoff(partial(self._part, name), name) for name in agent.params.handoffs or ()]
        if agent.params.tools is not None:
            return [*self._tools(agent.params.tools, ("agents", index, "params", "tools"), agent), *workers]
        return [*(self.shared.values() if shares(agent, self._spec) else ()), *workers]

    @cached_property
    def shared(self) -> dict[str, Tool]:
        """The shared tools at the top of the file, by name."""
        return {tool.name: tool for tool in self._tools(self._spec.tools or [], ("tools",), None)}

    def _tools(self, tools: Tools, path: KeyPath, agent: AgentSpec | None) -> list[Tool]:
        if isinstance(tools, dict):
            return entry_tools(tools, self.folder, self._spec.source.under(path))
        items = [tools] if isinstance(tools, str) else tools
        made: list[Tool] = []
        for at, item in enumerate(items):
            place = path if isinstance(tools, str) else (*path, at)
            try:
                made += [self._used(item)] if isinstance(item, ToolRef) else self._named(item, agent)
            except (UsageError, ValueError) as error:
                raise DataError(str(self._spec.source.problem(Found(place, f"tools: {error}")))) from error
        return made

    def _named(self, text: str, agent: AgentSpec | None) -> list[Tool]:
        """Return the tools that `text` names: a shared tool, a built-in one, those of an MCP server of the file, or
        those of a tool file or folder."""
        if agent is not None and shares(agent, self._spec) and text in self.shared:
            return [self.shared[text]]
        if text in TOOLS:
            return [built_in(text)]
        if text in servers(self._spec):
            tools: list[Tool] = self._part(text).tools()
            return tools
        return load_tools(existing_path(self.folder, text))

    def _used(self, ref: ToolRef) -> Tool:
        """Return a component, pipeline or agent as a tool."""
        something, options = self._part(ref.pipeline_or_node), dict(ref.options)
        if ref.output_variable is not None:
            _check_output(ref, something)
            options["output_variable"] = ref.output_variable
        return Tool(ref.name, something, ref.description or self._said_of(ref), **options)

    def _said_of(self, ref: ToolRef) -> str:
        part = parts(self._spec)[ref.pipeline_or_node]
        return (part.params.role_description or "") if isinstance(part, AgentSpec) else ""


def _check_output(ref: ToolRef, something: Any) -> None:
    """Raise `UsageError` if a part with known outputs lacks the one named."""
    outputs = None if isinstance(something, Agent) else component(something).outputs
    if outputs and ref.output_variable not in outputs:
        wrong = f"{ref.pipeline_or_node} has no output {ref.output_variable!r}"
        raise UsageError(f"output_variable: {wrong}; {suggestion(str(ref.output_variable), outputs)}")


def built_in(name: str) -> Tool:
    """Return a built-in tool under its name in files. Raises `UsageError` if it needs parameters."""
    known = TOOLS[name]
    if known.required:
        needs = ", ".join(f"{one}: …" for one in known.required)
        raise UsageError(f"{name} needs parameters; write {name}: {{callable_api: {name}, params: {{{needs}}}}}")
    return replace(tool_of(known.constructor), name=name)
