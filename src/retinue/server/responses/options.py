"""The options of a response request as those stored in a run, and the client's functions in all forms of the Responses
API: alone, in namespaces, and as custom tools, whose input is plain text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..http.api_errors import ApiError
from ..http.objects import Object
from .schemas import ELSEWHERE

_CUSTOM, _NAMESPACE = "custom", "namespace"
_INPUT = "input"  # the only argument of a custom tool
_TEXT: Mapping[str, Any] = {
    "type": "object",
    "properties": {_INPUT: {"type": "string"}},
    "required": [_INPUT],
    "additionalProperties": False,
}
_SAME = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "parallel_tool_calls")
_UNASKED = ("web_search", "tool_search")  # Codex CLI adds these to the functions of every request


class ClientFunction(NamedTuple):
    """A function of the client: its `name` and `namespace` there, the number of its tool in the request, and the
    `function` that models are given."""

    name: str
    namespace: str | None
    number: int
    custom: bool
    function: Object


def client_functions(tools: Sequence[Mapping[str, Any]]) -> list[ClientFunction]:
    """Return the functions among the tools of a request."""
    found = []
    for number, tool in enumerate(tools):
        namespace = tool["name"] if tool["type"] == _NAMESPACE else None
        for one in [tool] if namespace is None else tool["tools"]:
            if one["type"] in ("function", _CUSTOM):
                custom = one["type"] == _CUSTOM
                found.append(ClientFunction(one["name"], namespace, number, custom, _function(one, namespace)))
    return found


def _function(tool: Mapping[str, Any], namespace: str | None) -> Object:
    name = {"name": _qualified(tool["name"], namespace)}
    if tool["type"] != _CUSTOM:
        return {**name, **_without(tool, "type", "name")}
    described, form = [tool.get("description") or ""], tool.get("format") or {}
    if form.get("definition"):
        described.append(f"The input must match this grammar ({form.get('syntax')}):\n{form['definition']}")
    return {**name, "description": "\n\n".join(filter(None, described)), "parameters": _TEXT}


def _qualified(name: str, namespace: str | None) -> str:
    """Return the name by which models know a function."""
    return name if namespace is None else f"{namespace}__{name}"[-64:]


def call_of(item: Mapping[str, Any]) -> Object | None:
    """Return the call that an item is, as models know it: `name` and `arguments`; `None` if it is another item."""
    match item["type"]:
        case "function_call":
            arguments = item["arguments"]
        case "custom_tool_call":
            arguments = json.dumps({_INPUT: item["input"]}, ensure_ascii=False)
        case _:
            return None
    return {"name": _qualified(item["name"], item.get("namespace")), "arguments": arguments}


def text_input(arguments: Mapping[str, Any]) -> str:
    """Return the input of a custom tool's call."""
    given = arguments.get(_INPUT)
    return given if isinstance(given, str) else json.dumps(arguments, ensure_ascii=False)


# ── options ──────────────────────────────────────────────────────────────────────────────────────


def options_of(sent: Mapping[str, Any]) -> Object:
    """Return the run options of a request. Raises `ApiError` for tools that this server cannot offer."""
    tools, choice = sent.get("tools") or [], sent.get("tool_choice")
    functions = client_functions(tools)
    for tool in tools:
        if tool["type"] in ELSEWHERE and not (functions and tool["type"] in _UNASKED):
            message = f"Tool '{tool['type']}' is not enabled on this server (see hosted_tools)."
            raise ApiError(400, message, param="tools")
    reasoning, text = sent.get("reasoning") or {}, sent.get("text") or {}
    wishes: Object = {name: sent[name] for name in _SAME if sent.get(name) is not None}
    wishes |= {
        name: value
        for name, value in {
            "reasoning_effort": reasoning.get("effort"),
            "verbosity": text.get("verbosity"),
            "shows_reasoning": bool(reasoning.get("summary") or reasoning.get("generate_summary")),
            "max_completion_tokens": sent.get("max_output_tokens"),
            "truncation": sent.get("truncation"),
            "compaction": next(iter(sent.get("context_management") or ()), None),
            "user": sent.get("user") or sent.get("safety_identifier"),
        }.items()
        if value
    }
    if sent.get("max_tool_calls") is not None:
        wishes["max_steps"] = sent["max_tool_calls"] + 1  # the last step gives the answer
    if stores := [store for tool in tools for store in tool.get("vector_store_ids") or ()]:
        wishes["tool_resources"] = {"file_search": {"vector_store_ids": stores}}
    hosted = [one for one in tools if one["type"] not in ("function", _CUSTOM, _NAMESPACE, *ELSEWHERE)]
    form = text.get("format") or {"type": "text"}
    return {
        **wishes,
        "tools": [
            *({"type": "function", "function": one.function} for one in _allowed(choice, functions, tools)),
            *({"type": one["type"], one["type"]: _without(one, "type", "vector_store_ids")} for one in hosted),
        ],
        "tool_choice": _choice(choice, functions),
        "response_format": None
        if form["type"] == "text"
        else {"type": form["type"], form["type"]: _without(form, "type")},
    }


def _without(given: Mapping[str, Any], *names: str) -> Object:
    return {name: value for name, value in given.items() if name not in names}


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
        if name not in names if kind in ("function", _CUSTOM) else all(one["type"] != kind for one in tools):
            message = f"Tool choice '{name or kind}' not found in 'tools' parameter."
            raise ApiError(400, message, param="tool_choice.tools")
    chosen = {tool.get("name") for tool in choice["tools"]}
    return [one for one in functions if one.name in chosen]


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
