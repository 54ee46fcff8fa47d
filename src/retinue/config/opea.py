"""An agent defined by environment variables, as in OPEA's RFC on agents and its compose files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import UsageError
from .file_check import check_spec
from .specs import FileSpec
from .yaml_text import dump_value, parse_scalar_or_text, read_text

NAMES = ("AGENT_NAME", "agent_name")
_TEXTS = (
    "role", "role_description", "strategy", "model", "llm_model_id", "llm_engine", "llm_endpoint_url", "custom_prompt",
    "tools", "memory_type",
)  # fmt: skip
_VALUES = (
    "temperature", "top_p", "top_k", "repetition_penalty", "max_new_tokens", "recursion_limit", "timeout", "stream",
    "with_memory", "require_human_feedback",
)  # fmt: skip
_DEFAULT_NAME = "opea-agent"  # the model's id in OPEA


def read_spec_from_environment(environ: Mapping[str, str]) -> FileSpec:
    """Return a file with the agent that `environ` describes; empty variables count as unset. Raises `UsageError` if it
    describes none, and `DataError` with all problems."""
    given = {name: value for name, value in environ.items() if value.strip()}
    params: dict[str, Any] = {name: given[name] for name in _TEXTS if name in given}
    if not params:
        raise UsageError(
            "give a FILE of agents, or describe one in the environment: strategy, llm_engine, llm_endpoint_url, model, "
            "tools and so on (OPEA's RFC on agents)"
        )
    if "tools" in params:
        params["tools"] = _from_here(params["tools"])
    params |= {name: parse_scalar_or_text(given[name].strip()) for name in _VALUES if name in given}
    if "api_key" in given:
        params["api_key"] = "${api_key}"  # resolved when the agent is built, so no spec holds it
    name = next((given[one] for one in NAMES if one in given), _DEFAULT_NAME)
    text = dump_value({"agents": [{"name": name, "params": params}]})
    return check_spec(read_text(text, "environment"))


def _from_here(tools: str) -> str:
    """Return a path from the root, as OPEA's Compose files have it, as one from the current folder, if it leads there;
    no other is allowed."""
    path, here = Path(tools), Path.cwd()
    return path.relative_to(here).as_posix() if path.is_absolute() and path.is_relative_to(here) else tools
