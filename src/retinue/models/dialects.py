"""How constraints are sent to each kind of server."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ..core.schema.patterns import Constraint, print_gbnf, print_regex
from .settings import Api

HOLD_TO_PATTERN = frozenset(("llamacpp", "vllm", "tgi"))  # the others constrain to JSON, or not at all
DIALECTS = ("llamacpp", "vllm", "tgi", "openai", "anthropic", "cohere", "gemini", "ollama", "none")


@lru_cache(maxsize=256)
def build_constraint_parameters(dialect: str, constraint: Constraint, api: Api) -> Mapping[str, Any]:
    """Return the parameters that constrain a reply; empty if the server has none, and replies are parsed tolerantly."""
    schema = constraint.schema
    match dialect:
        case "llamacpp":
            return {"grammar": print_gbnf(constraint.pattern)}
        case "vllm":
            return {"structured_outputs": {"regex": print_regex(constraint.pattern)}}
        case "tgi" if api == "chat":
            return {"response_format": {"type": "regex", "value": print_regex(constraint.pattern)}}
        case "openai" if api == "chat":
            named = {"name": "reply", "schema": schema, "strict": _is_strict(schema)}
            return {"response_format": {"type": "json_schema", "json_schema": named}}
        case "openai" if api == "responses":
            named = {"name": "reply", "schema": schema, "strict": _is_strict(schema)}
            return {"text": {"format": {"type": "json_schema", **named}}}
        case "anthropic" if _is_strict(schema):  # it refuses schemas that allow additional properties
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
