"""One agent from the environment, in the words of OPEA's RFC on agents: what OPEA's compose files say of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import UsageError
from .file_check import spec_of
from .scalars import scalar
from .specs import FileSpec
from .yaml_reader import read_text
from .yaml_writer import dump_value

NAMES = ("AGENT_NAME", "agent_name")
_TEXTS = (
    "role_description",
    "strategy",
    "model",
    "llm_model_id",
    "llm_engine",
    "llm_endpoint_url",
    "custom_prompt",
    "tools",
    "memory_type",
)
_VALUES = (
    "temperature",
    "top_p",
    "top_k",
    "repetition_penalty",
    "max_new_tokens",
    "recursion_limit",
    "timeout",
    "stream",
    "with_memory",
    "require_human_feedback",
)
_DEFAULT_NAME = "opea-agent"  # the model's id at OPEA


def spec_from_environment(environ: Mapping[str, str]) -> FileSpec:
    """A file with the agent that `environ` describes; empty variables are as if they were not set. Raises
    `UsageError` if it describes none, `DataError` with all that is wrong with it."""
    given = {name: value for name, value in environ.items() if value.strip()}
    params: dict[str, Any] = {name: given[name] for name in _TEXTS if name in given}
    if not params:
        raise UsageError(
            "name a FILE of agents, or describe one in the environment: strategy, llm_engine, llm_endpoint_url, model, "
            "tools and so on (OPEA's RFC on agents)"
        )
    params |= {name: _meant(given[name]) for name in _VALUES if name in given}
    if "api_key" in given:
        params["api_key"] = "${api_key}"  # looked up when the agent is built, so that no spec has it
    name = next((given[one] for one in NAMES if one in given), _DEFAULT_NAME)
    text = dump_value({"agents": [{"name": name, "params": params}]})
    return spec_of(read_text(text, "environment"))


def _meant(text: str) -> Any:
    try:
        return scalar(text.strip())
    except ValueError:
        return text
