"""Converts the options of a response request to those stored in a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..http.api_errors import ApiError
from ..http.objects import Object
from .client_functions import CUSTOM, NAMESPACE, ClientFunction, client_functions
from .schemas import ELSEWHERE

_SAME = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "parallel_tool_calls")
_UNASKED = ("web_search", "tool_search")  # Codex CLI adds these to the functions of every request


def options_of(sent: Mapping[str, Any]) -> Object:
    """Return the run options of a request. Raises `ApiError` for tools that this server cannot offer."""
    tools, choice = sent.get("tools") or [], sent.get("tool_choice")
    functions = client_functions(tools)
    for tool in tools:
        if tool["type"] in ELSEWHERE and not (functions and tool["type"] in _UNASKED):
            message = f"Tool '{tool['type']}' is not enabled on this server (see hosted_tools)."
            raise ApiError(400, message, param="tools")
    wishes: Object = {name: sent[name] for name in _SAME if sent.get(name) is not None} | _thinking(sent)
    if sent.get("max_output_tokens"):
        wishes["max_completion_tokens"] = sent["max_output_tokens"]
    if user := sent.get("user") or sent.get("safety_identifier"):
        wishes["user"] = user
    if sent.get("max_tool_calls") is not None:
        wishes["max_steps"] = sent["max_tool_calls"] + 1  # the last step gives the answer
    stores = [store for tool in tools for store in tool.get("vector_store_ids") or ()]
    if stores:
        wishes["tool_resources"] = {"file_search": {"vector_store_ids": stores}}
    return {
        **wishes,
        "tools": [
            *({"type": "function", "function": one.function} for one in _allowed(choice, functions, tools)),
            *(_tool(tool) for tool in tools if tool["type"] not in ("function", CUSTOM, NAMESPACE, *ELSEWHERE)),
        ],
        "tool_choice": _choice(choice, functions),
        "response_format": _format((sent.get("text") or {}).get("format")),
    }


def _thinking(sent: Mapping[str, Any]) -> Object:
    """Return how much the model is to think and to say, and whether the client is shown its thoughts."""
    reasoning, text = sent.get("reasoning") or {}, sent.get("text") or {}
    shows = bool(reasoning.get("summary") or reasoning.get("generate_summary"))
    given = {"reasoning_effort": reasoning.get("effort"), "verbosity": text.get("verbosity"), "shows_reasoning": shows}
    return {name: value for name, value in given.items() if value}


def _allowed(
    choice: Any, functions: Sequence[ClientFunction], tools: Sequence[Mapping[str, Any]]
) -> Sequence[ClientFunction]:
    """Return the functions that a `tool_choice` of the type `allowed_tools` leaves. Raises `ApiError` for a tool that
    the request does not have."""
    if not isinstance(choice, Mapping) or choice["type"] != "allowed_tools":
        return functions
    names = {one.name for one in functions}
    for tool in choice["tools"]:
        kind, name = tool["type"], tool.get("name")
        if name not in names if kind in ("function", CUSTOM) else all(one["type"] != kind for one in tools):
            message = f"Tool choice '{name or kind}' not found in 'tools' parameter."
            raise ApiError(400, message, param="tool_choice.tools")
    chosen = {tool.get("name") for tool in choice["tools"]}
    return [one for one in functions if one.name in chosen]


def _tool(tool: Mapping[str, Any]) -> Object:
    more = {name: value for name, value in tool.items() if name not in ("type", "vector_store_ids")}
    return {"type": tool["type"], tool["type"]: more}


def _choice(choice: Any, functions: Sequence[ClientFunction]) -> Any:
    match choice:
        case {"type": "allowed_tools", "mode": mode}:
            return mode
        case {"type": "function" | "custom" | "mcp", "name": str() as name}:
            known = next((one.function["name"] for one in functions if one.name == name), name)
            return {"type": "function", "function": {"name": known}}
        case {"type": "mcp"}:
            return "required"
    return choice


def _format(given: Any) -> Any:
    if given is None or given["type"] == "text":
        return None
    return {"type": given["type"], given["type"]: {name: value for name, value in given.items() if name != "type"}}
