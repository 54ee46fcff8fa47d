"""Checks of the parts of a file: components, pipelines and MCP servers; agents; groups and chains.

Nothing is imported or started. Every command that a file would run passes through here. Files are the operator's;
definitions from an API may not contain a command.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from string import Template
from typing import Any, get_args

from .._internal.message_text import find_nearest
from .._internal.pin_file import PINS
from .._internal.source_text import MAX_FOUND, Found, KeyPath, Source
from ..core.tools.delegation import HANDOFF
from ..errors import DataError, UsageError
from ..harness import Harness
from ..harness.skills import load_skills
from ..mcp.server_address import find_server_problems
from ..pipelines.graph import find_cycles
from ..strategies import STRATEGIES
from ..teams.graph_check import GraphOutline, GraphProblem, find_structure_problems
from ..teams.role import END, START, check_role_name
from ..teams.selectors import ExpressionError, parse_expression
from ..teams.shared_state import OWN, REDUCERS, StateField
from .named_code import is_named_code, parse_named_code
from .problems import Node, describe_unknown, find_invalid, find_unknown, format_value, validate
from .references import name_worker_tool
from .registry import COMPONENTS, ENGINES, GUARDRAILS, MEMORIES, MEMORY_TYPES, ROOTS, TOOLS
from .specs import FieldType, ToolOptions
from .tool_files import (
    ToolFiles,
    check_entries,
    check_params,
    parse_callable,
    resolve_existing_path,
    resolve_path_within,
)

_OWN = ". A component of your own is named by its module: package.module:Name"
_MANY = ("args", "env", "headers", "tools", "options")
Sections = Mapping[str, Mapping[str, Node]]  # the named parts of the file, by section
Uses = dict[str, dict[str, Node]]  # by what uses something: what it names, and where


# ── components, pipelines and MCP servers ────────────────────────────────────────────────────────


def check_components(root: Node, sections: Sections, folder: Path) -> Iterator[Found]:
    """Check the types, parameters and references of components."""
    for component in root.at("components"):
        type_, params = component.at("type").text, component.at("params")
        if is_named_code(type_):
            yield from find_invalid(component.at("type"), partial(parse_named_code, folder=folder))
            continue
        if type_ not in COMPONENTS:
            own = "" if find_nearest(type_, COMPONENTS) else _OWN
            if type_:
                yield Found(component.at("type").path, describe_unknown("type of component", type_, COMPONENTS) + own)
            continue
        known = COMPONENTS[type_]
        yield from check_params(component, known, type_)
        for name, parameter in known.parameters.items():
            if parameter.path and "${" not in params.at(name).text:  # which need not exist yet
                yield from find_invalid(params.at(name), partial(resolve_path_within, folder))
        for one, types in _list_references(component):
            yield from _check_reference(one, sections["components"], types)
        if type_ == "MCPTools":
            yield from _check_server(component)


def _list_references(component: Node) -> Iterator[tuple[Node, tuple[str, ...]]]:
    """Yield the texts that may name other components, each with the types that they may be of."""
    known = COMPONENTS.get(component.at("type").text)
    for name, parameter in known.parameters.items() if known else ():
        named = component.at("params").at(name)
        for one in named if parameter.kind == "list" else [named]:
            if parameter.refers and one.text:
                yield one, parameter.refers


def _check_reference(named: Node, components: Mapping[str, Node], types: tuple[str, ...]) -> Iterator[Found]:
    """Check a text that may name a component, or something else such as a model."""
    key = next(one for one in reversed(named.path) if isinstance(one, str))
    if (component := components.get(named.text)) is not None:
        type_ = component.at("type").text
        if type_ in COMPONENTS and type_ not in types:
            yield Found(named.path, f"{key}: {named.text!r} is a {type_}; want a {' or '.join(types)}")
        return
    meant = (name for name, one in components.items() if one.at("type").text in types)
    if near := find_nearest(named.text, meant, 0.8):
        yield Found(named.path, f"{key}: no component is called {format_value(named.text)}; did you mean {near!r}?")


def check_pipelines(root: Node, sections: Sections) -> Iterator[Found]:
    """Check each pipeline: nodes must be components, connected to one root, without circles."""
    for pipeline in root.at("pipelines"):
        seen: set[str] = set()
        for node in pipeline.at("nodes"):
            yield from find_unknown(node.at("name"), "component", sections["components"])
            if node.name and node.name in seen:
                yield Found(node.at("name").path, f"{node.name!r} appears twice in this pipeline")
            seen.add(node.name)
        yield from _check_graph(list(pipeline.at("nodes")))


def _check_graph(nodes: list[Node]) -> Iterator[Found]:
    own = dict.fromkeys(node.name for node in nodes if node.name)
    roots, uses = list[str](), Uses()
    reached = {*ROOTS}  # nodes with a wrong input are, too, for their connections are unknown
    for node, given in ((one, given) for one in nodes for given in one.at("inputs")):
        name = given.text.partition(".output_")[0]
        uses.setdefault(node.name, {}).setdefault(name, given)
        if name in ROOTS and name not in roots:
            roots.append(name)
            if len(roots) > 1:
                yield Found(given.path, f"a second root, {name}: this pipeline begins at {roots[0]}")
        if name not in ROOTS and name not in own:
            reached.add(node.name)
            if name:
                yield Found(given.path, describe_unknown("input", name, [*ROOTS, *own]))
    circles = list(islice(_find_circles(uses), MAX_FOUND))
    yield from circles
    while new := {name for name, named in uses.items() if name not in reached and not reached.isdisjoint(named)}:
        reached |= new
    for node in nodes if not circles else ():
        if node.name and isinstance(node.at("inputs").value, list) and node.name not in reached:
            yield Found(node.at("name").path, f"{node.name!r} is not connected to a root; want {' or '.join(ROOTS)}")


def _check_server(component: Node) -> Iterator[Found]:
    """Check an MCP server beyond the types of its parameters."""
    params = component.at("params")
    if not isinstance(params.value, dict | None):
        return
    if any(isinstance(one.value, dict | list) != (one.path[-1] in _MANY) for one in params if one.value):
        return  # of the wrong type, which is already reported
    for key, problem in find_server_problems(component.name, params.value or {}):
        place = {"": params, "name": component.at("name")}.get(key, params.at(key))
        yield Found(place.path if place.value else component.path, problem)
    for tool in params.at("options"):
        _, found = validate(ToolOptions, Source("", tool.value))
        yield from (one._replace(path=(*tool.path, *one.path)) for one in found)


# ── agents ───────────────────────────────────────────────────────────────────────────────────────


_MODELS = ("model", "models", "prompt_node", "llm_model_id", "script")  # each of these names the model
_MODEL_KEYS = (*_MODELS, "llm_engine", "llm_endpoint_url")
_SETTINGS = (
    "llm_engine", "llm_endpoint_url", "api_key", "temperature", "effort", "verbosity", "thinking_tokens", "top_p",
    "top_k", "repetition_penalty", "max_new_tokens", "stream", "timeout",
)  # fmt: skip
_OF_MODELS = (
    "strategy", "instructions", "questions", "memory", "with_memory", "hooks", "harness", "context",
)  # fmt: skip
_STEPS = ("recursion_limit", "max_iterations", "max_steps")
_LIMITS = {**dict.fromkeys(_STEPS, "steps"), "max_execution_time": "seconds"}  # with what they are in a budget
_LIMITS |= {"early_stopping_method": "early_stopping_method"}
_FILLED = ("tools", "tool_names", "answer", "examples", "history", "question", "query")  # by `React.question`
_TRANSCRIPT = "; the transcript follows the prompt automatically, so leave it out"
_STORE = "want {path: FILE}, a JSON file that stores the memory"


def check_agents(root: Node, sections: Sections, files: ToolFiles) -> Iterator[Found]:
    """Check every agent, and the tools shared by all. `sections` are the named parts of the file."""
    shared: dict[str, Node] = {}
    parts = {name: node for nodes in sections.values() for name, node in nodes.items()}
    yield from _ToolChecks(parts, files, {}, shared).check_tools(root.at("tools"))
    for params in (agent.at("params") for agent in root.at("agents")):
        if not isinstance(params.value, dict):
            continue
        yield from _check_role(params, shared)
        yield from _check_model(params, sections["components"])
        if is_named_code(params.at("strategy").value):
            yield from find_invalid(params.at("strategy"), partial(parse_named_code, folder=files.folder))
        else:
            yield from find_unknown(params.at("strategy"), "strategy", STRATEGIES)
        yield from _check_prompts(params, sections["components"])
        yield from _check_memory(params, sections["components"], files)
        yield from _check_hooks(params, sections["components"], files.folder)
        yield from _check_limits(params)
        checks = _ToolChecks(parts, files, shared, {})
        yield from checks.check_tools(params.at("tools"))
        yield from checks.check_workers(params.at("workers"))
        yield from checks.check_handoffs(params.at("handoffs"), sections["agents"])
        yield from checks.check_harness(params.at("harness"))
        if not files.unnamed:
            usable = checks.own | (shared if params.at("tools").value is None else {})
            for named in params.at("require_human_feedback"):
                yield from find_unknown(named, "tool", usable)


def _forbid(params: Node, keys: Iterable[str], before: str = "", after: str = "") -> Iterator[Found]:
    """Yield a problem for each of `keys` that is given."""
    for key in params.given(*keys):
        yield Found((*params.path, key), f"{before}{key!r}{after}", at_key=True)


def _check_role(params: Node, shared: Mapping[str, Node]) -> Iterator[Found]:
    role, tools = params.at("role").text or "agent", params.at("tools")
    if role == "planner" and (tools.value or params.at("harness").value):
        yield Found((tools if tools.value else params.at("harness")).path, "a planner has no tools", at_key=True)
    if role == "executor":
        if not (shared if tools.value is None else tools.value):
            yield Found(params.path, "an executor needs 'tools'")
        yield from _forbid(params, (*_MODEL_KEYS, *_OF_MODELS), "an executor runs tools and has no ")
    elif not params.given(*_MODEL_KEYS):
        yield Found(params.path, "no model: needs 'model', 'models', 'prompt_node', 'llm_model_id' or 'script'")


def _check_model(params: Node, components: Mapping[str, Node]) -> Iterator[Found]:
    given = params.given(*_MODELS)
    if len(given) > 1 and not (given == ["model", "script"] and params.at("model").text == "scripted"):
        yield from _forbid(params, given[1:2], f"both {given[0]!r} and ", " name the model; keep one")
    for one in (params.at("model"), params.at("context").at("model"), *params.at("models")):
        yield from _check_reference(one, components, ("PromptModel",))
    if "models" in given:
        keys = ("api_key", "llm_engine", "llm_endpoint_url")
        yield from _forbid(params, keys, after=" is of one model; make it a component")
    else:
        yield from _forbid(params, ["fall_back_on"], after=" needs 'models'")
    if named := next((text for key in ("prompt_node", "model") if (text := params.at(key).text) in components), ""):
        yield from _forbid(params, _SETTINGS, f"the component {named!r} is the model; set ", " there")
    node, engine = params.at("prompt_node"), params.at("llm_engine")
    if node.text in components:
        yield from _check_reference(node, components, ("PromptNode",))
    else:
        prompt_nodes = [name for name, one in components.items() if one.at("type").text == "PromptNode"]
        yield from find_unknown(node, "prompt node", prompt_nodes)
    yield from find_unknown(engine, "engine", ENGINES)
    if engine.text in ("tgi", "vllm") and not params.given("llm_endpoint_url"):
        yield Found(engine.path, f"{engine.text} needs 'llm_endpoint_url'")


def _check_prompts(params: Node, components: Mapping[str, Node]) -> Iterator[Found]:
    """Check an agent's prompt, and yield a warning for each variable that is not filled in."""
    custom, named = params.at("custom_prompt"), Node(None)
    if custom.text.strip().endswith(".py"):
        yield Found(custom.path, "custom_prompt: want the text itself; Python files are not read for prompts")
    if (prompt_node := components.get(params.at("prompt_node").text)) is not None:
        named = prompt_node.at("params").at("default_prompt_template")
        if named.text in components:
            named = components[named.text].at("params").at("prompt_text")
    for prompt in [custom, named] if params.at("strategy").text in ("", "react") else ():
        variables = [match["named"] or match["braced"] for match in Template.pattern.finditer(prompt.text)]
        names = list(dict.fromkeys(filter(None, variables)))
        if not {"question", "query"} & set(names):
            continue  # not a whole prompt, but text before ours
        for name in names:
            if name not in _FILLED:
                more = _TRANSCRIPT if name == "transcript" else " (for a dollar sign, write $$)"
                said = describe_unknown("variable", f"${name}", [f"${one}" for one in _FILLED])
                yield Found(prompt.path, f"{prompt.path[-1]}: {said}{more}", warning=True)


def _list_of(components: Mapping[str, Node], types: Container[str]) -> list[str]:
    """Return the names of the components of these types, and of those whose types code says."""
    found = {name: one.at("type").text for name, one in components.items()}
    return [name for name, type_ in found.items() if type_ in types or is_named_code(type_)]


def _check_memory(params: Node, components: Mapping[str, Node], files: ToolFiles) -> Iterator[Found]:
    named = params.at("memory")
    for one in [named] if named.text else named:
        yield from find_unknown(one, "memory", _list_of(components, MEMORIES))
    with_memory, kind, store = (params.at(key) for key in ("with_memory", "memory_type", "store_config"))
    if named.value and with_memory.value:
        yield Found(with_memory.path, "both 'memory' and 'with_memory' define its memory; keep one", at_key=True)
    yield from find_unknown(kind, "memory_type", MEMORY_TYPES)
    if kind.text != "store":
        return
    if not isinstance(store.value, dict):
        yield Found(kind.path, f"memory_type store needs 'store_config': {_STORE}")
    elif set(store.value) != {"path"} or not store.at("path").text:
        redis = "; Redis is not supported" if "redis_uri" in store.value else ""
        yield Found(store.path, f"store_config: {_STORE}{redis}", at_key=True)
    else:
        yield from find_invalid(store.at("path"), partial(resolve_path_within, files.folder))


def _check_hooks(params: Node, components: Mapping[str, Node], folder: Path) -> Iterator[Found]:
    for one in params.at("hooks"):
        if is_named_code(one.value):
            yield from find_invalid(one, partial(parse_named_code, folder=folder))
        else:
            yield from find_unknown(one, "guardrail", _list_of(components, GUARDRAILS))


def _check_limits(params: Node) -> Iterator[Found]:
    for key, limit in _LIMITS.items():
        if params.at("budget").given(limit):
            yield from _forbid(params, [key], after=f" is set twice, also as 'budget.{limit}'")
    first, *others = params.given(*_STEPS) or [""]
    yield from _forbid(params, others, f"both {first!r} and ", " limit the steps; keep one")


_PIECES = ("workspace", "shell", "todos", "helpers")  # of a harness


class _ToolChecks:
    """Checks tools, workers and handoffs, and collects what the model calls them in `own`. `parts` are the file's, and
    `shared` the tools that may be named."""

    def __init__(
        self, parts: Mapping[str, Node], files: ToolFiles, shared: Mapping[str, Node], own: dict[str, Node]
    ) -> None:
        self._parts, self._files, self._shared, self.own = parts, files, shared, own

    def check_tools(self, tools: Node) -> Iterator[Found]:
        """Check a `tools` value of any shape."""
        if isinstance(tools.value, dict):
            self.own.update({str(entry.path[-1]): entry for entry in tools})
            yield from check_entries(tools, self._files.folder)
            return
        for item in [tools] if tools.text else tools:
            try:
                names = self._list_names(item.text) if item.text else [item.name]
            except ValueError as error:
                yield Found(item.path, f"tools: {error}")
                continue
            for name in names:
                yield from self._add(name, item.at("name") if item.name else item)
            yield from find_unknown(item.at("pipeline_or_node"), "component, pipeline or agent", self._parts)

    def check_workers(self, workers: Node) -> Iterator[Found]:
        """Check an agent's workers."""
        for worker in workers:
            agent = _find_agent(worker)
            yield from find_unknown(agent, "agent", self._parts)
            yield from self._add(worker.at("name").text or name_worker_tool(agent.text), agent)

    def check_handoffs(self, handoffs: Node, agents: Mapping[str, Node]) -> Iterator[Found]:
        """Check to whom an agent may hand the conversation over; agents may do so in circles."""
        for other in handoffs:
            yield from find_unknown(other, "agent", agents)
            yield from self._add(f"{HANDOFF}{name_worker_tool(other.text)}" if other.text else "", other)

    def check_harness(self, harness: Node) -> Iterator[Found]:
        """Check the folders of an agent's harness, and its skills."""
        yield from find_invalid(harness.at("workspace"), partial(resolve_path_within, self._files.folder))
        skills = harness.at("skills")
        for one in [one for one in (skills if isinstance(skills.value, list) else [skills]) if one.text]:
            try:
                load_skills([resolve_existing_path(self._files.folder, one.text)], self._files.folder / PINS)
            except (DataError, ValueError) as error:
                here = f"{self._files.folder.resolve()}/"
                yield from (Found(one.path, f"skills: {line.removeprefix(here)}") for line in str(error).splitlines())
        if harness.at("workspace").value is False:
            yield from _forbid(harness, ["agents_files"], after=" needs the workspace")
        given = harness.value if isinstance(harness.value, dict) else {}
        pieces: dict[str, Any] = {one: bool(given[one]) for one in _PIECES if given.get(one) is not None}
        try:
            names = [tool.name for tool in Harness(**pieces).tools] if harness.value else []
        except UsageError as error:  # they do not go together
            yield Found(harness.path, str(error))
            return
        for name in [*names, *["read_skill"] * bool(skills.value)]:
            yield from self._add(name, harness)

    def _add(self, name: str, node: Node) -> Iterator[Found]:
        if name in self.own:
            yield Found(node.path, f"two tools are called {format_value(name)}; give one of them another name")
        if name:
            self.own.setdefault(name, node)

    def _list_names(self, text: str) -> Iterable[str]:
        """Return the names of the tools that a text stands for."""
        if text not in self._shared and text in TOOLS and TOOLS[text].required:
            raise ValueError(f"{text} needs parameters; define it as a tool with callable_api: {text}")
        if text in self._shared or text in TOOLS:
            return [text]
        if text in self._parts and self._parts[text].at("type").text == "MCPTools":
            self._files.unnamed = True
            return [text]  # stands for its tools, whose names only the pins know
        if "/" in text or "." in text or (self._files.folder / text).is_dir():
            return self._files.list_names(text)
        raise ValueError(describe_unknown("tool", text, [*self._shared, *TOOLS]))


def _find_agent(worker: Node) -> Node:
    """Return where an agent's worker is named."""
    return worker if worker.text else worker.at("agent")


# ── groups and chains ────────────────────────────────────────────────────────────────────────────


_KINDS = ("agent", "pipeline", "component", "callable_api", "human")  # what may have a role
_SECTIONS = {"agent": ("agents", "groups", "chains"), "pipeline": ("pipelines",), "component": ("components",)}
_AGENTS = ("RemoteAgent", "A2AAgent")  # components that are agents
_CHOOSERS = ("when", "function", "model", "question")


def check_groups(root: Node, sections: Sections, folder: Path) -> Iterator[Found]:
    """Check every group and chain. `sections` are the named parts of the file."""
    for group in root.at("groups"):
        yield from _GroupChecks(group, sections, folder).find_problems()
    for chain in root.at("chains"):
        seen: set[str] = set()
        for step in chain.at("steps"):
            if step.text:
                yield from _check_part(step, sections)
            else:
                yield from _check_team_role(step, sections, folder)
            if step.name and step.name in seen:
                yield Found(step.at("name").path, f"two steps are called {step.name!r}; give one of them another name")
            seen.add(step.name)


def _check_team_role(role: Node, sections: Sections, folder: Path) -> Iterator[Found]:
    if role.name in (START, END):
        try:
            check_role_name(role.name)
        except UsageError as error:
            yield Found(role.at("name").path, str(error))
    given = role.given(*_KINDS)
    for key in given[1:]:
        yield Found(role.at(key).path, f"both {given[0]!r} and {key!r} have this role; keep one", at_key=True)
    yield from find_invalid(role.at("callable_api"), partial(parse_callable, folder=folder))
    if not given and role.name and not any(role.name in section for section in sections.values()):
        wanted = "an 'agent', 'pipeline', 'component', 'callable_api' or 'human'"
        yield Found(role.at("name").path, f"nothing is called {role.name!r}; the role needs {wanted}")
    for key in _SECTIONS:
        yield from _check_part(role.at(key), sections, key)


def _check_part(node: Node, sections: Sections, kind: str = "") -> Iterator[Found]:
    known = [name for section in _SECTIONS.get(kind, sections) for name in sections[section]]
    if kind == "agent":  # as in `workers`
        known += [name for name, one in sections["components"].items() if one.at("type").text in _AGENTS]
    yield from find_unknown(node, kind or "agent, pipeline, component, group or chain", known)


class _Edge:
    """An edge or conditional edges, under any of their keys."""

    def __init__(self, node: Node) -> None:
        def find(*keys: str) -> Node:
            return node.at((node.given(*keys) or keys)[0])

        self.node = node
        self.head, self.tail, self.tails = (find(key, f"{key[:4]}_node{key[4:]}") for key in ("head", "tail", "tails"))
        self.selector = find("selector", "should_continue", "Should_Continue")
        self.candidates = [tail.text for tail in self.tails if tail.text]
        by_word = isinstance(self.tails.value, dict)
        self.words = [str(tail.path[-1]) if by_word else tail.text for tail in self.tails]  # that select a candidate


class _GroupChecks:
    """The checks of one group."""

    def __init__(self, group: Node, sections: Sections, folder: Path) -> None:
        self._group, self._sections, self._folder = group, sections, folder
        self._roles = list(group.at("roles"))
        self._edges = [_Edge(node) for node in group.at("edges")]
        self._branches = [_Edge(node) for node in group.at("conditional_edges")]
        written = [name for role in self._roles for name in _list_texts(role.at("output")) or [role.name]]
        declared = [str(one.path[-1]) for one in group.at("state")]
        self._fields = list(dict.fromkeys([*OWN, *declared, *filter(None, written)]))

    def find_problems(self) -> Iterator[Found]:
        """Yield all problems."""
        for role in self._roles:
            yield from _check_team_role(role, self._sections, self._folder)
            yield from self._check_reads(role)
        for field in self._group.at("state"):
            yield from self._check_field(field)
        yield from find_unknown(self._group.at("answer"), "field", self._fields, "answer: ")
        for branch in self._branches:
            if branch.selector.text:
                yield from self._check_expression(branch.selector)
            elif isinstance(branch.selector.value, dict):
                yield from self._check_selector(branch.selector, branch.words)
        yield from _check_reference(self._group.at("model"), self._sections["components"], ("PromptModel",))
        drawn = all(edge.head.text and edge.tail.text for edge in self._edges) and all(
            one.head.text and isinstance(one.tails.value, list | dict) for one in self._branches
        )
        if drawn and self._roles and all(role.name for role in self._roles):
            outline = GraphOutline(
                [role.name for role in self._roles],
                [(edge.head.text, edge.tail.text, edge.node.at("on").text == "error") for edge in self._edges],
                [(branch.head.text, branch.candidates) for branch in self._branches],
            )
            yield from (Found(*self._locate(problem)) for problem in find_structure_problems(outline))

    def _locate(self, problem: GraphProblem) -> tuple[KeyPath, str]:
        """Return the path of what a problem is about, and its message."""
        match problem.where:
            case ("role", int(index)):
                return self._roles[index].at("name").path, problem.message
            case ("edge", int(index), "head" | "tail" as end):
                edge = self._edges[index]
                return (edge.head if end == "head" else edge.tail).path, problem.message
            case ("edge", int(index)):
                return self._edges[index].node.path, problem.message
            case ("branch", int(index), "head"):
                return self._branches[index].head.path, problem.message
            case ("branch", int(index), *_):
                return self._branches[index].tails.path, problem.message
        return self._group.at("name").path, f"the group {format_value(self._group.name)}: {problem.message}"

    def _check_reads(self, role: Node) -> Iterator[Found]:
        given = role.at("input")
        for node in [*([given] if given.text else given), role.at("human").at("shows")]:
            if node.text != "state":
                yield from find_unknown(node, "field", self._fields, "input: ")
        for name in _list_texts(role.at("output")):
            if name in OWN:
                problem = f"output: the field {name!r} is kept by the graph; choose another name"
                yield Found(role.at("output").path, problem)

    def _check_field(self, field: Node) -> Iterator[Found]:
        name, type_, reducer = str(field.path[-1]), field.at("type").text or "any", field.at("reducer")
        if name in OWN or not name.isidentifier():
            why = "is kept by the graph" if name in OWN else "is not a name"
            yield Found(field.path, f"{name!r} {why}; choose another name", at_key=True)
        if field.text or type_ not in get_args(FieldType):
            return
        if ".py:" in reducer.text:
            yield from find_invalid(reducer, partial(parse_callable, folder=self._folder))
        elif reducer.text and reducer.text not in REDUCERS:
            yield from find_unknown(reducer, "reducer", REDUCERS, "reducer: ")
        else:
            default = {"default": field.at("default").value} if field.given("default") else {}
            try:
                StateField(type_, reducer.text or "replace", **default)
            except UsageError as error:
                yield Found(field.path, str(error))

    def _check_selector(self, selector: Node, words: list[str]) -> Iterator[Found]:
        given = selector.given(*_CHOOSERS)
        if not given:
            yield Found(selector.path, "selector: needs 'when', 'function', or a 'question' for a model")
        elif len(given) > 1 and given != ["model", "question"]:
            yield Found(selector.at(given[1]).path, f"both {given[0]!r} and {given[1]!r} choose; keep one", at_key=True)
        yield from find_invalid(selector.at("function"), partial(parse_callable, folder=self._folder))
        for case in selector.at("when"):
            yield from self._check_expression(case.at("if"))
        for word in (*(case.at("to") for case in selector.at("when")), selector.at("otherwise")):
            if words:
                yield from find_unknown(word, "candidate", words, f"{word.path[-1]}: ")
        for field in selector.at("shows"):
            yield from find_unknown(field, "field", self._fields, "shows: ")
        own, shared = selector.at("model"), self._group.at("model")
        yield from _check_reference(own, self._sections["components"], ("PromptModel",))
        models = [one for one in (shared, *(branch.selector.at("model") for branch in self._branches)) if one.text]
        if own.text and own.text != models[0].text:
            yield Found(own.path, f"model: a group has one model, and {format_value(models[0].text)} is it")
        if selector.at("question").text and not models:
            yield Found(selector.path, "a model is to choose, but the group has none; needs 'model'")

    def _check_expression(self, text: Node) -> Iterator[Found]:
        if not text.text:
            return
        try:
            expression = parse_expression(text.text)
        except ExpressionError as error:
            yield Found(text.path, f"the expression: {error}")
            return
        for name in expression.fields:
            if name not in self._fields:
                yield Found(text.path, f"the expression: {describe_unknown('field', name, self._fields)}")


def _list_texts(node: Node) -> list[str]:
    return [one.text for one in ([node] if node.text else node) if one.text]


# ── circles ──────────────────────────────────────────────────────────────────────────────────────


def check_circles(root: Node) -> Iterator[Found]:
    """Check that no part of the file needs itself: as a parameter, a worker, a tool, a role or a step."""
    uses = Uses()
    for component in root.at("components"):
        for named, _ in _list_references(component):
            uses.setdefault(component.name, {}).setdefault(named.text, named)
    for agent in root.at("agents"):
        params, own = agent.at("params"), uses.setdefault(agent.name, {})
        for named in (
            *map(_find_agent, params.at("workers")),
            *(tool.at("pipeline_or_node") for tool in params.at("tools")),
        ):
            own.setdefault(named.text, named)
    for team in (*root.at("groups"), *root.at("chains")):
        own = uses.setdefault(team.name, {})
        for role in (*team.at("roles"), *team.at("steps")):
            named = role if role.text else role.at("agent")
            if not named.text and not role.given(*_KINDS):
                named = role.at("name")
            if named.text:
                own.setdefault(named.text, named)
    yield from _find_circles(uses)


def _find_circles(uses: Mapping[str, Mapping[str, Node]]) -> Iterator[Found]:
    """Find circular references; each circle is reported once, at its first part."""
    order = list(uses)
    for cycle in find_cycles(uses):
        circle = cycle[::-1]  # from user to what it uses
        first = circle.index(min(circle, key=order.index))
        circle = [*circle[first:], *circle[: first + 1]]
        yield Found(uses[circle[0]][circle[1]].path, f"circular references: {' needs '.join(circle)}")
