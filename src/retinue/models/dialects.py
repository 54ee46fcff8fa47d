"""How each kind of server is told what a reply must look like, and how to tell the kinds apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from ..errors import ModelError, ModelRefused
from ..grammar import Constraint, gbnf, regex
from .http import HttpClient
from .settings import Api

Dialect = Callable[[Constraint, Api], Mapping[str, Any]]


@lru_cache(maxsize=256)
def llamacpp(constraint: Constraint, api: Api) -> Mapping[str, Any]:
    """llama.cpp: a GBNF grammar, with both endpoints."""
    return {"grammar": gbnf(constraint.pattern)}


@lru_cache(maxsize=256)
def vllm(constraint: Constraint, api: Api) -> Mapping[str, Any]:
    """vLLM: structured outputs by regular expression, with both endpoints."""
    return {"structured_outputs": {"regex": regex(constraint.pattern)}}


@lru_cache(maxsize=256)
def tgi(constraint: Constraint, api: Api) -> Mapping[str, Any]:
    """TGI's Messages API: a regular expression as response format; its completions cannot."""
    return {"response_format": {"type": "regex", "value": regex(constraint.pattern)}} if api == "chat" else {}


@lru_cache(maxsize=256)
def openai(constraint: Constraint, api: Api) -> Mapping[str, Any]:
    """OpenAI's chat: a JSON Schema as response format; the reply is then JSON, not lines of text."""
    if api != "chat":
        return {}
    schema = {"name": "reply", "schema": constraint.schema, "strict": _is_strict(constraint.schema)}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def none(constraint: Constraint, api: Api) -> Mapping[str, Any]:
    """A server of which nothing is known: unconstrained, its replies are read tolerantly."""
    return {}


DIALECTS: Mapping[str, Dialect] = {"llamacpp": llamacpp, "vllm": vllm, "tgi": tgi, "openai": openai, "none": none}
HOLD_TO_PATTERN = frozenset({"llamacpp", "vllm", "tgi"})
DEFAULT_API: Mapping[str, Api] = {"llamacpp": "completions"}


async def recognise(client: HttpClient) -> tuple[str, str]:
    """The dialect of a server, and the first model it lists (empty if it lists none).

    Raises `ModelError` if the server cannot be reached or refuses the key.
    """
    try:
        listed = await client.get("/models")
    except ModelRefused as refused:
        if "answered 404" in str(refused):
            return "none", ""
        raise
    models = listed.get("data") if isinstance(listed, dict) else None
    first = models[0] if isinstance(models, list) and models and isinstance(models[0], dict) else {}
    owner, name = str(first.get("owned_by", "")), str(first.get("id", ""))
    if owner in ("llamacpp", "vllm"):
        return owner, name
    return ("tgi" if await _is_tgi(client) else "none"), name


async def _is_tgi(client: HttpClient) -> bool:
    """TGI describes itself at `/info`, beside its `/v1`."""
    try:
        info = await client.get("/../info")
    except ModelError:  # some servers show a page for people at every path
        return False
    return isinstance(info, dict) and "model_id" in info and "max_input_tokens" in info


def _is_strict(schema: Any) -> bool:
    """OpenAI's strict mode wants every property required and no others, all the way down."""
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
