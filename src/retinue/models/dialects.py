"""How constraints are sent to each kind of server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from ..core.grammar import Constraint, gbnf, regex
from .settings import Api

Dialect = Callable[[Constraint, Api], Mapping[str, Any]]


@lru_cache(maxsize=256)
def llamacpp(constraint: Constraint, api: Api) -> Mapping[str, Any]:
    """llama.cpp: a GBNF grammar, on both endpoints."""
    return {"grammar": gbnf(constraint.pattern)}


@lru_cache(maxsize=256)
def vllm(constraint: Constraint, api: Api) -> Mapping[str, Any]:
    """vLLM: structured outputs by regular expression, on both endpoints."""
    return {"structured_outputs": {"regex": regex(constraint.pattern)}}


@lru_cache(maxsize=256)
def tgi(constraint: Constraint, api: Api) -> Mapping[str, Any]:
    """TGI's Messages API: a regular expression as response format. Its completions support none."""
    return {"response_format": {"type": "regex", "value": regex(constraint.pattern)}} if api == "chat" else {}


@lru_cache(maxsize=256)
def openai(constraint: Constraint, api: Api) -> Mapping[str, Any]:
    """OpenAI chat and Responses: a JSON Schema as format, so the reply is JSON instead of lines of text."""
    schema = {"name": "reply", "schema": constraint.schema, "strict": _is_strict(constraint.schema)}
    if api == "responses":
        return {"text": {"format": {"type": "json_schema", **schema}}}
    if api != "chat":
        return {}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


@lru_cache(maxsize=256)
def anthropic(constraint: Constraint, api: Api) -> Mapping[str, Any]:
    """Anthropic: a JSON Schema as output format; it must disallow additional properties."""
    if not _is_strict(constraint.schema):
        return {}
    return {"output_config": {"format": {"type": "json_schema", "schema": constraint.schema}}}


@lru_cache(maxsize=256)
def gemini(constraint: Constraint, api: Api) -> Mapping[str, Any]:
    """Gemini: a JSON Schema, in JSON Schema's own words."""
    return {"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": constraint.schema}}


@lru_cache(maxsize=256)
def cohere(constraint: Constraint, api: Api) -> Mapping[str, Any]:
    """Cohere: a JSON Schema as response format."""
    return {"response_format": {"type": "json_object", "json_schema": constraint.schema}}


@lru_cache(maxsize=256)
def ollama(constraint: Constraint, api: Api) -> Mapping[str, Any]:
    """Ollama: a JSON Schema as format."""
    return {"format": constraint.schema}


def none(constraint: Constraint, api: Api) -> Mapping[str, Any]:
    """A server of unknown kind: unconstrained; its replies are parsed tolerantly."""
    return {}


DIALECTS: Mapping[str, Dialect] = {
    "llamacpp": llamacpp,
    "vllm": vllm,
    "tgi": tgi,
    "openai": openai,
    "anthropic": anthropic,
    "cohere": cohere,
    "gemini": gemini,
    "ollama": ollama,
    "none": none,
}
HOLD_TO_PATTERN = frozenset({"llamacpp", "vllm", "tgi"})  # the others constrain to JSON, or not at all


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
