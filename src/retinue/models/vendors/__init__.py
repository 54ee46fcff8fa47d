"""The vendors that are reached over HTTP, one file each; those that differ only in address and key share one."""

from __future__ import annotations

OWN_FILE = (
    *("openai", "azure", "anthropic", "bedrock", "gemini", "vertex", "cohere", "huggingface", "mistral"),
    *("ollama", "vllm", "tgi", "llamacpp"),
)
COMPATIBLE = (
    *("deepseek", "moonshot", "zai", "dashscope", "minimax", "openrouter", "xai", "groq", "together", "fireworks"),
    *("cerebras", "nvidia", "lmstudio"),
)
NAMES = (*OWN_FILE, *COMPATIBLE)
