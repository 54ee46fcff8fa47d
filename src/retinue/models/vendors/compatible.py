"""Vendors that speak OpenAI's chat format and differ in address, key and how they are told to think.

Each has an `effort` of `none` mean that the model does not think, where that can be said. What a vendor documents no
parameter for goes out under OpenAI's name, and its refusal is the error. Some have the Responses API as well (xAI,
OpenRouter, Groq, LM Studio), which is used where `api` asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ..engine import Format
from ..wire_format import Terms
from ..wires import chat, responses
from .vendor import Vendor

Parameters = dict[str, Any]


def _switched(terms: Terms, on: str = "enabled") -> Parameters:
    """Return the switch of GLM, Kimi and DeepSeek, without a degree."""
    thinking = chat.openai_thinking(replace(terms, effort=""))
    return thinking | ({"thinking": {"type": "disabled" if terms.effort == "none" else on}} if terms.effort else {})


def _deepseek(terms: Terms) -> Parameters:
    """https://api-docs.deepseek.com/guides/thinking_mode: it thinks by default, and maps the efforts that it lacks."""
    return _switched(terms) if terms.effort == "none" else chat.openai_thinking(terms)


def _moonshot(terms: Terms) -> Parameters:
    """https://platform.kimi.ai/docs/api/models-overview: K2.5 and K2.6 have a switch, K3 has efforts."""
    return _switched(terms) if terms.model.startswith("kimi-k2") else chat.openai_thinking(terms)


def _zai(terms: Terms) -> Parameters:
    """https://docs.z.ai/guides/capabilities/thinking-mode: a switch, and efforts since GLM-5.2."""
    return _switched(terms) | (chat.openai_thinking(terms) if terms.effort != "none" else {})


def _dashscope(terms: Terms) -> Parameters:
    """https://www.alibabacloud.com/help/en/model-studio/deep-thinking"""
    thinking = chat.openai_thinking(replace(terms, effort="", thinking_tokens=None))
    if terms.effort or terms.thinking_tokens is not None:
        thinking["enable_thinking"] = terms.effort != "none" and terms.thinking_tokens != 0
    return thinking | ({"thinking_budget": terms.thinking_tokens} if terms.thinking_tokens else {})


def _minimax(terms: Terms) -> Parameters:
    """https://platform.minimax.io/docs/api-reference/text-openai-api: unless thoughts are split off, they are in the
    text, where they would have to stay."""
    return _switched(terms, on="adaptive") | {"reasoning_split": True}


def _openrouter(terms: Terms) -> Parameters:
    """https://openrouter.ai/docs/guides/best-practices/reasoning-tokens: an effort, or a number of tokens."""
    thinking = chat.openai_thinking(replace(terms, effort="", thinking_tokens=None))
    given: Parameters = {"effort": terms.effort} if terms.effort else {}
    given |= {} if terms.thinking_tokens is None else {"max_tokens": terms.thinking_tokens}
    return thinking | ({"reasoning": given} if given else {})


def _groq(terms: Terms) -> Parameters:
    """https://console.groq.com/docs/reasoning: Qwen's only efforts are `none` and `default`."""
    has_default = "qwen" in terms.model.lower() and terms.effort not in ("", "none")
    return chat.openai_thinking(replace(terms, effort="default") if has_default else terms)


def _together(terms: Terms) -> Parameters:
    """https://docs.together.ai/docs/reasoning-models-guide: hybrid models have a switch."""
    off = {"reasoning": {"enabled": False}} if terms.effort == "none" else {}
    return off | chat.openai_thinking(replace(terms, effort="") if off else terms)


def _fireworks(terms: Terms) -> Parameters:
    """https://docs.fireworks.ai/guides/reasoning: an effort, or Anthropic's budget."""
    budget = {"type": "enabled", "budget_tokens": terms.thinking_tokens}
    thinking = chat.openai_thinking(replace(terms, thinking_tokens=None))
    return thinking if terms.thinking_tokens is None else thinking | {"thinking": budget}


def _vendor(
    title: str, url: str, key: str = "", thinking: Callable[[Terms], Parameters] = chat.openai_thinking
) -> Vendor:
    form = Format("/v1", chat.thinking_by(thinking), responses=responses.RESPONSES, dialect="openai")
    return Vendor(title, url, form, (key,) if key else ())


VENDORS: Mapping[str, Vendor] = {
    "deepseek": _vendor("DeepSeek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", _deepseek),
    "moonshot": _vendor("Moonshot", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY", _moonshot),
    "zai": _vendor("Z.ai", "https://api.z.ai/api/paas/v4", "ZAI_API_KEY", _zai),
    "dashscope": _vendor(
        "DashScope", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY", _dashscope
    ),
    "minimax": _vendor("MiniMax", "https://api.minimax.io/v1", "MINIMAX_API_KEY", _minimax),
    "openrouter": _vendor("OpenRouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", _openrouter),
    "xai": _vendor("xAI", "https://api.x.ai/v1", "XAI_API_KEY"),
    "groq": _vendor("Groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", _groq),
    "together": _vendor("Together", "https://api.together.xyz/v1", "TOGETHER_API_KEY", _together),
    "fireworks": _vendor("Fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY", _fireworks),
    "cerebras": _vendor("Cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    "nvidia": _vendor("NVIDIA", "https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY"),
    "lmstudio": _vendor("LM Studio", "http://localhost:1234/v1"),
}
