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
from ..wire_format import Terms, select_given
from ..wires.chat import CHAT, COMPLETIONS, Chat, encode_openai_thinking
from ..wires.responses import RESPONSES

Parameters = dict[str, Any]
_think = encode_openai_thinking


def _switch_thinking(terms: Terms, on: str = "enabled") -> Parameters:
    """Return the switch of GLM, Kimi and DeepSeek, without a degree."""
    thinking = {"thinking": {"type": "disabled" if terms.effort == "none" else on}} if terms.effort else {}
    return _think(replace(terms, effort="")) | thinking


def _think_deepseek(terms: Terms) -> Parameters:
    """https://api-docs.deepseek.com/guides/thinking_mode: it thinks by default, and maps the efforts that it lacks."""
    return _switch_thinking(terms) if terms.effort == "none" else _think(terms)


def _think_moonshot(terms: Terms) -> Parameters:
    """https://platform.kimi.ai/docs/api/models-overview: K2.5 and K2.6 have a switch, K3 has efforts."""
    return _switch_thinking(terms) if terms.model.startswith("kimi-k2") else _think(terms)


def _think_zai(terms: Terms) -> Parameters:
    """https://docs.z.ai/guides/capabilities/thinking-mode: a switch, and efforts since GLM-5.2."""
    return _switch_thinking(terms) | (_think(terms) if terms.effort != "none" else {})


def _think_dashscope(terms: Terms) -> Parameters:
    """https://www.alibabacloud.com/help/en/model-studio/deep-thinking"""
    thinking, budget = _think(replace(terms, effort="", thinking_tokens=None)), terms.thinking_tokens
    if terms.effort or budget is not None:
        thinking["enable_thinking"] = terms.effort != "none" and budget != 0
    return thinking | ({"thinking_budget": budget} if budget else {})


def _think_minimax(terms: Terms) -> Parameters:
    """https://platform.minimax.io/docs/api-reference/text-openai-api: unless thoughts are split off, they are in the
    text, where they would have to stay."""
    return _switch_thinking(terms, on="adaptive") | {"reasoning_split": True}


def _think_openrouter(terms: Terms) -> Parameters:
    """https://openrouter.ai/docs/guides/best-practices/reasoning-tokens: an effort, or a number of tokens."""
    given = select_given(effort=terms.effort or None, max_tokens=terms.thinking_tokens)
    return _think(replace(terms, effort="", thinking_tokens=None)) | ({"reasoning": given} if given else {})


def _think_groq(terms: Terms) -> Parameters:
    """https://console.groq.com/docs/reasoning: Qwen's only efforts are `none` and `default`."""
    has_default = "qwen" in terms.model.lower() and terms.effort not in ("", "none")
    return _think(replace(terms, effort="default") if has_default else terms)


def _think_together(terms: Terms) -> Parameters:
    """https://docs.together.ai/docs/reasoning-models-guide: hybrid models have a switch."""
    is_off = terms.effort == "none"
    return {"reasoning": {"enabled": False}} | _think(replace(terms, effort="")) if is_off else _think(terms)


def _think_fireworks(terms: Terms) -> Parameters:
    """https://docs.fireworks.ai/guides/reasoning: an effort, or Anthropic's budget."""
    budget = {"type": "enabled", "budget_tokens": terms.thinking_tokens}
    return _think(replace(terms, thinking_tokens=None)) | (
        {} if terms.thinking_tokens is None else {"thinking": budget}
    )


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


VENDORS: Mapping[str, Vendor] = {
    "deepseek": _make_hosted(
        "DeepSeek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", _think_deepseek, "deepseek"
    ),
    "moonshot": _make_hosted(
        "Moonshot", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY", _think_moonshot, "moonshotai",
        hosts=r"api\.moonshot\.(ai|cn)",
    ),
    "zai": _make_hosted("Z.ai", "https://api.z.ai/api/paas/v4", "ZAI_API_KEY", _think_zai, "zai"),
    "dashscope": _make_hosted(
        "DashScope", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY", _think_dashscope,
        "alibaba", hosts=r"dashscope(-[a-z]+)?\.aliyuncs\.com",
    ),
    "minimax": _make_hosted(
        "MiniMax", "https://api.minimax.io/v1", "MINIMAX_API_KEY", _think_minimax, "minimax",
        hosts=r"api\.minimaxi?\.(io|com)",
    ),
    "openrouter": _make_hosted(
        "OpenRouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", _think_openrouter, "openrouter",
        takes_files=True,
    ),
    "xai": _make_hosted("xAI", "https://api.x.ai/v1", "XAI_API_KEY", priced_as="x-ai", listed_as="xai"),
    "groq": _make_hosted("Groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", _think_groq, "groq"),
    "together": _make_hosted(
        "Together", "https://api.together.xyz/v1", "TOGETHER_API_KEY", _think_together, "together",
        listed_as="togetherai", hosts=r"api\.together\.(xyz|ai)",
    ),
    "fireworks": _make_hosted(
        "Fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY", _think_fireworks, "fireworks",
        listed_as="fireworks-ai",
    ),
    "cerebras": _make_hosted("Cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY", priced_as="cerebras"),
    "nvidia": _make_hosted("NVIDIA", "https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY"),
    "huggingface": Vendor(  # its router, or an endpoint of one's own
        "Hugging Face", "https://router.huggingface.co/v1", CHAT, COMPLETIONS, RESPONSES, keys=("HF_TOKEN",),
        detected="openai",
    ),
    "lmstudio": Vendor("LM Studio", "http://localhost:1234/v1", CHAT, responses=RESPONSES),
    **{
        name: Vendor(title, f"http://localhost:{port}/v1", CHAT, COMPLETIONS, RESPONSES, dialect=name)
        for name, title, port in (("vllm", "vLLM", 8000), ("tgi", "TGI", 8080), ("llamacpp", "llama.cpp", 8080))
    },
}  # fmt: skip
