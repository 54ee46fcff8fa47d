"""Checks of agents: model, role, strategy, prompt, memory, tools and limits. Nothing is imported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Template

from ..core.tools.delegation import HANDOFF
from ..strategies import STRATEGIES
from .component_checks import SECTIONS, check_circles, check_reference, index_nodes
from .problems import Found, Node, describe_unknown, format_value
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
_FILLED = ("tools", "tool_names", "answer", "examples", "history", "question", "query")  # by `React.question`
_TRANSCRIPT = "; the transcript follows the prompt automatically, so leave it out"
_SAME_NAME = "two tools are called {}; give one of them another name"
_STORE = "want {path: FILE}, a JSON file that stores the memory"


def check_agents(root: Node, files: ToolFiles) -> Iterator[Found]:
    """Check every agent, and the tools shared by all."""
    components = index_nodes(root, "components")
    targets = {name: node for section in SECTIONS for name, node in index_nodes(root, section).items()}
    shared: dict[str, Node] = {}
    yield from _check_tools(root.at("tools"), targets, files, shared)
    uses: dict[str, dict[str, Node]] = {}
    for agent in root.at("agents"):
        params = agent.at("params")
        if not isinstance(params.value, dict):
            continue
        yield from _check_role(params, shared)
        yield from _check_model(params, components)
        yield from _check_words(params)
        yield from _check_prompts(params, components)
        yield from _check_memory(params, components, files.folder)
        yield from _check_limits(params)
        tools: dict[str, Node] = {}
        yield from _check_tools(params.at("tools"), targets, files, tools, shared)
        own = uses.setdefault(agent.name, {})
        yield from _check_workers(params.at("workers"), targets, tools)
        yield from _check_handoffs(params.at("handoffs"), index_nodes(root, "agents"), tools)
        if not files.unnamed:
            usable = {**shared, **tools} if params.at("tools").value is None else tools
            yield from _check_feedback(params.at("require_human_feedback"), usable)
        for worker in params.at("workers"):
            own.setdefault(_find_agent(worker).text, _find_agent(worker))
        for tool in params.at("tools"):
            own.setdefault(tool.at("pipeline_or_node").text, tool.at("pipeline_or_node"))
    yield from check_circles(uses)


def _check_role(params: Node, shared: Mapping[str, Node]) -> Iterator[Found]:
    role = params.at("role").text or "agent"
    tools = params.at("tools")
    if role == "planner" and tools.value:
        yield Found(tools.path, "a planner has no tools", at_key=True)
    if role == "executor":
        if not (shared if tools.value is None else tools.value):
            yield Found(params.path, "an executor needs 'tools'")
        for key in (*_MODEL_KEYS, "strategy", "instructions", "questions", "memory", "with_memory"):
            if params.at(key).value is not None:
                yield Found(params.at(key).path, f"an executor runs tools and has no {key!r}", at_key=True)
    elif all(params.at(key).value is None for key in _MODEL_KEYS):
        yield Found(params.path, "no model: needs 'model', 'models', 'prompt_node', 'llm_model_id' or 'script'")


def _check_model(params: Node, components: Mapping[str, Node]) -> Iterator[Found]:
    given = [key for key in _MODELS if params.at(key).value is not None]
    if len(given) > 1 and not (given == ["model", "script"] and params.at("model").text == "scripted"):
        yield Found(
            params.at(given[1]).path, f"both {given[0]!r} and {given[1]!r} name the model; keep one", at_key=True
        )
    yield from _check_models(params, components)
    named = next((key for key in ("prompt_node", "model") if params.at(key).text in components), "")
    for key in _SETTINGS if named else ():
        if params.at(key).value is not None:
            other = f"the component {params.at(named).text!r} is the model; set {key!r} there"
            yield Found(params.at(key).path, other, at_key=True)
    node = params.at("prompt_node")
    prompt_nodes = [name for name, one in components.items() if one.at("type").text == "PromptNode"]
    if node.text and node.text not in components:
        yield Found(node.path, describe_unknown("prompt node", node.text, prompt_nodes))
    elif node.text:
        yield from check_reference(node, components, ("PromptNode",))
    engine = params.at("llm_engine")
    if engine.text and engine.text not in ENGINES:
        yield Found(engine.path, describe_unknown("engine", engine.text, ENGINES))
    if engine.text in ("tgi", "vllm") and params.at("llm_endpoint_url").value is None:
        yield Found(engine.path, f"{engine.text} needs 'llm_endpoint_url'")


def _check_models(params: Node, components: Mapping[str, Node]) -> Iterator[Found]:
    """Check the model, or the models in order."""
    for one in (params.at("model"), *params.at("models")):
        yield from check_reference(one, components, ("PromptModel",))
    for key in ("api_key", "llm_engine", "llm_endpoint_url") if params.at("models").value is not None else ():
        if params.at(key).value is not None:
            yield Found(params.at(key).path, f"{key!r} is of one model; make it a component", at_key=True)
    if params.at("fall_back_on").value is not None and params.at("models").value is None:
        yield Found(params.at("fall_back_on").path, "'fall_back_on' needs 'models'", at_key=True)


def _check_words(params: Node) -> Iterator[Found]:
    strategy, prompt = params.at("strategy"), params.at("custom_prompt")
    if strategy.text and strategy.text not in STRATEGIES:
        yield Found(strategy.path, describe_unknown("strategy", strategy.text, STRATEGIES))
    if prompt.text.strip().endswith(".py"):
        yield Found(prompt.path, "custom_prompt: want the text itself; Python files are not read for prompts")


def _check_prompts(params: Node, components: Mapping[str, Node]) -> Iterator[Found]:
    """Yield a warning for each variable of an agent's prompt that is not filled in."""
    if (params.at("strategy").text or "react") != "react":
        return
    prompts = [params.at("custom_prompt"), _find_template(params.at("prompt_node"), components)]
    for prompt in prompts:
        names = list(dict.fromkeys(_find_variables(prompt.text)))
        if not {"question", "query"} & set(names):
            continue  # not a whole prompt, but text before ours
        for name in names:
            if name not in _FILLED:
                more = _TRANSCRIPT if name == "transcript" else " (for a dollar sign, write $$)"
                said = describe_unknown("variable", f"${name}", [f"${one}" for one in _FILLED])
                yield Found(prompt.path, f"{prompt.path[-1]}: {said}{more}", warning=True)


def _find_template(prompt_node: Node, components: Mapping[str, Node]) -> Node:
    """Return the text of the prompt node's template, if it is in the file."""
    node = components.get(prompt_node.text, Node(None))
    named = node.at("params").at("default_prompt_template")
    template = components.get(named.text)
    return named if template is None else template.at("params").at("prompt_text")


def _find_variables(text: str) -> Iterator[str]:
    for match in Template.pattern.finditer(text):
        if name := match["named"] or match["braced"]:
            yield name


def _check_memory(params: Node, components: Mapping[str, Node], folder: Path) -> Iterator[Found]:
    """Check an agent's memory."""
    named = params.at("memory")
    memories = [name for name, one in components.items() if one.at("type").text in MEMORIES]
    for one in [named] if named.text else named:
        if one.text and one.text not in memories:
            yield Found(one.path, describe_unknown("memory", one.text, memories))
    with_memory, kind = params.at("with_memory"), params.at("memory_type")
    if named.value and with_memory.value:
        yield Found(with_memory.path, "both 'memory' and 'with_memory' define its memory; keep one", at_key=True)
    if kind.text and kind.text not in MEMORY_TYPES:
        yield Found(kind.path, describe_unknown("memory_type", kind.text, MEMORY_TYPES))
    if kind.text == "store":
        yield from _check_store(kind, params.at("store_config"), folder)


def _check_store(kind: Node, store: Node, folder: Path) -> Iterator[Found]:
    if not isinstance(store.value, dict):
        yield Found(kind.path, f"memory_type store needs 'store_config': {_STORE}")
    elif set(store.value) != {"path"} or not store.at("path").text:
        redis = "; Redis is not supported" if "redis_uri" in store.value else ""
        yield Found(store.path, f"store_config: {_STORE}{redis}", at_key=True)
    else:
        try:
            resolve_path_within(folder, store.at("path").text)
        except ValueError as error:
            yield Found(store.at("path").path, f"path: {error}")


def _check_feedback(asked: Node, tools: Mapping[str, Node]) -> Iterator[Found]:
    for named in asked:
        if named.text and named.text not in tools:
            yield Found(named.path, describe_unknown("tool", named.text, tools))


def _check_limits(params: Node) -> Iterator[Found]:
    budget = params.at("budget")
    pairs = [(key, budget.at("steps")) for key in _STEPS]
    pairs += [("max_execution_time", budget.at("seconds"))]
    pairs += [("early_stopping_method", budget.at("early_stopping_method"))]
    for key, other in pairs:
        if params.at(key).value is not None and other.value is not None:
            yield Found(params.at(key).path, f"{key!r} is set twice, also as 'budget.{other.path[-1]}'", at_key=True)
    given = [key for key in _STEPS if params.at(key).value is not None]
    for key in given[1:]:
        yield Found(params.at(key).path, f"both {given[0]!r} and {key!r} limit the steps; keep one", at_key=True)


def _check_tools(
    tools: Node,
    targets: Mapping[str, Node],
    files: ToolFiles,
    own: dict[str, Node],
    shared: Mapping[str, Node] | None = None,
) -> Iterator[Found]:
    """Check a `tools` value of any shape, and add the tools' names to `own`."""
    if isinstance(tools.value, dict):
        own.update({str(entry.path[-1]): entry for entry in tools})
        yield from check_entries(tools, files.folder)
        return
    for item in [tools] if tools.text else tools:
        try:
            added = _list_tool_names(item, targets, files, shared or {})
        except ValueError as error:
            yield Found(item.path, f"tools: {error}")
            continue
        for name in added:
            if name in own:
                yield Found(_name_node(item).path, _SAME_NAME.format(format_value(name)))
            own.setdefault(name, item)
        named = item.at("pipeline_or_node")
        if named.text and named.text not in targets:
            yield Found(named.path, describe_unknown("component, pipeline or agent", named.text, targets))


def _find_agent(worker: Node) -> Node:
    return worker if worker.text else worker.at("agent")


def _check_workers(workers: Node, targets: Mapping[str, Node], own: dict[str, Node]) -> Iterator[Found]:
    """Check an agent's workers, and add the names of their tools to `own`."""
    for worker in workers:
        agent = _find_agent(worker)
        if agent.text and agent.text not in targets:
            yield Found(agent.path, describe_unknown("agent", agent.text, targets))
        name = worker.at("name").text or name_worker_tool(agent.text)
        if name and name in own:
            yield Found(agent.path, _SAME_NAME.format(format_value(name)))
        own.setdefault(name, worker)


def _check_handoffs(handoffs: Node, agents: Mapping[str, Node], own: dict[str, Node]) -> Iterator[Found]:
    """Check to whom an agent may hand the conversation over; agents may do so in circles."""
    for other in handoffs:
        if other.text and other.text not in agents:
            yield Found(other.path, describe_unknown("agent", other.text, agents))
        name = f"{HANDOFF}{name_worker_tool(other.text)}"
        if other.text and name in own:
            yield Found(other.path, _SAME_NAME.format(format_value(name)))
        own.setdefault(name, other)


def _list_tool_names(
    item: Node, targets: Mapping[str, Node], files: ToolFiles, shared: Mapping[str, Node]
) -> tuple[str, ...]:
    if not item.text:
        return (item.name,) if item.name else ()
    if item.text in TOOLS and item.text not in shared and TOOLS[item.text].required:
        raise ValueError(f"{item.text} needs parameters; define it as a tool with callable_api: {item.text}")
    if item.text in shared or item.text in TOOLS:
        return (item.text,)
    if item.text in targets and targets[item.text].at("type").text == "MCPTools":
        files.unnamed = True
        return (item.text,)  # stands for its tools, whose names only the pins know
    if "/" in item.text or "." in item.text or (files.folder / item.text).is_dir():
        return files.list_names(item.text)
    raise ValueError(describe_unknown("tool", item.text, [*shared, *TOOLS]))


def _name_node(item: Node) -> Node:
    return item.at("name") if item.name else item
