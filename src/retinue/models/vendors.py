"""The engines reached over HTTP: their addresses, wire formats and API keys."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..errors import UsageError
from . import anthropic, cohere, ollama, openai
from .engine import Format, HttpEngine
from .settings import Settings


@dataclass(frozen=True, slots=True)
class Vendor:
    """An engine. `keys`: environment variables that may hold its API key; if empty, none is needed.

    `url` is its own address; the variable `environment` may override it.
    """

    title: str
    url: str
    format: Format
    keys: tuple[str, ...] = ()
    environment: str = ""


_OPENAI = Format("/v1", openai.CHAT, openai.COMPLETIONS, "openai")
VENDORS: Mapping[str, Vendor] = {
    "openai": Vendor("OpenAI", "https://api.openai.com/v1", _OPENAI, ("OPENAI_API_KEY",), "OPENAI_BASE_URL"),
    "vllm": Vendor("vLLM", "http://localhost:8000/v1", replace(_OPENAI, dialect="vllm")),
    "tgi": Vendor("TGI", "http://localhost:8080/v1", replace(_OPENAI, dialect="tgi")),
    "llamacpp": Vendor("llama.cpp", "http://localhost:8080/v1", replace(_OPENAI, dialect="llamacpp")),
    "ollama": Vendor("Ollama", "http://localhost:11434/api", Format("/api", ollama.CHAT, None, "ollama")),
    "anthropic": Vendor(
        "Anthropic",
        "https://api.anthropic.com/v1",
        Format("/v1", anthropic.MESSAGES, None, "anthropic", anthropic.headers),
        ("ANTHROPIC_API_KEY",),
    ),
    "cohere": Vendor(
        "Cohere",
        "https://api.cohere.com/v2",
        Format("/v2", cohere.CHAT, None, "cohere"),
        ("CO_API_KEY", "COHERE_API_KEY"),
    ),
    "huggingface": Vendor("Hugging Face", "https://router.huggingface.co/v1", _OPENAI, ("HF_TOKEN",)),
}


def engine(name: str, settings: Settings) -> HttpEngine:
    """Return the engine called `name`. Raises `UsageError` if its key or the model's name is missing."""
    vendor = VENDORS[name]
    base_url = settings.base_url or os.environ.get(vendor.environment)
    key = settings.api_key or next((os.environ[name] for name in vendor.keys if os.environ.get(name)), None)
    if vendor.keys and not base_url:
        if not key:
            raise UsageError(
                f"{vendor.title} needs a key: set {' or '.join(vendor.keys)} (or name another server: base_url)"
            )
        if not settings.model:
            raise UsageError(f"{vendor.title} has many models; name one: {name}:MODEL")
    form = vendor.format
    if settings.api == "completions" and form.completions is None:
        raise UsageError(f"{vendor.title} has no completions; omit `api`")
    if base_url and name in ("openai", "huggingface"):
        form = replace(form, dialect="", fallback="none" if name == "openai" else "openai")
    return HttpEngine(replace(settings, base_url=base_url or vendor.url, api_key=key), form)
