"""Vendors and servers that speak OpenAI's chat format and differ in address, key and how they are told to think.

Each hosted one has an `effort` of `none` mean that the model does not think, where that can be said. What a vendor
documents no parameter for goes out under OpenAI's name, and its refusal is the error. Some have the Responses API as
well (xAI, OpenRouter, Groq, LM Studio), which is used where `api` asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ..vendor import Vendor
from ..wire_format import Terms
from ..wires.chat import CHAT, COMPLETIONS, Chat, encode_openai_thinking
from ..wires.responses import RESPONSES

Parameters = dict[str, Any]


def _switch_thinking(terms: Terms, on: str = "enabled") -> Parameters:
    """Return the switch of GLM, Kimi and DeepSeek, without a degree."""
    thinking = encode_openai_thinking(replace(terms, effort=""))
    return thinking | ({"thinking": {"type": "disabled" if terms.effort == "none" else on}} if terms.effort else {})


def _think_deepseek(terms: Terms) -> Parameters:
    """https://api-docs.deepseek.com/guides/thinking_mode: it thinks by default, and maps the efforts that it lacks."""
    return _switch_thinking(terms) if terms.effort == "none" else encode_openai_thinking(terms)


def _think_moonshot(terms: Terms) -> Parameters:
    """https://platform.kimi.ai/docs/api/models-overview: K2.5 and K2.6 have a switch, K3 has efforts."""
    return _switch_thinking(terms) if terms.model.startswith("kimi-k2") else encode_openai_thinking(terms)


def _think_zai(terms: Terms) -> Parameters:
    """https://docs.z.ai/guides/capabilities/thinking-mode: a switch, and efforts since GLM-5.2."""
    return _switch_thinking(terms) | (encode_openai_thinking(terms) if terms.effort != "none" else {})


def _think_dashscope(terms: Terms) -> Parameters:
    """https://www.alibabacloud.com/help/en/model-studio/deep-thinking"""
    thinking = encode_openai_thinking(replace(terms, effort="", thinking_tokens=None))
    if terms.effort or terms.thinking_tokens is not None:
        thinking["enable_thinking"] = terms.effort != "none" and terms.thinking_tokens != 0
    return thinking | ({"thinking_budget": terms.thinking_tokens} if terms.thinking_tokens else {})


def _think_minimax(terms: Terms) -> Parameters:
    """https://platform.minimax.io/docs/api-reference/text-openai-api: unless thoughts are split off, they are in the
    text, where they would have to stay."""
    return _switch_thinking(terms, on="adaptive") | {"reasoning_split": True}


def _think_openrouter(terms: Terms) -> Parameters:
    """https://openrouter.ai/docs/guides/best-practices/reasoning-tokens: an effort, or a number of tokens."""
    thinking = encode_openai_thinking(replace(terms, effort="", thinking_tokens=None))
    given: Parameters = {"effort": terms.effort} if terms.effort else {}
    given |= {} if terms.thinking_tokens is None else {"max_tokens": terms.thinking_tokens}
    return thinking | ({"reasoning": given} if given else {})


def _think_groq(terms: Terms) -> Parameters:
    """https://console.groq.com/docs/reasoning: Qwen's only efforts are `none` and `default`."""
    has_default = "qwen" in terms.model.lower() and terms.effort not in ("", "none")
    return encode_openai_thinking(replace(terms, effort="default") if has_default else terms)


def _think_together(terms: Terms) -> Parameters:
    """https://docs.together.ai/docs/reasoning-models-guide: hybrid models have a switch."""
    off = {"reasoning": {"enabled": False}} if terms.effort == "none" else {}
    return off | encode_openai_thinking(replace(terms, effort="") if off else terms)


def _think_fireworks(terms: Terms) -> Parameters:
    """https://docs.fireworks.ai/guides/reasoning: an effort, or Anthropic's budget."""
    budget = {"type": "enabled", "budget_tokens": terms.thinking_tokens}
    thinking = encode_openai_thinking(replace(terms, thinking_tokens=None))
    return thinking if terms.thinking_tokens is None else thinking | {"thinking": budget}


def _make_hosted(
    title: str,
    url: str,
    key: str,
    thinking: Callable[[Terms], Parameters] = encode_openai_thinking,
    priced_as: str = "",
    **more: Any,
) -> Vendor:
    """Return a hosted vendor; `more` are further fields of `Vendor`."""
    return Vendor(title, url, Chat(thinking), responses=RESPONSES, keys=(key,), priced_as=priced_as, **more)


def _make_own_server(title: str, port: int, dialect: str) -> Vendor:
    """Return a kind of server that people run themselves."""
    url = f"http://localhost:{port}/v1"
    return Vendor(title, url, CHAT, COMPLETIONS, RESPONSES, dialect=dialect)


_MOONSHOT, _MINIMAX = r"api\.moonshot\.(ai|cn)", r"api\.minimaxi?\.(io|com)"  # hosts
_DASHSCOPE, _TOGETHER = r"dashscope(-[a-z]+)?\.aliyuncs\.com", r"api\.together\.(xyz|ai)"
_DASHSCOPE_URL = "https://dashscope-intl.aliyuncs.com/compatible-mode/v1"
VENDORS: Mapping[str, Vendor] = {
    "deepseek": _make_hosted(
        "DeepSeek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", _think_deepseek, "deepseek"
    ),
    "moonshot": _make_hosted(
        "Moonshot", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY", _think_moonshot, "moonshotai", hosts=_MOONSHOT
    ),
    "zai": _make_hosted("Z.ai", "https://api.z.ai/api/paas/v4", "ZAI_API_KEY", _think_zai, "zai"),
    "dashscope": _make_hosted(
        "DashScope", _DASHSCOPE_URL, "DASHSCOPE_API_KEY", _think_dashscope, "alibaba", hosts=_DASHSCOPE
    ),
    "minimax": _make_hosted(
        "MiniMax", "https://api.minimax.io/v1", "MINIMAX_API_KEY", _think_minimax, "minimax", hosts=_MINIMAX
    ),
    "openrouter": _make_hosted(
        "OpenRouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", _think_openrouter, "openrouter",
        takes_files=True,
    ),
    "xai": _make_hosted("xAI", "https://api.x.ai/v1", "XAI_API_KEY", priced_as="x-ai", listed_as="xai"),
    "groq": _make_hosted("Groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", _think_groq, "groq"),
    "together": _make_hosted(
        "Together", "https://api.together.xyz/v1", "TOGETHER_API_KEY", _think_together, "together",
        listed_as="togetherai", hosts=_TOGETHER,
    ),
    "fireworks": _make_hosted(
        "Fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY", _think_fireworks, "fireworks",
        listed_as="fireworks-ai",
    ),
    "cerebras": _make_hosted("Cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY", priced_as="cerebras"),
    "nvidia": _make_hosted("NVIDIA", "https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY"),
    "huggingface": Vendor(  # its router, or an endpoint of one's own
        "Hugging Face", "https://router.huggingface.co/v1", CHAT, COMPLETIONS, RESPONSES,
        keys=("HF_TOKEN",), detected="openai",
    ),
    "lmstudio": Vendor("LM Studio", "http://localhost:1234/v1", CHAT, responses=RESPONSES),
    "vllm": _make_own_server("vLLM", 8000, "vllm"),
    "tgi": _make_own_server("TGI", 8080, "tgi"),
    "llamacpp": _make_own_server("llama.cpp", 8080, "llamacpp"),
}  # fmt: skip
