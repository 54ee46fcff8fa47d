"""A client's functions in the forms of the Responses API: alone, in namespaces, and as custom tools, whose input is
plain text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..http.objects import Object

CUSTOM = "custom"
NAMESPACE = "namespace"
_INPUT = "input"
_TEXT: Mapping[str, Any] = {
    "type": "object",
    "properties": {_INPUT: {"type": "string"}},
    "required": [_INPUT],
    "additionalProperties": False,
}


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
    return [
        ClientFunction(one["name"], namespace, number, one["type"] == CUSTOM, _function(one, namespace))
        for number, tool in enumerate(tools)
        for namespace, one in _members(tool)
    ]


def qualified(name: str, namespace: str | None) -> str:
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
    return {"name": qualified(item["name"], item.get("namespace")), "arguments": arguments}


def text_input(arguments: Mapping[str, Any]) -> str:
    """Return the input of a custom tool's call."""
    given = arguments.get(_INPUT)
    return given if isinstance(given, str) else json.dumps(arguments, ensure_ascii=False)


def _members(tool: Mapping[str, Any]) -> Iterator[tuple[str | None, Mapping[str, Any]]]:
    if tool["type"] == NAMESPACE:
        yield from ((tool["name"], one) for one in tool["tools"])
    elif tool["type"] in ("function", CUSTOM):
        yield None, tool


def _function(tool: Mapping[str, Any], namespace: str | None) -> Object:
    name = {"name": qualified(tool["name"], namespace)}
    if tool["type"] != CUSTOM:
        return {**name, **{key: value for key, value in tool.items() if key not in ("type", "name")}}
    described = [tool.get("description"), *_grammar(tool.get("format") or {})]
    return {**name, "description": "\n\n".join(filter(None, described)), "parameters": _TEXT}


def _grammar(form: Mapping[str, Any]) -> Iterator[str]:
    if form.get("definition"):
        yield f"The input must match this grammar ({form.get('syntax')}):\n{form['definition']}"
