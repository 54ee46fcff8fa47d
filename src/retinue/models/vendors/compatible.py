"""Vendors that speak OpenAI's chat format and differ in address, key and a few parameters."""

from __future__ import annotations

from collections.abc import Mapping

from ..engine import Format
from ..wires import chat
from .vendor import Vendor

_FORMAT = Format("/v1", chat.CHAT, dialect="openai")
VENDORS: Mapping[str, Vendor] = {
    "deepseek": Vendor("DeepSeek", "https://api.deepseek.com/v1", _FORMAT, ("DEEPSEEK_API_KEY",)),
    "moonshot": Vendor("Moonshot", "https://api.moonshot.ai/v1", _FORMAT, ("MOONSHOT_API_KEY",)),
    "zai": Vendor("Z.ai", "https://api.z.ai/api/paas/v4", _FORMAT, ("ZAI_API_KEY",)),
    "openrouter": Vendor("OpenRouter", "https://openrouter.ai/api/v1", _FORMAT, ("OPENROUTER_API_KEY",)),
    "xai": Vendor("xAI", "https://api.x.ai/v1", _FORMAT, ("XAI_API_KEY",)),
    "groq": Vendor("Groq", "https://api.groq.com/openai/v1", _FORMAT, ("GROQ_API_KEY",)),
    "together": Vendor("Together", "https://api.together.xyz/v1", _FORMAT, ("TOGETHER_API_KEY",)),
    "fireworks": Vendor("Fireworks", "https://api.fireworks.ai/inference/v1", _FORMAT, ("FIREWORKS_API_KEY",)),
    "cerebras": Vendor("Cerebras", "https://api.cerebras.ai/v1", _FORMAT, ("CEREBRAS_API_KEY",)),
}
