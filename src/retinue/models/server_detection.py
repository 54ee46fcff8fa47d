"""Detects a server's kind, its models, and a model's context window."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._internal.message_text import suggestion
from ..core.values import Kind
from ..errors import ModelError, ModelNotFound, ModelRefused
from ..net.http_client import HttpClient
from .vendor import Vendor
from .wire_format import json_at, to_json

_SECONDS = 10.0  # for a list that only improves an error message


@dataclass(frozen=True, slots=True)
class DetectedServer:
    """A server's dialect (`none` if unknown) and the first model it lists, if any."""

    dialect: str
    model: str


async def detect_server(client: HttpClient) -> DetectedServer:
    """Detect the kind of a server that speaks OpenAI's format.

    Raises `ModelError` if the server cannot be reached or rejects the key.
    """
    try:
        models = _listed(await client.get("/models"))
    except ModelRefused as refused:
        if "answered 404" in str(refused):
            return DetectedServer("none", "")
        raise
    first: Mapping[str, Any] = models[0] if models else {}
    owner, name = str(first.get("owned_by", "")), str(first.get("id", ""))
    if owner in ("llamacpp", "vllm"):
        return DetectedServer(owner, name)
    info = await _asked(client, "/../info")
    return DetectedServer("tgi" if json_at(info, "model_id") and json_at(info, "max_input_tokens") else "none", name)


async def first_of_ollama(client: HttpClient) -> str:
    """Return the first model of an Ollama server, or an empty string. Raises `ModelError`."""
    models = json_at(await client.get("/tags"), "models")
    return str(json_at(models[0], "name") or "") if isinstance(models, list) and models else ""


async def window(client: HttpClient, dialect: str, model: str) -> int | None:
    """Return the context window of `model` in tokens, or `None` if the server does not report it."""
    found: Any = None
    match dialect:
        case "vllm":
            models = _listed(await _asked(client, "/models"))
            found = next((one.get("max_model_len") for one in models if one.get("id") == model), None)
        case "llamacpp":
            found = json_at(await _asked(client, "/../props"), "default_generation_settings", "n_ctx")
        case "tgi":
            found = json_at(await _asked(client, "/../info"), "max_total_tokens")
    return found if isinstance(found, int) and found > 0 else None


async def kinds_read(client: HttpClient, dialect: str, model: str, vendor: Vendor) -> frozenset[Kind]:
    """Return the kinds of files that `model` can be sent: as the server tells, or as its vendor documents."""
    found: dict[Kind, bool] = {}
    match dialect:
        case "ollama":
            told = json_at(await _asked(client, "/show", to_json({"model": model})), "capabilities")
            found = {"image": isinstance(told, list) and "vision" in told}
        case "llamacpp":
            told = json_at(await _asked(client, "/../props"), "modalities")
            found = {"image": json_at(told, "vision") is True, "audio": json_at(told, "audio") is True}
        case "vllm" | "tgi" | "none":
            pass  # they do not tell
        case _:
            return vendor.reads(model)
    return frozenset(kind for kind, reads in found.items() if reads)


async def not_found(client: HttpClient, vendor: Vendor, model: str, refused: ModelNotFound) -> ModelNotFound:
    """Return the error `refused`, extended by a suggestion from the models that the server lists."""
    path, key, name = vendor.listing
    try:
        async with asyncio.timeout(_SECONDS):
            listed = json_at(await _asked(client, path), key)
    except TimeoutError:
        listed = None
    named = [str(json_at(one, name)) for one in listed if json_at(one, name)] if isinstance(listed, list) else []
    names = [name.removeprefix("models/") for name in named]
    if not names or model in names:  # the server's own message says more
        return refused
    return ModelNotFound(f"{client.shown} has no model {model!r}; {suggestion(model, names)}")


async def _asked(client: HttpClient, path: str, body: bytes | None = None) -> Any:
    """Return the JSON at `path`, if any: some servers return an HTML page for every path."""
    try:
        return await client.get(path, body)
    except ModelError:
        return None


def _listed(answer: Any) -> list[Mapping[str, Any]]:
    models = json_at(answer, "data")
    return [model for model in models if isinstance(model, Mapping)] if isinstance(models, list) else []
