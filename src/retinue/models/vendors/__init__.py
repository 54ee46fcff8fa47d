"""The vendors that are reached over HTTP. A new one is a file here, or an entry of `compatible.py`, and its name below.

Files are imported when their vendor is first used, as most programs use one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..vendor import Vendor

OWN_FILE = ("openai", "azure", "anthropic", "bedrock", "gemini", "vertex", "cohere", "mistral", "ollama")
COMPATIBLE = (
    *("deepseek", "moonshot", "zai", "dashscope", "minimax", "openrouter", "xai", "groq", "together", "fireworks"),
    *("cerebras", "nvidia", "huggingface", "lmstudio", "vllm", "tgi", "llamacpp"),
)
NAMES = (*OWN_FILE, *COMPATIBLE)


def find_vendor(name: str) -> Vendor:
    """Return the vendor called `name`, one of `NAMES`."""
    module = import_module(".compatible" if name in COMPATIBLE else f".{name}", __package__)
    vendor: Vendor = module.VENDORS[name] if name in COMPATIBLE else module.VENDOR
    return vendor
