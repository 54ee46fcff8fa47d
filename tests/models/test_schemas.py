"""The schemas of tools as they are sent: what no vendor accepts is never sent, and one bad tool fails no run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from fakes.engines import PROBED, model
from fakes.openai_server import Answer, OpenAIServer, Request, failure
from retinue import Agent, Tool
from retinue.core.tools.signature import build_schema_signature
from retinue.models.schemas import declare_tool


class Node(BaseModel):
    value: int
    children: list[Node] = []


def pair(
    point: tuple[int, int], any_of_it: list[Any], votes: dict[str, int], either: int | list[str] | None = None
) -> str:
    """Take a pair."""
    return f"{point} {votes}"


def tree(node: Node) -> str:
    """Take a tree."""
    return f"{node}"


class WithSchema:
    """A tool of a server, which says its own schema."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.tool = Tool("foreign", lambda **given: str(given), "A foreign tool.", effects="read")
        self.tool.__dict__["signature"] = build_schema_signature(schema)


UNION = {
    "type": "object",
    "properties": {"id": {"type": "string"}},
    "required": ["id"],
    "anyOf": [
        {"properties": {"name": {"type": "string"}}, "required": ["name"]},
        {"properties": {"mail": {"type": "string"}}, "required": ["mail"]},
    ],
}
ODD = {
    "properties": {
        "size": {"enum": [1, 2, 3]},
        "kind": {"const": "x"},
        "both": {"type": ["string", "null"]},
        "list": {"type": "array", "items": True},
        "old": {"type": "array", "items": [{"type": "integer"}, {"type": "string"}]},
        "bound": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
        "any": True,
        "typo": {"type": "text"},
        "all": {"allOf": [{"type": "string"}, {"description": "A text."}]},
    },
    "required": ["size", "gone"],
}


def wrong(schema: Any, *, gemini: bool, root: bool = True) -> Iterator[str]:
    """What OpenAI, Anthropic and Gemini refuse in a schema."""
    if not isinstance(schema, dict):
        yield f"not an object: {schema}"
        return
    kind = schema.get("type")
    if root and (kind != "object" or {"anyOf", "oneOf", "allOf", "enum", "not", "$ref"} & set(schema)):
        yield f"the root: {schema}"
    if "array" in (kind if isinstance(kind, list) else [kind]) and not isinstance(schema.get("items"), dict):
        yield f"no items: {schema}"
    if "prefixItems" in schema or isinstance(schema.get("exclusiveMinimum"), bool) or kind == "text":
        yield f"invalid: {schema}"
    if set(schema.get("required", ())) - set(schema.get("properties") or schema.get("required", ())):
        yield f"requires what is not there: {schema}"
    if gemini:
        yield from wrong_for_gemini(schema)
    for inner in [*schema.get("properties", {}).values(), *schema.get("anyOf", ()), *schema.get("$defs", {}).values()]:
        yield from wrong(inner, gemini=gemini, root=False)
    if "items" in schema:
        yield from wrong(schema["items"], gemini=gemini, root=False)


def wrong_for_gemini(schema: dict[str, Any]) -> Iterator[str]:
    kind = schema.get("type")
    if isinstance(kind, list) or {"$ref", "const", "oneOf", "allOf", "additionalProperties", "default"} & set(schema):
        yield f"not Gemini's: {schema}"
    if not all(isinstance(value, str) for value in schema.get("enum", ())):
        yield f"an enum of numbers: {schema}"
    if kind == "array" and not schema["items"]:
        yield f"items of nothing: {schema}"


TOOLS = [Tool("pair", pair, effects="read"), Tool("tree", tree, effects="read")]
TOOLS += [WithSchema(schema).tool for schema in (UNION, ODD, {"type": "object"}, {"oneOf": [UNION, ODD]})]


@pytest.mark.parametrize("name", ["gpt-5-mini", "claude-sonnet-4-5", "google/gemini-3-pro"])
def test_schemas_are_what_vendors_accept(name: str) -> None:
    for tool in TOOLS:
        sent = declare_tool(tool, name, ())["parameters"]
        assert list(wrong(sent, gemini="gemini" in name)) == []
        json.dumps(sent)


def test_what_is_valid_is_sent_as_it_is() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"b": {"type": ["integer", "null"], "default": None}, "a": {"$ref": "#/$defs/x"}},
        "required": ["a", "b"],
        "additionalProperties": False,
        "$defs": {"x": {"type": "array", "items": {"type": "string"}, "description": "Texts."}},
    }
    assert json.dumps(declare_tool(WithSchema(schema).tool, "gpt-5", ())["parameters"]) == json.dumps(schema)


def test_a_union_at_the_root_keeps_its_arguments() -> None:
    sent = declare_tool(WithSchema(UNION).tool, "gpt-5", ())["parameters"]
    assert (list(sent["properties"]), sent["required"]) == (["id", "name", "mail"], ["id"])


@pytest.mark.parametrize(
    "refusal",
    [
        "Invalid schema for function 'pair': In context=('properties', 'x'), array schema missing items.",
        "tools.0.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12",
        "* GenerateContentRequest.tools[0].function_declarations[0].parameters.properties[x].items: missing field.",
        "Invalid JSON Schema in a tool",
    ],
)
def test_a_tool_whose_schema_is_refused_is_described_in_words(refusal: str) -> None:
    def refusing(request: Request) -> Answer:
        sent = request.body["tools"][0]["function"]["parameters"]
        return failure(400, refusal) if sent["properties"] else Answer("Done.")

    with OpenAIServer() as server:
        server.replies += [PROBED]
        server.always = refusing
        result = Agent(model(server), TOOLS[:2], strategy="tool_calling").run("Go")
        assert (result.answer, len(server.asked)) == ("Done.", 3)
        first, second = (tool["function"] for tool in server.asked[-1].body["tools"])
        assert '"votes"' in first["description"]
        assert bool(second["parameters"]["properties"]) is ("in a tool" not in refusal)


def test_half_an_emoji_in_a_description_is_not_sent() -> None:
    half = Tool("look", pair, "Look \ud83d up", effects="read")
    with OpenAIServer() as server:
        server.replies += [PROBED, "Done."]
        assert Agent(model(server), [half], strategy="tool_calling").run("Go").answer == "Done."
        assert b"ud83d" not in server.asked[-1].raw
