"""An agent as one request wants it: further words, the client's own tools, other settings. The agent stays as it is."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..agent import Agent
from ..core.protocols import Model, Strategy
from ..core.signature import signature_of_schema
from ..core.tool import Tool
from ..errors import UsageError
from ..mcp.schema_conversion import convert_schema
from ..models import PromptModel
from ..models.reply_limits import Limited, limited
from ..models.settings import Settings
from ..store.run_row import RunRow
from ..strategies.auto import Auto
from ..strategies.tool_calling import ToolCalling
from ..strategies.wrappers.wrapper import Wrapper, with_tool_names
from .declared_tools import left
from .deployment import Deployment

_SAMPLING = (
    *("temperature", "top_p", "seed", "presence_penalty", "frequency_penalty", "stop", "logit_bias"),
    *("reasoning_effort", "verbosity"),
)
_ECHOED = ("temperature", "top_p")


def override_agent(agent: Agent, wishes: Mapping[str, Any], hosted: Sequence[Tool] = ()) -> Agent:
    """`agent` for a request: `wishes` are its `instructions`, `tools`, `tool_choice`, `response_format`,
    `parallel_tool_calls`, `temperature` and so on, in OpenAI's forms; those that are missing or `None` change nothing.
    `hosted` are those of the tools that are the server's.

    Its memory is its thread's, so none of the file's is used. Raises `UsageError` for what cannot be.
    """
    schema = wanted_schema(wishes.get("response_format"))
    other = copy.copy(agent) if schema is None else agent.with_answers(schema)
    other.memories = ()
    other.human = None
    given = wishes.get("tools") or ()
    other.tools = [*left(agent.tools, given), *client_tools(agent, given), *hosted]
    names = [tool.name for tool in other.tools]
    if twice := [tool.name for tool in hosted if names.count(tool.name) > 1]:
        raise UsageError(f"Invalid 'tools': two tools are called '{twice[0]}'.")
    if (named := chosen_tool(wishes)) is not None and named not in {tool.name for tool in other.tools}:
        raise UsageError(f"Invalid 'tool_choice': there is no tool '{named}'.")
    other.strategy = with_tool_names(_choosing(other.strategy, wishes), _other_names(wishes.get("tools") or ()))
    other.instructions = "\n\n".join(filter(None, ((wishes.get("instructions") or "").strip(), agent.instructions)))
    options = {name: wishes[name] for name in _SAMPLING if wishes.get(name) is not None}
    other.model = limited(agent.model, max_tokens=wishes.get("max_tokens"), options=options)
    limits = {"input_tokens": wishes.get("max_prompt_tokens"), "output_tokens": wishes.get("max_completion_tokens")}
    if (steps := wishes.get("max_steps")) is not None:
        limits["steps"] = min(steps, agent.budget.steps or steps)
    other.budget = replace(agent.budget, **{name: value for name, value in limits.items() if value is not None})
    return other


def sampling_of(model: Model) -> dict[str, Any]:
    """The `temperature` and `top_p` with which a model is asked where a request says none, as far as is known."""
    if isinstance(model, Limited):
        return sampling_of(model.inner) | {name: model.options[name] for name in _ECHOED if name in model.options}
    if not isinstance(model, PromptModel):
        return {}
    own: Any = model.given.get("options") or {}
    sent: Mapping[str, Any] = {"temperature": Settings().temperature, **model.given, **own}
    return {name: sent[name] for name in _ECHOED if sent.get(name) is not None}


def _choosing(strategy: Strategy, wishes: Mapping[str, Any]) -> Strategy:
    """The strategy with the request's `tool_choice` and `parallel_tool_calls`, if it knows such."""
    if isinstance(strategy, Wrapper):
        return replace(strategy, inner=_choosing(strategy.inner, wishes))
    if isinstance(strategy, Auto):
        calling = _choosing(strategy.calling, wishes)
        return replace(strategy, calling=calling) if isinstance(calling, ToolCalling) else strategy
    if not isinstance(strategy, ToolCalling):
        return strategy
    said = wishes.get("tool_choice")
    choice = chosen_tool(wishes) or (said if isinstance(said, str) else "auto")
    return replace(strategy, tool_choice=choice, parallel=wishes.get("parallel_tool_calls") is not False)


def chosen_tool(wishes: Mapping[str, Any]) -> str | None:
    """The tool that a `tool_choice` names, if it names one."""
    match wishes.get("tool_choice"):
        case {"function": {"name": str() as name}}:
            return inner_name(name)
        case {"type": "file_search" | "code_interpreter" as name}:
            return str(name)
    return None


def client_tools(agent: Agent, given: Sequence[Mapping[str, Any]]) -> list[Tool]:
    """The functions that the client runs itself: a call of one waits until the client says what came of it.
    Raises `UsageError` for a name that the agent's own tools have."""
    functions = [one["function"] for one in given if one.get("type") == "function"]
    own = {tool.name for tool in agent.tools}
    for function in functions:
        if inner_name(function["name"]) in own:
            raise UsageError(
                f"the agent {agent.name} has a tool '{function['name']}' of its own; give yours another name"
            )
    return [_client_tool(function) for function in functions]


def tools_of(deployment: Deployment, run: RunRow) -> Mapping[str, Tool]:
    """The tools that a run can use, by name; as far as they are still there."""
    agent = deployment.agents.get(run.request["model"])
    own = agent.tools if agent is not None else []
    functions = [one["function"] for one in run.request.get("tools") or () if one.get("type") == "function"]
    return {tool.name: tool for tool in (*own, *map(_client_tool, functions))}


def inner_name(name: str) -> str:
    """A function's name as a tool's, which has no hyphens."""
    return name.replace("-", "_")


def _other_names(given: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The tools' names by those that the client gave, where they differ: people and models may use either."""
    names = [one["function"]["name"] for one in given if one.get("type") == "function"]
    return {name: inner_name(name) for name in names if name != inner_name(name)}


def _client_tool(function: Mapping[str, Any]) -> Tool:
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    takes = signature_of_schema(convert_schema(schema))
    return Tool(
        inner_name(function["name"]),
        _elsewhere,
        function.get("description") or function["name"],
        approval=True,
        takes=takes,
    )


async def _elsewhere(**arguments: Any) -> str:
    """The client runs it: a run is parked before it would come here, and resumed with what it said."""
    raise UsageError(f"this tool runs at the client, with {json.dumps(arguments)}")


def wanted_schema(response_format: Any) -> Mapping[str, Any] | None:
    """The JSON Schema that a `response_format` holds the answer to; `None` if any text will do."""
    match response_format:
        case {"type": "json_schema", "json_schema": {"schema": dict() as schema}}:
            return schema
        case {"type": "json_object"}:
            return {"type": "object"}
    return None
