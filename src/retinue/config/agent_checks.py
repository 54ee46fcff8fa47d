"""Checks of agents: model, role, strategy, prompt, memory, tools and limits. Nothing is imported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from string import Template

from ..core.tools.delegation import HANDOFF
from ..strategies import STRATEGIES
from .component_checks import check_reference
from .problems import Found, Node, describe_unknown, find_invalid, find_unknown, format_value
from .references import name_worker_tool
from .registry import ENGINES, MEMORIES, MEMORY_TYPES, TOOLS
from .tool_files import ToolFiles, check_entries, resolve_path_within

_MODELS = ("model", "models", "prompt_node", "llm_model_id", "script")  # each of these names the model
_MODEL_KEYS = (*_MODELS, "llm_engine", "llm_endpoint_url")
_SETTINGS = (
    "llm_engine", "llm_endpoint_url", "api_key", "temperature", "effort", "verbosity", "thinking_tokens", "top_p",
    "top_k", "repetition_penalty", "max_new_tokens", "stream", "timeout",
)  # fmt: skip
_STEPS = ("recursion_limit", "max_iterations", "max_steps")
_LIMITS = {**dict.fromkeys(_STEPS, "steps"), "max_execution_time": "seconds"}  # with what they are in a budget
_LIMITS |= {"early_stopping_method": "early_stopping_method"}
_FILLED = ("tools", "tool_names", "answer", "examples", "history", "question", "query")  # by `React.question`
_TRANSCRIPT = "; the transcript follows the prompt automatically, so leave it out"
_STORE = "want {path: FILE}, a JSON file that stores the memory"


def check_agents(root: Node, sections: Mapping[str, Mapping[str, Node]], files: ToolFiles) -> Iterator[Found]:
    """Check every agent, and the tools shared by all. `sections` are the named parts of the file."""
    shared: dict[str, Node] = {}
    parts = {name: node for nodes in sections.values() for name, node in nodes.items()}
    yield from _ToolChecks(parts, files, {}, shared).check_tools(root.at("tools"))
    for params in (agent.at("params") for agent in root.at("agents")):
        if not isinstance(params.value, dict):
            continue
        yield from _check_role(params, shared)
        yield from _check_model(params, sections["components"])
        yield from find_unknown(params.at("strategy"), "strategy", STRATEGIES)
        yield from _check_prompts(params, sections["components"])
        yield from _check_memory(params, sections["components"], files)
        yield from _check_limits(params)
        checks = _ToolChecks(parts, files, shared, {})
        yield from checks.check_tools(params.at("tools"))
        yield from checks.check_workers(params.at("workers"))
        yield from checks.check_handoffs(params.at("handoffs"), sections["agents"])
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
    if role == "planner" and tools.value:
        yield Found(tools.path, "a planner has no tools", at_key=True)
    if role == "executor":
        if not (shared if tools.value is None else tools.value):
            yield Found(params.path, "an executor needs 'tools'")
        keys = (*_MODEL_KEYS, "strategy", "instructions", "questions", "memory", "with_memory")
        yield from _forbid(params, keys, "an executor runs tools and has no ")
    elif not params.given(*_MODEL_KEYS):
        yield Found(params.path, "no model: needs 'model', 'models', 'prompt_node', 'llm_model_id' or 'script'")


def _check_model(params: Node, components: Mapping[str, Node]) -> Iterator[Found]:
    given = params.given(*_MODELS)
    if len(given) > 1 and not (given == ["model", "script"] and params.at("model").text == "scripted"):
        yield from _forbid(params, given[1:2], f"both {given[0]!r} and ", " name the model; keep one")
    for one in (params.at("model"), *params.at("models")):
        yield from check_reference(one, components, ("PromptModel",))
    if "models" in given:
        keys = ("api_key", "llm_engine", "llm_endpoint_url")
        yield from _forbid(params, keys, after=" is of one model; make it a component")
    else:
        yield from _forbid(params, ["fall_back_on"], after=" needs 'models'")
    if named := next((text for key in ("prompt_node", "model") if (text := params.at(key).text) in components), ""):
        yield from _forbid(params, _SETTINGS, f"the component {named!r} is the model; set ", " there")
    node, engine = params.at("prompt_node"), params.at("llm_engine")
    if node.text in components:
        yield from check_reference(node, components, ("PromptNode",))
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


def _check_memory(params: Node, components: Mapping[str, Node], files: ToolFiles) -> Iterator[Found]:
    named = params.at("memory")
    memories = [name for name, one in components.items() if one.at("type").text in MEMORIES]
    for one in [named] if named.text else named:
        yield from find_unknown(one, "memory", memories)
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


def _check_limits(params: Node) -> Iterator[Found]:
    for key, limit in _LIMITS.items():
        if params.at("budget").given(limit):
            yield from _forbid(params, [key], after=f" is set twice, also as 'budget.{limit}'")
    first, *others = params.given(*_STEPS) or [""]
    yield from _forbid(params, others, f"both {first!r} and ", " limit the steps; keep one")


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
            agent = find_agent(worker)
            yield from find_unknown(agent, "agent", self._parts)
            yield from self._add(worker.at("name").text or name_worker_tool(agent.text), agent)

    def check_handoffs(self, handoffs: Node, agents: Mapping[str, Node]) -> Iterator[Found]:
        """Check to whom an agent may hand the conversation over; agents may do so in circles."""
        for other in handoffs:
            yield from find_unknown(other, "agent", agents)
            yield from self._add(f"{HANDOFF}{name_worker_tool(other.text)}" if other.text else "", other)

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


def find_agent(worker: Node) -> Node:
    """Return where an agent's worker is named."""
    return worker if worker.text else worker.at("agent")
