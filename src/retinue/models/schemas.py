"""Schemas as vendors and servers accept them: of tools, and of what a reply may look like (`Constraint`).

All vendors refuse unions at the root of a tool's schema and arrays without `items`; Gemini knows few keywords, also
behind other servers. Whatever else a vendor refuses is learned from its refusal: the tool is then described in words
(`in_words`). A call is checked against the tool's own schema all the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ..core.schema.patterns import Constraint, print_gbnf, print_regex
from ..core.tools.tool import Tool
from ..errors import ModelRefused
from .settings import Api

HOLD_TO_PATTERN = frozenset(("llamacpp", "vllm", "tgi"))  # the others constrain to JSON, or not at all
DIALECTS = ("llamacpp", "vllm", "tgi", "openai", "anthropic", "cohere", "gemini", "ollama", "none")


@lru_cache(maxsize=256)
def build_constraint_parameters(dialect: str, constraint: Constraint, api: Api) -> Mapping[str, Any]:
    """Return the parameters that constrain a reply; empty if the server has none, and replies are parsed tolerantly."""
    schema = constraint.schema
    named = {"name": "reply", "schema": schema, "strict": _is_strict(schema)}
    match dialect:
        case "llamacpp":
            return {"grammar": print_gbnf(constraint.pattern)}
        case "vllm":
            return {"structured_outputs": {"regex": print_regex(constraint.pattern)}}
        case "tgi" if api == "chat":
            return {"response_format": {"type": "regex", "value": print_regex(constraint.pattern)}}
        case "openai" if api == "chat":
            return {"response_format": {"type": "json_schema", "json_schema": named}}
        case "openai" if api == "responses":
            return {"text": {"format": {"type": "json_schema", **named}}}
        case "anthropic" if named["strict"]:  # it refuses schemas that allow additional properties
            return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
        case "gemini":
            return {"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": schema}}
        case "cohere":
            return {"response_format": {"type": "json_object", "json_schema": schema}}
        case "ollama":
            return {"format": schema}
    return {}


def _is_strict(schema: Any) -> bool:
    """Return whether OpenAI's strict mode accepts `schema`: every property required, and no others, at all levels."""
    if isinstance(schema, list):
        return all(map(_is_strict, schema))
    if not isinstance(schema, Mapping):
        return True
    properties = schema.get("properties")
    if schema.get("type") == "object" or properties is not None:
        complete = set(schema.get("required", ())) == set(properties or ())
        if not complete or schema.get("additionalProperties") is not False:
            return False
    return all(map(_is_strict, schema.values()))


# ── tools ────────────────────────────────────────────────────────────────────────────────────────

_TYPES = frozenset(("string", "integer", "number", "boolean", "null", "array", "object"))
_OF_TYPES = {
    "string": ("enum", "minLength", "maxLength"),
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
    "array": ("items", "minItems", "maxItems"),
    "object": ("properties", "required", "additionalProperties"),
}
_OF_GEMINI = frozenset(("type", "description", "anyOf")).union(*_OF_TYPES.values())  # `additionalProperties`: own API
_UNIONS = ("anyOf", "oneOf", "allOf")
_MAPS = ("properties", "$defs", "definitions", "patternProperties")
_MAX_DEPTH = 16
_MAX_PARTS = 2_000  # of a schema whose references are written out
_OF_SCHEMAS = re.compile(r"schema|function_?declaration|\.parameters|\bpropert(?:y|ies)\b|\bitems\b", re.IGNORECASE)
_INDEX = re.compile(r"(?:tools|function_declarations)[.\[](\d+)")


def declare_tool(tool: Tool, model: str, in_words: Collection[str], *, gemini: bool = False) -> dict[str, Any]:
    """Return the name, description and parameters of a tool as `model` is sent them, or as Gemini's own API is.

    A function that its owner declared is sent as it was declared, but by Gemini's own API, which has no field for what
    others have. Tools `in_words` have an open schema.
    """
    schema = tool.signature.parameters if tool.declared is None else tool.declared["parameters"]
    if tool.name in in_words:
        words = f"{tool.description}\nIts arguments fit this JSON Schema: {json.dumps(schema)}"
        return {"name": tool.name, "description": words, "parameters": {"type": "object", "properties": {}}}
    if tool.declared is not None and not gemini:
        return {"name": tool.name, **tool.declared}
    known = None
    if gemini or "gemini" in model.lower():
        known = _OF_GEMINI if gemini else _OF_GEMINI - {"additionalProperties"}
    return {"name": tool.name, "description": tool.description, "parameters": _Converter(schema, known).convert_root()}


def find_refused_tools(refused: ModelRefused, tools: Sequence[Tool]) -> frozenset[str]:
    """Return the names of the tools whose schemas were rejected: those named in the error, or else all."""
    said = str(refused)
    if not _OF_SCHEMAS.search(said) or "response_format" in said:
        return frozenset()
    named = {tool.name for tool in tools if re.search(rf"['\"`]{re.escape(tool.name)}['\"`]", said)}
    named |= {tools[int(at)].name for at in _INDEX.findall(said) if int(at) < len(tools)}
    of_tools = re.search(r"tool|function", said, re.IGNORECASE)
    return frozenset(named or ({tool.name for tool in tools} if of_tools else ()))


class _Converter:
    """Converts one schema. `known`: the only keywords that Gemini knows; `None` for other models."""

    def __init__(self, schema: Mapping[str, Any], known: frozenset[str] | None) -> None:
        self._schema = schema
        self._known = known
        self._left = _MAX_PARTS

    def convert_root(self) -> dict[str, Any]:
        """Return the schema as an object without unions at its root."""
        properties: dict[str, Any] = {}
        for part in self._walk_parts(self._schema, _MAX_DEPTH):
            for name, one in (part.get("properties") or {}).items():
                known = properties.setdefault(name, one)
                properties[name] = known if known == one else {"anyOf": [known, one]}
        left_out = (*_UNIONS, "$ref", "enum", "not", "const")
        rest = {key: value for key, value in self._schema.items() if key not in left_out}
        required = dict.fromkeys(_as_list(self._schema.get("required")))
        required |= dict.fromkeys(name for name in properties if self._is_required(self._schema, name, _MAX_DEPTH))
        listed = {"required": list(required)} if required or "required" in self._schema else {}
        return self._convert({**rest, "type": "object", "properties": properties, **listed}, _MAX_DEPTH)

    def _walk_parts(self, schema: Any, depth: int) -> Iterator[Mapping[str, Any]]:
        """Yield the schema and those that it is a union or an intersection of."""
        if not isinstance(schema, Mapping) or depth == 0:
            return
        yield schema
        for one in (self._resolve(schema.get("$ref")), *(one for key in _UNIONS for one in _as_list(schema.get(key)))):
            yield from self._walk_parts(one, depth - 1)

    def _is_required(self, schema: Any, name: str, depth: int) -> bool:
        if not isinstance(schema, Mapping) or depth == 0:
            return False
        either = [one for union in ("anyOf", "oneOf") for one in _as_list(schema.get(union))]
        each = [self._resolve(schema.get("$ref")), *_as_list(schema.get("allOf"))]
        return (
            name in _as_list(schema.get("required"))
            or any(self._is_required(one, name, depth - 1) for one in each)
            or (bool(either) and all(self._is_required(one, name, depth - 1) for one in either))
        )

    def _resolve(self, reference: Any) -> Any:
        begin, *path = str(reference or "").split("/")
        found: Any = self._schema if begin == "#" else None
        for key in (part.replace("~1", "/").replace("~0", "~") for part in path):
            found = found.get(key) if isinstance(found, Mapping) else None
        return found

    def _convert(self, schema: Any, depth: int) -> dict[str, Any]:
        self._left -= 1
        if not isinstance(schema, Mapping) or depth == 0 or self._left < 0:
            return {}
        if "$ref" in schema and (self._known or not isinstance(self._resolve(schema["$ref"]), Mapping)):
            beside = {key: value for key, value in schema.items() if key == "description"}
            return self._convert(self._resolve(schema["$ref"]), depth - 1) | beside
        made = {
            key: self._convert_value(key, value, schema, depth - 1)
            for key, value in schema.items()
            if _is_valid(key, value)
        }
        if "prefixItems" in made or ("array" in _as_list(schema.get("type")) and "items" not in made):
            made.pop("prefixItems", None)
            made["items"] = self._convert_items(schema, depth - 1)
        if "properties" in made and "required" in made:
            made["required"] = [name for name in made["required"] if name in made["properties"]]
        return made if self._known is None else _reduce_for_gemini(made, self._known)

    def _convert_value(self, key: str, value: Any, schema: Mapping[str, Any], depth: int) -> Any:
        """Return the value of a keyword, with the schemas in it converted."""
        if key in _MAPS:
            return {name: self._convert(one, depth) for name, one in value.items()}
        if key in _UNIONS:
            return [self._convert(one, depth) for one in value]
        if key == "items":
            return self._convert_items(schema, depth)
        return self._convert(value, depth) if key == "additionalProperties" and isinstance(value, Mapping) else value

    def _convert_items(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        """Return what the items of an array are; of a tuple, any of what its parts are."""
        items = schema.get("items")
        listed = [*_as_list(schema.get("prefixItems")), *([items] if isinstance(items, Mapping) else _as_list(items))]
        made: list[dict[str, Any]] = []
        for one in listed:
            converted = self._convert(one, depth)
            made += [converted] if converted and converted not in made else []
        return {"anyOf": made} if len(made) > 1 else made[0] if made else {"type": "string"} if self._known else {}


def _is_valid(key: str, value: Any) -> bool:
    """Return whether a keyword is one of today's JSON Schema, with a value that it may have."""
    match key:
        case "additionalItems":
            return False
        case "type":
            return bool(_as_list(value)) and all(kind in _TYPES for kind in _as_list(value))
        case "enum" | "required" | "anyOf" | "oneOf" | "allOf":
            return isinstance(value, list) and (bool(value) or key == "required")
        case "exclusiveMinimum" | "exclusiveMaximum":
            return not isinstance(value, bool)
    return key not in _MAPS or isinstance(value, Mapping)


def _reduce_for_gemini(schema: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    """Return a converted schema with the keywords `known` to Gemini, one type each, and an `enum` of texts only."""
    made = dict(schema)
    for one in _as_list(made.pop("allOf", None)):
        made = {**one, **made}
    if "oneOf" in made:
        made.setdefault("anyOf", made["oneOf"])
    if "const" in made:
        made["enum"] = [made["const"]]
    if not all(isinstance(value, str) for value in made.get("enum", ())):
        values = ", ".join(json.dumps(value) for value in made.pop("enum"))
        made["description"] = f"{made.get('description', '')} One of: {values}".strip()
    if "enum" in made:
        made["type"] = "string"
    if isinstance(kinds := made.get("type"), list):  # `anyOf` has nothing beside it but the description
        each = {key: made.pop(key) for key in [*made] if key != "description"}
        made["anyOf"] = [
            {key: value for key, value in each.items() if key in _OF_TYPES.get(kind, ())} | {"type": kind}
            for kind in kinds
        ]
    return {key: value for key, value in made.items() if key in known}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None or isinstance(value, Mapping) else [value]
