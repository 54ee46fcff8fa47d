"""Builds objects from specs; only this module assembles what a file defines. Agents are built in `agent_parts`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, TypeVar

from .._internal.yaml_io import YamlSerializable
from ..agent import Agent
from ..core.effects import Human
from ..core.protocols import Model
from ..core.tool import Tool
from ..errors import DataError, UsageError
from ..mcp import MCPTools
from ..mcp.tool_pins import PINS
from ..models import PromptModel
from ..models.reply_limits import limited
from ..net.retry import TimeLimits
from ..pipelines import Node, Pipeline, problems
from .agent_parts import Parts, agent_of
from .agent_tools import Toolmaker
from .callables import existing_path, path_within
from .environment import resolve_component
from .group_parts import Teammaker
from .memories import memories_of
from .origins import Origin
from .places import Found, Path, fail, unknown
from .references import Part, needed_by, parts, reached
from .registry import COMPONENTS
from .specs import AgentSpec, ChainSpec, ComponentSpec, FileSpec, GroupSpec, PipelineSpec
from .tool_files import Loading

T = TypeVar("T")


@dataclass
class Builder:
    """Builds what a file defines, each part once and only on demand.

    `human` decides for the agents. Every method raises `DataError` with source positions: first for all missing
    variables at once, then for the first part that cannot be built.
    """

    spec: FileSpec
    loading: Loading = field(default_factory=Loading)
    human: Human | None = None

    def __post_init__(self) -> None:
        self._parts = parts(self.spec)
        self._built: dict[str, Any] = {}
        self._under_way: list[str] = []
        self._tools = Toolmaker(self.spec, self.loading, self._part)

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
        own = Parts.of(self.spec, index, self.loading.environ)
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
            for one in resolve_component(self.spec, index, self.loading.environ).missing
        ]
        found += [
            one
            for index, agent in enumerate(self.spec.agents or ())
            if agent.name in wanted
            for one in Parts.of(self.spec, index, self.loading.environ).missing
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
            path: Path = ("pipelines", _index(self.spec.pipelines or (), part))
            return self._placed(path, part.name, lambda: self._pipeline(part, path))
        if isinstance(part, GroupSpec | ChainSpec):
            return self._team(part)
        index = _index(self.spec.agents or (), part)
        return self._placed(("agents", index), part.name, lambda: self._agent(part, index))

    def _team(self, part: GroupSpec | ChainSpec) -> Agent:
        teams = Teammaker(self.spec, self.loading, self._part, self.human)
        if isinstance(part, GroupSpec):
            path: Path = ("groups", _index(self.spec.groups or (), part))
            return self._placed(path, part.name, lambda: teams.group(part, path))
        way: Path = ("chains", _index(self.spec.chains or (), part))
        return self._placed(way, part.name, lambda: teams.chain(part, way))

    def _placed(self, path: Path, name: str, make: Callable[[], T]) -> T:
        """Return what `make` builds; its errors get the position of the part."""
        try:
            return make()
        except (UsageError, ValueError, TypeError) as error:
            raise DataError(str(self.spec.source.problem(Found((*path, "name"), f"{name}: {error}")))) from error

    def _component(self, component: ComponentSpec, index: int) -> Any:
        resolved = resolve_component(self.spec, index, self.loading.environ)
        params = {name: self._referred(component, name, value) for name, value in resolved.value.items()}
        if component.type == "PromptModel":
            return prompt_model(params)
        if component.type == "MCPTools":
            return MCPTools(component.name, pins=self._tools.folder / PINS, cwd=self._tools.folder, **params)
        return builder_of(component.type)(**params)

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

    def _pipeline(self, pipeline: PipelineSpec, path: Path) -> Pipeline:
        nodes = [Node(self._part(node.name), node.name, node.inputs) for node in pipeline.nodes]
        place = (*path, "name")
        fail(self.spec.source.problem(Found(place, f"{pipeline.name}: {wrong}")) for wrong in problems(nodes))
        return Pipeline(nodes, name=pipeline.name)

    def _agent(self, spec: AgentSpec, index: int) -> Agent:
        found = Parts.of(self.spec, index, self.loading.environ)
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


def builder_of(type_: str) -> Callable[..., Any]:
    """Return the constructor of a component type. Raises `UsageError` if it does not exist."""
    module, _, attribute = COMPONENTS[type_].builder.partition(":")
    found = getattr(import_module(module), attribute, None)
    if found is None:
        raise UsageError(f"{type_} cannot be built: {module} has no {attribute}")
    made: Callable[..., Any] = found
    return made


def _index(items: Any, item: Any) -> int:
    return next(index for index, one in enumerate(items) if one is item)
