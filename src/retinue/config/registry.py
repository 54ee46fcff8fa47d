"""What a file may name, as dicts one can read. What builds it is named, and imported only when it is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ..models.prompt_model import ENGINES as _ENGINES

Kind = Literal["text", "whole number", "number", "true or false", "list", "mapping", "text or mapping"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a component's parameter may be. `refers`: where its text names another component, the types
    of component that will do."""

    kind: Kind
    refers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Known:
    """Something a file can name: `builder` is `module:attribute` of ours."""

    builder: str
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    required: tuple[str, ...] = ()


TEXT, WHOLE, NUMBER = Parameter("text"), Parameter("whole number"), Parameter("number")
FLAG, LIST, MAPPING = Parameter("true or false"), Parameter("list"), Parameter("mapping")

COMPONENTS: Mapping[str, Known] = {
    "PromptModel": Known(
        "retinue.models:PromptModel",
        {
            "model_name_or_path": TEXT, "engine": TEXT, "base_url": TEXT, "api_key": TEXT, "api": TEXT,
            "llm_engine": TEXT, "llm_endpoint_url": TEXT, "llm_model_id": TEXT,
            "dialect": TEXT, "stream": FLAG, "temperature": NUMBER, "options": MAPPING, "script": LIST,
            "context": WHOLE, "max_length": WHOLE, "timeout": NUMBER, "model_kwargs": MAPPING,
        },
    ),
    "PromptNode": Known(
        "retinue.components:PromptNode",
        {
            "model_name_or_path": Parameter("text", ("PromptModel",)),
            "default_prompt_template": Parameter("text", ("PromptTemplate",)),
            "output_variable": TEXT, "stop_words": LIST, "max_length": WHOLE, "api_key": TEXT, "top_k": WHOLE,
            "model_kwargs": MAPPING,
        },
    ),
    "PromptTemplate": Known("retinue.components:PromptTemplate", {"name": TEXT, "prompt_text": TEXT}, ("prompt_text",)),
    "SerpAPIComponent": Known(
        "retinue.components:SerpAPIComponent",
        {"api_key": TEXT, "top_k": WHOLE, "base_url": TEXT, "seconds": NUMBER},
    ),
    "PythonRuntime": Known("retinue.components:PythonRuntime"),
    "ConversationMemory": Known(
        "retinue.memory:ConversationMemory",
        {
            "window": WHOLE, "max_tokens": WHOLE, "path": TEXT,
            "summary": Parameter("text", ("PromptModel", "PromptNode")),
        },
    ),
    "EntityMemory": Known(
        "retinue.memory:EntityMemory",
        {
            "extractor": Parameter("text", ("EntityExtractor", "PromptModel")),
            "summarizer": Parameter("text", ("EntitySummarizer", "PromptModel")),
            "every": WHOLE, "max_tokens": WHOLE, "half_life": NUMBER, "path": TEXT,
        },
    ),
    "EntityExtractor": Known("retinue.memory:EntityExtractor", {"model": Parameter("text", ("PromptModel",))}),
    "EntitySummarizer": Known(
        "retinue.memory:EntitySummarizer", {"model": Parameter("text", ("PromptModel",)), "characters": WHOLE}
    ),
}  # fmt: skip

MEMORIES = ("ConversationMemory", "EntityMemory")  # components that an agent's `memory` may name

TOOLS: Mapping[str, Known] = {
    "calculator": Known("retinue.tools:calculator"),
    "passages": Known("retinue.tools:passages", {"path": TEXT, "top_k": WHOLE, "max_chars": WHOLE}, ("path",)),
}

PYTHON_ROOTS = ("retinue.tools",)  # `callable_api: module.attribute` may name what is under these
ROOTS = ("Query", "File")  # where a pipeline begins
MEMORY_TYPES = ("checkpointer", "store")  # seed 003's: in the process, in a file
ENGINES = tuple(dict.fromkeys(("tgi", "vllm", "openai", *_ENGINES)))  # of an agent's llm_engine

_TYPES: Mapping[Kind, tuple[type, ...]] = {
    "text": (str,), "whole number": (int,), "number": (int, float), "true or false": (bool,), "list": (list,),
    "mapping": (dict,), "text or mapping": (str, dict),
}  # fmt: skip


def fits(value: object, kind: Kind) -> bool:
    """Whether `value` is of this kind. A `${VARIABLE}` is of any: what it stands for is seen when building."""
    if isinstance(value, str) and value.startswith("${") and value.endswith("}"):
        return True
    return isinstance(value, _TYPES[kind]) and isinstance(value, bool) == (kind == "true or false")
