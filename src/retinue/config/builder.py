"""Builds what a file defines: components, pipelines, groups, chains, and agents with their model, tools and limits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from inspect import isroutine
from pathlib import Path
from typing import Any

from .._internal.containment import call_contained
from .._internal.message_text import suggest_name
from .._internal.pin_file import PINS
from .._internal.source_text import Found, KeyPath, fail
from .._internal.yaml_io import YamlSerializable
from ..agent import Agent
from ..core.budgets import Budget, Limits, with_limits
from ..core.component import component
from ..core.loop.compaction import Context
from ..core.loop.effects import Human
from ..core.protocols import Memory, Model
from ..core.tools.tool import Tool
from ..errors import DataError, UsageError
from ..executor import Executor
from ..harness import Harness, Helpers, Sandbox
from ..mcp import MCPTools
from ..models import PromptModel
from ..models.reply_limits import limit_replies
from ..net.retry import TimeLimits
from ..pipelines import Node, Pipeline, problems
from ..run.handoff import handoff
from ..strategies import STRATEGIES
from ..strategies.auto import Auto
from ..strategies.planexec import Planner
from ..strategies.react import React
from ..teams import Chain, HumanGate, MessageGroup, ModelChoice, Role, StateField, When
from ..teams.graph_check import GraphOutline
from ..teams.message_group import MAX_RUNS, MAX_VISITS, NO_STEPS, Selector
from .environment import Resolved, resolve, resolve_component
from .export import Origin
from .named_code import is_named_code, load_named_code, load_strategy, make_component
from .problems import describe_unknown
from .references import (
    Part,
    find_reached,
    index_parts,
    list_models,
    list_needed,
    list_servers,
    list_worker_tools,
    may_use_shared_tools,
)
from .registry import COMPONENTS, TOOLS, build_built_in_tool
from .specs import (
    SECTIONS,
    AgentSpec,
    BudgetSpec,
    ChainSpec,
    ComponentSpec,
    ConditionalSpec,
    FieldSpec,
    FileSpec,
    GroupSpec,
    PipelineSpec,
    RoleSpec,
    ToolEntry,
    ToolRef,
    Tools,
)
from .tool_files import build_entry_tools, load_tools, resolve_existing_path, resolve_path_within

_MODEL = {"llm_engine": "engine", "llm_endpoint_url": "base_url", "max_new_tokens": "max_length"}
_MODEL |= {
    name: name
    for name in (
        "api_key", "script", "temperature", "effort", "verbosity", "thinking_tokens", "stream", "timeout",
        "fall_back_on",
    )
}  # fmt: skip
_SAMPLING = ("top_p", "top_k", "repetition_penalty")
_QUESTION = re.compile(r"\$(question|query|\{question\}|\{query\})(?![A-Za-z0-9_])")
_SETTINGS: Mapping[str, Any] = {"shell": Sandbox, "helpers": Helpers}  # of pieces of a harness
_NOT_RESOLVED = ("tools", "answer", "script", "questions")


@dataclass
class Builder:
    """Builds what a file defines, each part once and only on demand.

    `human` decides for the agents. Every method raises `DataError` with source positions: first for all missing
    variables at once, then for the first part that cannot be built.
    """

    spec: FileSpec
    human: Human | None = None

    def __post_init__(self) -> None:
        self._folder = Path(self.spec.source.file).parent
        self._parts = index_parts(self.spec)
        self._paths: dict[str, KeyPath] = {
            part.name: (section, at)
            for section in SECTIONS
            for at, part in enumerate(getattr(self.spec, section) or ())
        }
        self._built: dict[str, Any] = {}
        self._under_way: list[str] = []
        self._harnesses: dict[str, Harness | None] = {}

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
        asked = agent.params.require_human_feedback
        made = self._build_agent_tools(agent)
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
        hooks = [one for one in agent.params.hooks or () if one in self._parts]
        self._check_variables(*hooks, *filter(None, (agent.params.model, agent.params.prompt_node)))
        with self._locate_errors(agent):
            return self._build_agent(agent, tools, [])

    def build_harness(self, name: str) -> Harness | None:
        """Return the harness of the agent called `name`, if it has one. Skills are read once."""
        if name not in self._harnesses and isinstance(agent := self._parts.get(name), AgentSpec):
            with self._locate_errors(agent):
                self._harnesses[name] = self._make_harness(self._resolve_params(agent).value.get("harness"))
        return self._harnesses.get(name)

    def build_shared_tools(self) -> list[Tool]:
        """Return the shared tools at the top of the file."""
        self._check_variables(*list_needed(self.spec.tools, self.spec))
        return list(self._shared.values())

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
        with self._locate_errors(part):
            match part:
                case ComponentSpec():
                    return self._build_component(part)
                case PipelineSpec():
                    return self._build_pipeline(part)
                case GroupSpec():
                    return self._build_group(part)
                case ChainSpec():
                    return self._build_chain(part)
                case AgentSpec():
                    memories = self._build_memories(self._resolve_params(part).value)
                    return self._build_agent(part, self._build_agent_tools(part), memories)

    @contextmanager
    def _locate_errors(self, part: Part) -> Iterator[None]:
        """Give errors the position of the part."""
        try:
            yield
        except (UsageError, ValueError, TypeError) as error:
            found = Found((*self._paths[part.name], "name"), f"{part.name}: {error}")
            raise DataError(str(self.spec.source.locate_problem(found))) from error

    # ── components and pipelines ─────────────────────────────────────────────────────────────────

    def _build_component(self, spec: ComponentSpec) -> Any:
        resolved = resolve_component(self.spec, int(self._paths[spec.name][1]))
        params = {name: self._build_parameter(spec, name, value) for name, value in resolved.value.items()}
        if spec.type == "PromptModel":
            return _build_prompt_model(params)
        if spec.type == "MCPTools":
            return MCPTools(spec.name, pins=self._folder / PINS, cwd=self._folder, **params)
        if spec.type not in COMPONENTS:
            return make_component(spec.type, self._folder, params)
        return COMPONENTS[spec.type].constructor(**params)

    def _build_parameter(self, spec: ComponentSpec, name: str, value: Any) -> Any:
        """Return a parameter's value, or the component it refers to."""
        if spec.type not in COMPONENTS:  # of an own type: a text that is a part's name is that part
            items = value if isinstance(value, list) else [value]
            made = [self._build_part(one) if isinstance(one, str) and one in self._parts else one for one in items]
            return made if isinstance(value, list) else made[0]
        parameter = COMPONENTS[spec.type].parameters[name]
        if parameter.refers and isinstance(value, list):
            return [self._build_part(one) if one in self._parts else one for one in value]
        other = self._parts.get(value) if isinstance(value, str) and parameter.refers else None
        if isinstance(other, ComponentSpec) and other.type in parameter.refers:
            return self._build_part(other.name)
        if name == "default_prompt_template" and str(value).endswith(".txt") and "\n" not in value:
            return str(resolve_existing_path(self._folder, value))
        return str(resolve_path_within(self._folder, value)) if parameter.path and value is not None else value

    def _build_pipeline(self, pipeline: PipelineSpec) -> Pipeline:
        nodes = [Node(self._build_part(node.name), node.name, node.inputs) for node in pipeline.nodes]
        place = (*self._paths[pipeline.name], "name")
        fail(self.spec.source.locate_problem(Found(place, f"{pipeline.name}: {wrong}")) for wrong in problems(nodes))
        return Pipeline(nodes, name=pipeline.name)

    # ── agents ───────────────────────────────────────────────────────────────────────────────────

    def _resolve_params(self, agent: AgentSpec) -> Resolved:
        """Return an agent's given parameters, with environment variables resolved."""
        dumped = agent.params.model_dump(exclude_unset=True)
        given = {name: value for name, value in dumped.items() if value is not None}
        own = {name: value for name, value in given.items() if name not in _NOT_RESOLVED}
        found = resolve(own, path=(*self._paths[agent.name], "params"))
        return Resolved(given | found.value, found.missing)

    def _build_agent(self, spec: AgentSpec, tools: Iterable[Tool], memories: Sequence[Memory]) -> Agent:
        """Build an agent with these tools and memories, from Retinue's parameters and those of other frameworks."""
        params, tools = self._resolve_params(spec).value, list(tools)
        asked, names = params.get("require_human_feedback", False), [tool.name for tool in tools]
        if isinstance(asked, list) and (wrong := [name for name in asked if name not in names]):
            raise UsageError(f"require_human_feedback: {describe_unknown('tool', wrong[0], names)}")
        budget = Budget(**params.get("budget", {}))  # `null` means no limit
        common: dict[str, Any] = {
            "tools": tools, "name": spec.name, "human": self.human, "require_human_feedback": asked,
            "budget": with_limits(budget, {name: params[name] for name in Limits.__annotations__ if name in params}),
        }  # fmt: skip
        if params.get("role") == "executor":
            return Executor(**common)
        name = params.get("strategy", "auto")
        strategy = load_strategy(name, self._folder) if is_named_code(name) else STRATEGIES[name]
        if params.get("role") == "planner":
            strategy = Planner(approve=bool(asked) or name == "humanInLoopPlanExec")
        agent = Agent(
            strategy=strategy,
            answer=params.get("answer", str),
            memory=memories,
            questions=params.get("questions", ()),
            hooks=[self._build_hook(name) for name in params.get("hooks", ())],
            context=self._build_context(params.get("context", True)),
            **self._build_model(params),
            **common,
        )
        words = [params.get(key, "") for key in ("instructions", "role_description", "custom_prompt")]
        if _QUESTION.search(words[-1]) and isinstance(agent.strategy, React | Auto):
            react = agent.strategy if isinstance(agent.strategy, React) else React()
            agent.strategy = replace(react, prompt=words.pop())
        agent.instructions = "\n".join(word.strip() for word in words if word.strip())
        agent.spec = replace(agent.spec, harness=self.build_harness(spec.name))  # whose tools are among `tools`
        return agent

    def _build_context(self, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        if name := given.get("model"):
            given = given | {"model": self._build_part(name) if name in self._parts else PromptModel(name)}
        return Context(**given)

    def _make_harness(self, given: Any) -> Harness | None:
        if not given:
            return None
        params = {} if given is True else {key: one for key, one in given.items() if one is not None}
        skills = params.get("skills", ())
        several = [skills] if isinstance(skills, str) else skills
        params["skills"] = [resolve_existing_path(self._folder, one) for one in several]
        if isinstance(params.get("workspace"), str):
            params["workspace"] = resolve_path_within(self._folder, params["workspace"])
        for key, settings in _SETTINGS.items():
            if isinstance(one := params.get(key), dict):
                given = {name: tuple(value) if isinstance(value, list) else value for name, value in one.items()}
                params[key] = settings(**given)
        return Harness(pins=self._folder / PINS, **params)

    def _build_model(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return an agent's model or prompt node: one that the file defines, or what its own parameters say."""
        for key in ("prompt_node", "model"):
            if params.get(key) in self._parts:
                made = self._build_part(params[key])
                if key == "model" and not callable(getattr(made, "reply", None)):  # of a type of one's own
                    raise UsageError(f"{params[key]} is not a model: it has no `reply`")
                return {key: made}
        given: dict[str, Any] = {name: params[key] for key, name in _MODEL.items() if params.get(key) not in (None, [])}
        given["model_name_or_path"] = params.get("model", params.get("llm_model_id", ""))
        if models := [self._build_part(one) if one in self._parts else one for one in params.get("models", ())]:
            given["models"] = models
        if sampling := {key: params[key] for key in _SAMPLING if key in params}:
            given["options"] = sampling
        return {"model": _build_prompt_model(given)}

    def _build_memories(self, params: Mapping[str, Any]) -> list[Memory]:
        if params.get("with_memory"):
            from ..memory import ConversationMemory  # imported here because few agents need it

            kept = params["store_config"]["path"] if params.get("memory_type") == "store" else None
            return [ConversationMemory(path=None if kept is None else resolve_path_within(self._folder, kept))]
        named = params.get("memory", ())
        return [self._build_part(name) for name in ([named] if isinstance(named, str) else named)]

    def _build_hook(self, name: str) -> Any:
        """Return what an agent's `hooks` name: a component, or code, which may be a class without parameters."""
        if not is_named_code(name):
            return self._build_part(name)
        found = load_named_code(name, self._folder)
        return call_contained(found) if isinstance(found, type) else found

    # ── tools ────────────────────────────────────────────────────────────────────────────────────

    def _build_agent_tools(self, agent: AgentSpec) -> list[Tool]:
        """Return an agent's tools, workers and harness. Without `tools`, it gets the shared ones; with `[]`, none."""
        workers = [self._build_tool(tool) for tool in list_worker_tools(agent)]
        workers += [handoff(partial(self._build_part, name), name) for name in agent.params.handoffs or ()]
        if (harness := self.build_harness(agent.name)) is not None:
            workers += harness.tools
        if agent.params.tools is not None:
            place = (*self._paths[agent.name], "params", "tools")
            return [*self._build_tools(agent.params.tools, place, agent), *workers]
        return [*(self._shared.values() if may_use_shared_tools(agent, self.spec) else ()), *workers]

    @cached_property
    def _shared(self) -> dict[str, Tool]:
        """The shared tools at the top of the file, by name."""
        return {tool.name: tool for tool in self._build_tools(self.spec.tools or [], ("tools",), None)}

    def _build_tools(self, tools: Tools, path: KeyPath, agent: AgentSpec | None) -> list[Tool]:
        if isinstance(tools, dict):
            return build_entry_tools(tools, self.spec.source, path)
        made: list[Tool] = []
        for at, item in enumerate([tools] if isinstance(tools, str) else tools):
            try:
                made += [self._build_tool(item)] if isinstance(item, ToolRef) else self._find_tools(item, agent)
            except (UsageError, ValueError) as error:
                found = Found(path if isinstance(tools, str) else (*path, at), f"tools: {error}")
                raise DataError(str(self.spec.source.locate_problem(found))) from error
        return made

    def _find_tools(self, text: str, agent: AgentSpec | None) -> list[Tool]:
        """Return the tools that `text` names: a shared tool, a built-in one, those of an MCP server of the file, or
        those of a tool file or folder."""
        if agent is not None and may_use_shared_tools(agent, self.spec) and text in self._shared:
            return [self._shared[text]]
        if text in TOOLS:
            return [build_built_in_tool(text)]
        if text in list_servers(self.spec):
            tools: list[Tool] = self._build_part(text).tools()
            return tools
        return load_tools(resolve_existing_path(self._folder, text))

    def _build_tool(self, ref: ToolRef) -> Tool:
        """Return a component, pipeline or agent as a tool."""
        something, options = self._build_part(ref.pipeline_or_node), dict(ref.options)
        if ref.output_variable is not None:
            outputs = None if isinstance(something, Agent) else component(something).outputs
            if outputs and ref.output_variable not in outputs:
                wrong = f"{ref.pipeline_or_node} has no output {ref.output_variable!r}"
                raise UsageError(f"output_variable: {wrong}; {suggest_name(ref.output_variable, outputs)}")
            options["output_variable"] = ref.output_variable
        part, description = self._parts[ref.pipeline_or_node], ref.description
        if not description and isinstance(part, AgentSpec):
            description = part.params.role_description or ""
        return Tool(ref.name, something, description, **options)

    # ── groups and chains ────────────────────────────────────────────────────────────────────────

    def _build_group(self, group: GroupSpec) -> Agent:
        path, models = self._paths[group.name], list_models(group)
        model: Model | None = None
        if models:
            known = isinstance(self._parts.get(models[0]), ComponentSpec)
            model = self._build_part(models[0]) if known else PromptModel(models[0])
        made = MessageGroup(
            group.name,
            state={
                name: self._build_field(field, (*path, "state", name)) for name, field in (group.state or {}).items()
            },
            answer=group.answer or "",
            model=model,
            human=self.human,
            budget=_build_team_budget(group.budget),
            max_visits=group.max_visits or MAX_VISITS,
            max_runs=group.max_runs or MAX_RUNS,
        )
        for at, role in enumerate(group.roles):
            made.add_role(self._build_role(role, (*path, "roles", at)))
        for edge in group.edges:
            made.add_edge(edge.head, edge.tail, on_error=edge.on == "error")
        for at, edges in enumerate(group.conditional_edges or ()):
            selector = self._build_selector(edges, (*path, "conditional_edges", at, "selector"))
            made.add_conditional_edges(edges.head, edges.tails, selector)
        return made.compile()

    def _build_chain(self, chain: ChainSpec) -> Agent:
        path = (*self._paths[chain.name], "steps")
        steps = [
            self._build_part(step) if isinstance(step, str) else self._build_role(step, (*path, at))
            for at, step in enumerate(chain.steps)
        ]
        return Chain(steps, name=chain.name, human=self.human, budget=_build_team_budget(chain.budget))

    def _build_role(self, role: RoleSpec, path: KeyPath) -> Role | HumanGate:
        if role.human is not None:
            return HumanGate(role.name, role.human.shows, role.human.question, role.max_visits)
        something = self._load_callable(role.callable_api, path) if role.callable_api else self._build_part(role.part)
        output, description = role.output or "", role.description or ""
        return Role(role.name, something, role.input, output, description, role.max_visits, role.effects, role.timeout)

    def _load_callable(self, api: str, path: KeyPath) -> Any:
        """Return what `callable_api` names: a function of a file as it is, anything else as a tool."""
        (made,) = build_entry_tools({"role": ToolEntry(callable_api=api)}, self.spec.source, path)
        return made.something if isroutine(made.something) and made.takes is None and ".py:" in api else made

    def _build_field(self, field: str | FieldSpec, path: KeyPath) -> StateField:
        if isinstance(field, str):
            return StateField(field)
        reducer: Any = self._load_callable(field.reducer, path) if ".py:" in field.reducer else field.reducer
        return StateField(field.type, reducer, **({"default": field.default} if field.default is not None else {}))

    def _build_selector(self, edges: ConditionalSpec, path: KeyPath) -> Selector:
        selector = edges.selector
        if isinstance(selector, str):
            return selector
        if selector.function:
            called: Selector = self._load_callable(selector.function, path)
            if isinstance(called, Tool) and not isroutine(called.something):
                raise UsageError(f"{selector.function} cannot select: want a function of the state")
            return called
        if selector.when:
            return When([(case.if_, case.to) for case in selector.when], selector.otherwise or "")
        asked: Mapping[str, Any] = {"question": selector.question} if selector.question else {}
        return ModelChoice(**asked, shows=tuple(selector.shows or ()))


def _build_prompt_model(params: Mapping[str, Any]) -> Model:
    """Build a `PromptModel` from a file's parameters: `timeout` in seconds, `max_length` of a reply in tokens, and
    `model_kwargs`, an alias of `options`."""
    given = {name: value for name, value in params.items() if value is not None}
    seconds, length = given.pop("timeout", None), given.pop("max_length", None)
    if kwargs := given.pop("model_kwargs", None):
        given["options"] = {**given.get("options", {}), **kwargs}
    if seconds is not None:
        given["limits"] = TimeLimits(min(10.0, seconds), seconds, seconds)
    return limit_replies(PromptModel(**given), max_tokens=length)


def _build_team_budget(spec: BudgetSpec | None) -> Budget:
    given = {} if spec is None else spec.model_dump(exclude_unset=True)
    return Budget(**{"steps": None, **given}) if given else NO_STEPS


def outline_group(group: GroupSpec) -> GraphOutline:
    """Return a group by the names of its roles."""
    branches = [
        (one.head, list(one.tails.values()) if isinstance(one.tails, dict) else one.tails)
        for one in group.conditional_edges or ()
    ]
    edges = [(edge.head, edge.tail, edge.on == "error") for edge in group.edges]
    return GraphOutline([role.name for role in group.roles], edges, branches)
