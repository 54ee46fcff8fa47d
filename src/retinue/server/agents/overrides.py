"""Applies one request's overrides to a copy of an agent: instructions, client tools and settings.

MCP tool declarations (`type: mcp`) for the server's own tools: which a request allows, and which need approval. A
declaration can only restrict: no address is contacted, and no approval is waived.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from ...agent import Agent
from ...core.loop.compaction import Context
from ...core.protocols import Model, Strategy
from ...core.tools.signature import build_schema_signature
from ...core.tools.tool import Tool
from ...errors import DataError, UsageError
from ...mcp.schema_conversion import convert_schema
from ...models import PromptModel
from ...models.reply_limits import Limited, limit_replies
from ...run.run_parts import read_instructions
from ...runs.thread_messages import FILE_SEARCH
from ...store.run_row import RunRow
from ...strategies.auto import Auto
from ...strategies.tool_calling import ToolCalling
from ...strategies.wrappers.wrapper import Wrapper, with_tool_names
from ..http.api_errors import ApiError
from .deployment import Deployment, Through

SAMPLING = (
    *("temperature", "top_p", "seed", "presence_penalty", "frequency_penalty", "stop", "logit_bias"),
    *("reasoning_effort", "verbosity"),
)
_ECHOED = ("temperature", "top_p")
_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}
_MAX_FUNCTIONS = 256  # of a request, in all namespaces
CODE_INTERPRETER = "code_interpreter"
HOSTED = (FILE_SEARCH, CODE_INTERPRETER)
"""The hosted tools."""
MCP = "mcp"
HUMAN = "human_input"  # the function whose calls ask a client for a person's decision


def override_agent(agent: Agent, wishes: Mapping[str, Any], hosted: Sequence[Tool] = ()) -> Agent:
    """Return a copy of `agent` with a request's overrides.

    `wishes` holds `instructions`, `tools`, `tool_choice`, `response_format`, `parallel_tool_calls`, `temperature` and
    so on, in OpenAI's format; missing and `None` values change nothing. `hosted` are the request's hosted tools. The
    file's memories are removed: the server recalls and remembers itself (`ServedMemory`). Raises `UsageError` for
    overrides that cannot be applied.
    """
    schema = wanted_schema(wishes.get("response_format"))
    other = copy.copy(agent) if schema is None else agent.with_answers(schema)
    other.memories = ()
    other.human = None
    given = wishes.get("tools") or ()
    tools = [*allowed_tools(agent.tools, given), *client_tools(agent, functions_in(wishes)), *hosted]
    only = wishes.get("only_tools")  # of a fork
    other.tools = [tool for tool in tools if only is None or tool.name in only]

    def narrow(found: Iterable[Tool]) -> list[Tool]:
        return [tool for tool in allowed_tools(found, given) if only is None or tool.name in only]

    narrowed = tuple(replace(one, narrow=narrow) for one in agent.spec.tool_functions)
    other.spec = replace(other.spec, tool_functions=narrowed, context=_choose_context(agent.spec.context, wishes))
    names = [tool.name for tool in other.tools]
    if twice := [tool.name for tool in hosted if names.count(tool.name) > 1]:
        raise UsageError(f"Invalid 'tools': two tools are called '{twice[0]}'.")
    if (named := chosen_tool(wishes)) is not None and named not in names:
        raise UsageError(f"Invalid 'tool_choice': there is no tool '{named}'.")
    own_names = [function["name"] for function in functions_in(wishes)]  # people and models may use either
    other_names = {name: inner_name(name) for name in own_names if name != inner_name(name)}
    other.strategy = with_tool_names(_with_choice(other.strategy, wishes), other_names)
    own = [agent.instructions] if isinstance(agent.instructions, str) else agent.instructions
    other.instructions = read_instructions([wishes.get("instructions") or "", *own])
    options = {name: wishes[name] for name in SAMPLING if wishes.get(name) is not None}
    options |= {"reasoning_summary": "auto"} if wishes.get("shows_reasoning") else {}  # some vendors tell it only then
    other.model = limit_replies(agent.model, max_tokens=wishes.get("max_tokens"), options=options)
    limits = {"input_tokens": wishes.get("max_prompt_tokens"), "output_tokens": wishes.get("max_completion_tokens")}
    if (steps := wishes.get("max_steps")) is not None:
        limits["steps"] = min(steps, agent.budget.steps or steps)
    other.budget = replace(agent.budget, **{name: value for name, value in limits.items() if value is not None})
    return other


def _choose_context(context: Context, wishes: Mapping[str, Any]) -> Context:
    """Return the context with what a request says. Who does not mention `truncation` has that of the agent: a
    conversation goes on rather than end at OpenAI's default, `disabled`."""
    asked, on = wishes.get("compaction"), Context()
    if asked is None and wishes.get("truncation") != "auto":
        disabled = wishes.get("truncation") == "disabled"
        return replace(context, clear=None, summary=None, drop=None) if disabled else context
    summary = (asked or {}).get("compact_threshold") or context.summary or on.summary
    return replace(context, clear=context.clear or on.clear, summary=summary, drop=context.drop or on.drop)


def sampling_of(model: Model) -> dict[str, Any]:
    """Return the model's default `temperature` and `top_p`, as far as they are known."""
    if isinstance(model, Limited):
        return sampling_of(model.inner) | {name: model.options[name] for name in _ECHOED if name in model.options}
    if not isinstance(model, PromptModel):
        return {}
    own: Any = model.given.get("options") or {}
    sent: Mapping[str, Any] = {**model.given, **own}
    return {name: sent[name] for name in _ECHOED if sent.get(name) is not None}


def _with_choice(strategy: Strategy, wishes: Mapping[str, Any]) -> Strategy:
    """Return the strategy with the request's `tool_choice` and `parallel_tool_calls`, if it supports them."""
    if isinstance(strategy, Wrapper):
        return replace(strategy, inner=_with_choice(strategy.inner, wishes))
    if isinstance(strategy, Auto):
        calling = _with_choice(strategy.calling, wishes)
        return replace(strategy, calling=calling) if isinstance(calling, ToolCalling) else strategy
    if not isinstance(strategy, ToolCalling):
        return strategy
    said = wishes.get("tool_choice")
    choice = chosen_tool(wishes) or (said if isinstance(said, str) else "auto")
    return replace(strategy, tool_choice=choice, parallel=wishes.get("parallel_tool_calls") is not False)


def chosen_tool(wishes: Mapping[str, Any]) -> str | None:
    """Return the tool that `tool_choice` names, or `None`."""
    match wishes.get("tool_choice"):
        case {"function": {"name": str() as name}}:
            return inner_name(name)
        case {"type": "file_search" | "code_interpreter" as name}:
            return str(name)
    return None


def functions_in(request: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the functions of the client's own among the `tools` of a request."""
    return [one["function"] for one in request.get("tools") or () if "function" in one]


def client_names(request: Mapping[str, Any]) -> set[str]:
    """Return the names that the client's functions have as tools."""
    return {inner_name(function["name"]) for function in functions_in(request)}


def client_tools(agent: Agent, functions: Sequence[Mapping[str, Any]]) -> list[Tool]:
    """Return the functions that the client runs; a call waits for the client's output. One with which the client has a
    person decide on the agent's tools is none for the model. Raises `UsageError` if a name clashes with the agent's own
    tools."""
    own = {tool.name for tool in agent.tools}
    for function in functions:
        if inner_name(function["name"]) in own:
            raise UsageError(f"the agent {agent.name} already has a tool '{function['name']}'; give yours another name")
    return [_client_tool(one) for one in functions if not (one["name"] == HUMAN and agent.tools)]


def check_functions(agent: Agent, functions: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Raise `ApiError` unless `agent` can be given these functions of the client, each with its place in the
    request."""
    if len(functions) > _MAX_FUNCTIONS:
        problem = f"Invalid 'tools': there are {len(functions)} functions; the most is {_MAX_FUNCTIONS}."
        raise ApiError(400, problem, param="tools", code="array_above_max_length")
    names = [inner_name(function["name"]) for _, function in functions]  # models see these
    for (place, function), name in zip(functions, names, strict=True):
        if names.count(name) > 1:
            problem = f"Invalid 'tools': two tools are called '{function['name']}'."
            raise ApiError(400, problem, param="tools", code="invalid_value")
        try:
            client_tools(agent, [function])
        except UsageError as error:
            raise ApiError(400, f"Invalid 'tools': {error}.", param="tools", code="invalid_value") from error
        except DataError as error:
            problem = f"Invalid schema for function '{function['name']}': {error}."
            raise ApiError(400, problem, param=f"{place}.parameters", code="invalid_function_parameters") from error


def placed_functions(tools: Sequence[Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the functions among `tools`, with their places in the request."""
    return [(f"tools[{at}].function", one["function"]) for at, one in enumerate(tools) if one["type"] == "function"]


def tools_of(deployment: Deployment, run: RunRow) -> Mapping[str, Tool]:
    """Return the tools that a run can use, by name, as far as they still exist."""
    agent = deployment.agents.get(run.agent)
    own = agent.tools if agent is not None else []
    return {tool.name: tool for tool in (*own, *map(_client_tool, functions_in(run.request)))}


def inner_name(name: str) -> str:
    """Return a function's name as a tool name, without hyphens."""
    return name.replace("-", "_")


def _client_tool(function: Mapping[str, Any]) -> Tool:
    schema = function.get("parameters") or _NO_PARAMETERS
    sent = {name: function[name] for name in ("description", "strict") if function.get(name) is not None}
    return Tool(
        inner_name(function["name"]),
        _elsewhere,
        function.get("description") or function["name"],
        approval=True,
        takes=build_schema_signature(convert_schema(schema)),
        declared={**sent, "parameters": schema},
    )


async def _elsewhere(**arguments: Any) -> str:
    """Placeholder: the run pauses before the call and resumes with the client's output."""
    raise UsageError(f"this tool runs on the client, with {json.dumps(arguments)}")


_elsewhere.is_of_client = True  # type: ignore[attr-defined]  # so that no helper has it: nobody would answer it


def wanted_schema(response_format: Any) -> Mapping[str, Any] | None:
    """Return the JSON Schema required by a `response_format`; `None` if any text will do."""
    match response_format:
        case {"type": "json_schema", "json_schema": {"schema": dict() as schema}}:
            return schema
        case {"type": "json_object"}:
            return {"type": "object"}
    return None


_REACH = ("connector_id", "tunnel_id", "authorization", "headers")


def check_declared_tools(wishes: Sequence[Mapping[str, Any]], name: str, agent: Agent, host: str) -> None:
    """Raise `ApiError` if the tools of a request declare anything that the agent `name` does not have. `host` is the
    request's Host header: some clients must give a server address, so this server's own is accepted."""
    declared = [one for one in wishes if one["type"] == MCP]
    for one in declared:
        label = one["server_label"]
        if label != name:
            raise _refusal(f"there is no MCP server '{label}' here; the tools of this model have the label '{name}'.")
        if given := [key for key in _REACH if one.get(key)]:
            raise _refusal(f"'{given[0]}' names another server, and this one contacts no other for you. Leave it out.")
        if (url := one.get("server_url")) and not _is_address_of(url, host):
            raise _refusal("'server_url' names another server, and this one contacts no other for you. Leave it out.")
        rules = one.get("require_approval")
        ruled = list(rules.values()) if isinstance(rules, Mapping) else []
        named = [name for given in (one.get("allowed_tools"), *ruled) for name in _names(given)]
        own = {tool.name for tool in agent.tools}
        if unknown := [tool for tool in named if tool not in own]:
            raise _refusal(
                f"the model '{name}' has no tool '{unknown[0]}'; it has: {', '.join(sorted(own)) or 'none'}."
            )
    if len(declared) > 1:
        raise _refusal(f"the MCP server '{name}' is declared twice.")
    if declared and isinstance(agent.strategy, Through) and not allowed_tools(agent.tools, declared):
        raise _refusal(f"the model '{name}' is a pipeline, and needs its tool.")


def allowed_tools(tools: Iterable[Tool], wishes: Iterable[Mapping[str, Any]]) -> list[Tool]:
    """Return the agent's tools that a request allows, with the approvals it adds."""
    kept = list(tools)
    for one in wishes:
        if one.get("type") == MCP:
            wish = {**one, **(one.get(MCP) or {})}
            allowed, rules = wish.get("allowed_tools"), wish.get("require_approval")
            kept = [tool for tool in kept if allowed is None or _fits(tool, allowed)]
            kept = [replace(tool, approval=True) if _needs_approval(tool, rules) else tool for tool in kept]
    return kept


def _needs_approval(tool: Tool, rules: Any) -> bool:
    """Whether `require_approval` requires approval of a tool. If it lists only tools that need none, all others need
    one."""
    if not isinstance(rules, Mapping):
        return bool(rules == "always")
    always, never = rules.get("always"), rules.get("never")
    if always is not None:
        return _fits(tool, always)
    return never is not None and not _fits(tool, never)


def _fits(tool: Tool, given: Any) -> bool:
    """Whether a list of names, or a filter, includes a tool."""
    if not isinstance(given, Mapping):
        return tool.name in given
    names, reads = given.get("tool_names"), given.get("read_only")
    return (names is None or tool.name in names) and (reads is None or reads == (tool.effects == "read"))


def _names(given: Any) -> list[str]:
    return list((given.get("tool_names") if isinstance(given, Mapping) else given) or ())


def _is_address_of(url: str, host: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


def _refusal(message: str) -> ApiError:
    return ApiError(400, f"Invalid 'tools': {message}", param="tools", code="invalid_value")
