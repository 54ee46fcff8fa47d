"""Exports agents and pipelines as the content of a file: from the objects, or from the file that they came from."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from .._internal.pin_file import PINS
from ..agent import Agent
from ..core.budgets import Budget
from ..core.component import Configurable
from ..core.hooks import Hook
from ..core.loop.compaction import Context
from ..core.protocols import Strategy
from ..core.tools.signature import read_exceptions
from ..core.tools.tool import Tool
from ..errors import UsageError
from ..harness import Harness
from ..mcp import MCPTools
from ..mcp.mcp_tools import Remote
from ..models import PromptModel
from ..models.reply_limits import Limited
from ..pipelines import Pipeline, list_inputs
from ..run.spec import RunSpec
from ..strategies import STRATEGIES
from ..strategies.given_actions import GivenActions
from ..strategies.planexec import Planner
from ..strategies.react import React
from ..strategies.wrappers.prompt_additions import Instructions
from ..strategies.wrappers.wrapper import Wrapper
from .environment import without_secrets
from .references import find_reached, may_use_shared_tools
from .registry import COMPONENTS, TOOLS, Parameter, build_built_in_tool
from .specs import SECTIONS, FileSpec

VERSION = 1
_WORDS = ("description", "script", "questions")  # which name no files
_OPTIONS = ("effects", "timeout", "approval", "polls", "return_direct", "reflections", "not_done")


class SpecWriter:
    """Collects the content of a file in `folder`. Every method raises `UsageError` for what a file cannot express."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sections: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
        self._tools: Any = {}
        self._names: dict[int, str] = {}
        self._objects: list[Any] = []  # keeps their ids valid

    def build_file_value(self) -> dict[str, Any]:
        """Return the file's value."""
        sections = {name: list(items.values()) for name, items in self._sections.items() if items}
        tools = {"tools": self._tools} if self._tools else {}
        value = without_secrets({"retinue": VERSION} | sections | tools)
        try:
            return FileSpec.model_validate(value).model_dump(exclude_unset=True, by_alias=True)
        except ValidationError as error:
            problem = error.errors(include_input=False)[0]
            place = ".".join(map(str, problem["loc"]))
            raise UsageError(f"cannot be written: {place}: {problem['msg']}") from None

    def add(self, something: Any, name: str) -> str:
        """Add an agent, a pipeline or a component, which is called `name` if that is free. Return its name."""
        if isinstance(something, Agent):
            return self._add_agent(something)
        if isinstance(something, Pipeline):
            return self._add_pipeline(something)
        return self._add_component(something, self._find_free_name(name))

    # ── agents and their tools ───────────────────────────────────────────────────────────────────

    def _add_agent(self, agent: Agent) -> str:
        if id(agent) in self._names:
            return self._names[id(agent)]
        self._remember_name(agent, agent.name)
        if agent.origin is not None:
            self._add_origin(agent.origin)
            if agent.state() != agent.origin.state:
                self._add_new_tools(agent, agent.origin)
            return agent.name
        params, ours = self._write_agent_parameters(agent.spec), set[str]()
        if (harness := agent.spec.harness) is not None:
            params["harness"], ours = self._write_harness(harness, agent.name), {tool.name for tool in harness.tools}
        if agent.spec.context != Context():
            params["context"] = self._write_context(agent.spec.context, agent.name)
        own = [tool for tool in agent.tools if tool.name not in ours]
        params["tools"] = _drop_repeated([self._write_tool(tool, agent) for tool in own])
        if agent.hooks:
            params["hooks"] = list(dict.fromkeys(self._write_hook(one, agent.name) for one in agent.hooks))
        self._add_item("agents", {"name": agent.name, "params": params})
        return agent.name

    def _add_new_tools(self, agent: Agent, origin: Origin) -> None:
        """Add the tools that an agent from a file gained since it was loaded."""
        (before, *others), (now, *same) = origin.state, agent.state()
        params = self._sections["agents"][agent.name]["params"]
        own = params.get("tools") or before
        if others != same or now[: len(before)] != before or isinstance(own, dict):
            raise UsageError(f"{agent.name} was changed since it was loaded; only added tools can be written")
        added = _drop_repeated([self._write_tool(tool, agent) for tool in agent.tools[len(before) :]])
        tools = [*([own] if isinstance(own, str) else own), *added]
        self._sections["agents"][agent.name] = {"name": agent.name, "params": params | {"tools": tools}}

    def _write_agent_parameters(self, spec: RunSpec) -> dict[str, Any]:
        """Return an agent's parameters, without its tools."""
        if lost := "dynamic_tools" if spec.tool_functions else "deps_of" if spec.deps_of is not None else "":
            raise UsageError(f"{spec.name}: {lost} cannot be written, as it is a function; leave it out")
        params: dict[str, Any] = {"role": "executor"}
        if not isinstance(spec.strategy, GivenActions):
            params = _write_strategy_parameters(spec, spec.strategy)
            if not isinstance(spec.instructions, str):
                raise UsageError(f"{spec.name}: its instructions have a function, which cannot be written; use a text")
            if spec.instructions:
                params["instructions"] = "\n".join(filter(None, (spec.instructions, params.get("instructions"))))
            if spec.questions:
                params["questions"] = list(spec.questions)
            key = "model" if spec.prompt_node is None else "prompt_node"
            params[key] = self.add(getattr(spec, key), f"{spec.name}_{key}")
        if memories := [self.add(memory, f"{spec.name}_memory") for memory in spec.memories]:
            params["memory"] = memories
        if spec.budget != Budget():
            limits = {one.name: (getattr(spec.budget, one.name), one.default) for one in fields(Budget)}
            params["budget"] = {name: value for name, (value, default) in limits.items() if value != default}
        if (asked := spec.require_human_feedback) and "require_human_feedback" not in params:
            params["require_human_feedback"] = True if asked is True else sorted(asked)
        if spec.answers is not None:
            params["answer"] = dict(spec.answers.schema)
        return params

    def _write_harness(self, harness: Harness, agent: str) -> Any:
        given = _list_changed_settings(harness)
        pins = given.pop("pins", None)
        if harness.skills and pins is not None and Path(pins).resolve() != self._folder / PINS:
            raise UsageError(f"{agent}: its approved skills must be in a file beside this one: pins={PINS!r}")
        if isinstance(folder := given.get("workspace"), str | Path):
            given["workspace"] = self._write_path(agent, "workspace", folder)
        if skills := given.get("skills"):
            given["skills"] = [self._write_path(agent, "skills", one) for one in skills]
        return given or True

    def _write_context(self, context: Context, agent: str) -> dict[str, Any]:
        given = _list_changed_settings(replace(context, model=None))
        return given if context.model is None else given | {"model": self.add(context.model, f"{agent}_context_model")}

    def _write_hook(self, hook: Hook, agent: str) -> str:
        """Return the name of the component that brought a hook, or `package.module:name` of its own."""
        if _is_component(hook.source):
            return self.add(hook.source, f"{agent}_{type(hook.source).__name__}")
        function: Any = hook.function
        module = sys.modules.get(getattr(function, "__module__", ""))
        file, name = getattr(module, "__file__", None), getattr(function, "__name__", "")
        if file is None or getattr(module, name, None) is not hook:
            raise UsageError(
                f"hook {hook.name}: cannot be written; a file can name guardrails, and hooks of Python files under "
                f"{self._folder}"
            )
        path = Path(file).resolve()
        if not path.is_relative_to(self._folder):
            raise UsageError(f"hook {hook.name}: cannot be written: {path.name} is not under {self._folder}")
        return f"{'.'.join(path.relative_to(self._folder).with_suffix('').parts)}:{name}"

    def _write_tool(self, tool: Tool, agent: Agent) -> Any:
        something, asked = tool.something, agent.require_human_feedback
        if isinstance(something, Remote):
            return self._add_server(something.server, agent)
        built_in = (build_built_in_tool(name) for name, entry in TOOLS.items() if not entry.required)
        known = next((one for one in built_in if one.something is something), None)
        options = _list_given_options(tool, known)
        if asked is True or (asked and tool.name in asked):
            options.pop("approval", None)
        said = {"description": tool.description} if tool.description else {}
        if isinstance(something, Agent | Pipeline) or type(something).__name__ in COMPONENTS:
            return {"name": tool.name, "pipeline_or_node": self.add(something, tool.name), **said, **options}
        if not isinstance(self._tools, dict):
            raise UsageError(f"tool {tool.name}: the file's tools are a path or a list; a function cannot be added")
        if known is not None and known.name == tool.name and not options.keys() - {"effects"}:
            return known.name
        entry = {"callable_api": known.name if known else self._write_function_name(tool), **said, **options}
        if self._tools.setdefault(tool.name, entry) != entry:
            raise UsageError(f"two different tools are called {tool.name!r}; names in a file must be unique")
        return tool.name

    def _add_server(self, server: MCPTools, agent: Agent) -> str:
        """Add an MCP server, which stands for its tools."""
        if server.pins is None or server.pins.resolve() != self._folder / PINS:
            raise UsageError(f"{server.name}: its approved tools must be in a file beside this one: pins={PINS!r}")
        if missing := {tool.name for tool in server.tools()} - {tool.name for tool in agent.tools}:
            raise UsageError(f"{server.name}: {min(missing)} is not used here; choose tools: MCPTools(tools=[…])")
        return self._add_component(server, server.name, forced=True)

    def _write_function_name(self, tool: Tool) -> str:
        """Return `file.py:function` for a tool that calls such a function."""
        function = tool.something
        code = getattr(function, "__code__", None)
        file = Path(code.co_filename).resolve() if code else None
        if file is None or tool.takes is not None or not file.is_file() or not file.is_relative_to(self._folder):
            raise UsageError(
                f"tool {tool.name}: cannot be written; a file can name components, pipelines, agents, and functions "
                f"of Python files under {self._folder}"
            )
        if function.__qualname__ != function.__name__ or function.__name__ == "<lambda>":
            raise UsageError(f"tool {tool.name}: cannot be written; {function.__qualname__} has no name in its file")
        return f"{file.relative_to(self._folder).as_posix()}:{function.__name__}"

    # ── pipelines and components ─────────────────────────────────────────────────────────────────

    def _add_pipeline(self, pipeline: Pipeline) -> str:
        if id(pipeline) in self._names:
            return self._names[id(pipeline)]
        if pipeline.origin is not None and pipeline.state() == pipeline.origin.state:
            self._remember_name(pipeline, pipeline.name)
            self._add_origin(pipeline.origin)
            return pipeline.name
        name = self._remember_name(pipeline, self._find_free_name(pipeline.name))
        if pipeline.inputs != list_inputs(pipeline.nodes):
            raise UsageError(
                f"pipeline {name}: cannot be written; in a file, its input is a query, or file paths from 'File'"
            )
        nodes = []
        for node in pipeline.nodes:
            if isinstance(node.inputs, Mapping):
                raise UsageError(f"pipeline {name}: node {node.name}: inputs by parameter cannot be written")
            self._add_component(node.something, node.name, forced=True)
            nodes.append({"name": node.name, "inputs": list(node.inputs)})
        self._add_item("pipelines", {"name": name, "nodes": nodes})
        return name

    def _add_component(self, something: Any, name: str, *, forced: bool = False) -> str:
        """Add a component as `name`. If it was added before, keep its name, unless `forced`."""
        if id(something) in self._names and (not forced or self._names[id(something)] == name):
            return self._names[id(something)]
        length = {}
        told = isinstance(something, Limited) and (something.stop or something.options)
        if isinstance(something, Limited) and not told and isinstance(something.inner, PromptModel):
            length, something = {"max_length": something.max_tokens}, something.inner
        type_ = type(something).__name__
        if type_ not in COMPONENTS or type(something) is not COMPONENTS[type_].constructor:
            kinds = ", ".join(COMPONENTS)
            raise UsageError(f"{name}: a {type_} cannot be written; a file can have components of type {kinds}")
        known = COMPONENTS[type_].parameters
        params = {
            key: self._write_parameter(name, key, value, known.get(key))
            for key, value in _list_changed_arguments(something).items()
        } | length
        item = {"name": self._remember_name(something, name), "type": type_} | ({"params": params} if params else {})
        self._add_item("components", item)
        return name

    def _write_parameter(self, name: str, key: str, value: Any, parameter: Parameter | None) -> Any:
        """Return the value of a component's parameter as a file has it."""
        if parameter is not None and parameter.path:
            return self._write_path(name, key, value)
        if _is_component(value):
            role = "template" if "template" in key else "model" if "model" in key else key
            return self.add(value, f"{name}_{role}")
        if parameter is not None and parameter.kind == "list":
            items = [value] if isinstance(value, str) else value
            value = [self._write_parameter(name, key, one, parameter) if _is_component(one) else one for one in items]
        value = list(value) if isinstance(value, tuple | set | frozenset) else value
        if parameter is None or not _is_plain(value):
            raise UsageError(f"{name}: {key} cannot be written: files hold only texts, numbers, lists and mappings")
        return value

    def _write_path(self, name: str, key: str, value: str | Path) -> str:
        path = Path(value).expanduser().resolve()
        if not path.is_relative_to(self._folder):
            raise UsageError(f"{name}: {key} cannot be written: {value} is not under {self._folder}")
        return path.relative_to(self._folder).as_posix()

    # ── names ────────────────────────────────────────────────────────────────────────────────────

    def _add_origin(self, origin: Origin) -> None:
        if origin.names_files and origin.folder != self._folder:
            raise UsageError(f"{origin.name} names files in {origin.folder}; save it there")
        for section in self._sections:
            for item in origin.written.get(section, ()):
                self._add_item(section, item)
        if tools := origin.written.get("tools"):
            if self._tools and self._tools != tools:
                raise UsageError(f"{origin.name}: its file's shared tools differ from those of another file")
            self._tools = dict(tools) if isinstance(tools, dict) else tools

    def _add_item(self, section: str, item: dict[str, Any]) -> None:
        name = item["name"]
        if any(items.get(name, item) != item for items in self._sections.values()):
            raise UsageError(f"two different things are called {name!r}; names in a file must be unique")
        self._sections[section][name] = item

    def _remember_name(self, something: Any, name: str) -> str:
        self._names[id(something)] = name
        self._objects.append(something)
        return name

    def _find_free_name(self, name: str) -> str:
        taken = {*self._names.values(), *(name for items in self._sections.values() for name in items)}
        return next(free for free in (name, *(f"{name}_{at}" for at in range(2, 10_000))) if free not in taken)


def _is_component(value: Any) -> bool:
    return type(value).__name__ in ("Limited", *COMPONENTS)


def _list_changed_arguments(something: Any) -> dict[str, Any]:
    """Return the arguments with which a component was made, unless they are the defaults."""
    entry = COMPONENTS[type(something).__name__]
    if isinstance(something, Configurable):
        given = {key: value for key, value in something.given.items() if key not in entry.hidden}
    else:
        given = {key: getattr(something, key) for key in entry.parameters}
    defaults = {key: one.default for key, one in inspect.signature(entry.constructor).parameters.items()}
    return {key: one for key, one in given.items() if one not in (None, (), [], {}, defaults.get(key))}


def _list_changed_settings(settings: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that do not have their defaults, as a file has them."""
    given: dict[str, Any] = {}
    for one in fields(settings):
        value = getattr(settings, one.name) if one.init else one.default
        if is_dataclass(value):
            value = _list_changed_settings(value) or True
        if value != (one.default if one.default_factory is MISSING else one.default_factory()):
            given[one.name] = list(value) if isinstance(value, tuple) else value
    return given


def _drop_repeated(items: Sequence[Any]) -> list[Any]:
    return [one for at, one in enumerate(items) if one not in items[:at]]


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(one) for key, one in value.items())
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | int | float | bool)


def _write_strategy_parameters(spec: RunSpec, strategy: Strategy) -> dict[str, Any]:
    if isinstance(strategy, Wrapper) and isinstance(strategy.reason, Instructions):
        return _write_strategy_parameters(spec, strategy.inner) | {"instructions": strategy.reason.text}
    if isinstance(strategy, Planner) and replace(strategy, approve=False) == Planner():
        return {"role": "planner"} | ({"require_human_feedback": True} if strategy.approve else {})
    if isinstance(strategy, React) and replace(strategy, prompt="") == React():
        template = getattr(spec.prompt_node, "default_prompt_template", None)
        own = strategy.prompt and strategy.prompt != getattr(template, "prompt_text", None)
        return {"strategy": "react"} | ({"custom_prompt": strategy.prompt} if own else {})
    for name, known in STRATEGIES.items():
        if known == strategy:
            return {"strategy": name}
    raise UsageError(f"{spec.name}: the custom strategy {strategy.name} cannot be written; use one of STRATEGIES")


def _list_given_options(tool: Tool, known: Tool | None) -> dict[str, Any]:
    """Return the options in which `tool` differs from a plain one; `known` is the built-in tool that it is."""
    plain = Tool(tool.name, tool.something, takes=tool.takes)
    options = {key: getattr(tool, key) for key in _OPTIONS if getattr(tool, key) != getattr(plain, key)}
    if "not_done" in options:
        declared = read_exceptions(tool.not_done)
        options["not_done"] = ", ".join(one.__name__ for one in declared)
        try:
            same = read_exceptions(options["not_done"]) == declared
        except ValueError:
            same = False
        if not same:
            raise UsageError(f"tool {tool.name}: not_done cannot be written; a file can only name built-in exceptions")
    if tool.examples != (known or plain).examples:
        given = [{key: value for key, value in asdict(one).items() if value} for one in tool.examples]
        options["examples"] = [one | {"calls": list(one["calls"])} for one in given]
    return options


@dataclass(frozen=True, eq=False)
class Origin:
    """The file and name of an object, with its `state` when built. Two origins are equal if they export the same
    content."""

    spec: FileSpec = field(repr=False)
    name: str
    state: Any

    @property
    def folder(self) -> Path:
        """The file's folder, to which its paths are relative."""
        return Path(self.spec.source.file).parent.resolve()

    @cached_property
    def whole(self) -> dict[str, Any]:
        """The content of a file with only the parts it needs."""
        wanted, whole = find_reached(self.spec, [self.name]), self.spec.model_dump(exclude_unset=True, by_alias=True)
        file: dict[str, Any] = {"retinue": VERSION}
        for section in SECTIONS:
            if kept := [item for item in whole.get(section) or () if item["name"] in wanted]:
                file[section] = kept
        agents = [agent for agent in self.spec.agents or () if agent.name in wanted]
        if whole.get("tools") and any(may_use_shared_tools(agent, self.spec) for agent in agents):
            file["tools"] = whole["tools"]
        return file

    @cached_property
    def written(self) -> dict[str, Any]:
        """The content of a file with only the parts it needs, without secrets."""
        return without_secrets(self.whole)

    @cached_property
    def names_files(self) -> bool:
        """Whether it refers to other files in its folder."""
        for one in self.written.get("components", ()):
            if one["type"] in ("MCPTools", *{one["type"]} - {*COMPONENTS}):
                return True
            parameters = COMPONENTS[one["type"]].parameters
            if any(parameters[key].path for key in one.get("params") or ()):
                return True
        harnesses = [one["params"].get("harness") for one in self.written.get("agents", ())]
        if any(isinstance(one, dict) and (one.get("skills") or one.get("workspace")) for one in harnesses):
            return True
        return any(map(_is_path, _collect_texts(self.written)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Origin) and self.written == other.written

    def __hash__(self) -> int:
        return hash(self.name)


def _collect_texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["pipeline_or_node"]] if "pipeline_or_node" in value else []
        inner = [text for key, one in value.items() if key not in _WORDS for text in _collect_texts(one)]
        tools = value.get("tools")
        named = [tools] if isinstance(tools, str) else [t for t in tools or () if isinstance(t, str)]
        return [text for text in inner if text not in own] + [f"{text}/" for text in named if "/" in text]
    if isinstance(value, list):
        return [text for one in value for text in _collect_texts(one)]
    return [value] if isinstance(value, str) else []


def _is_path(text: str) -> bool:
    plain = "\n" not in text and "://" not in text and " " not in text
    return plain and (".py:" in text or text.endswith((".py", ".yaml", ".yml", ".txt", ".json", ".jsonl", "/")))
