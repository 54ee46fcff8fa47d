"""The component types and tools that a file may name. Their constructors are imported only when something is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from ..models.prompt_model import ENGINES as _ENGINES
from ..models.settings import Effort, Reason, Summary, Verbosity
from ..pipelines.graph import INPUTS

Kind = Literal[
    "text", "whole number", "number", "true or false", "list", "mapping", "text or mapping", "true, false or list"
]


@dataclass(frozen=True, slots=True)
class Parameter:
    """The type of a component's parameter.

    `refers` lists the component types that its text may name. `path` marks a path relative to the file's folder.
    `choices` lists the allowed values."""

    kind: Kind
    refers: tuple[str, ...] = ()
    path: bool = False
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TypeEntry:
    """Something a file can name; `builder` is `module:attribute` in this package."""

    builder: str
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    required: tuple[str, ...] = ()


TEXT, WHOLE, NUMBER = Parameter("text"), Parameter("whole number"), Parameter("number")
FLAG, LIST, MAPPING = Parameter("true or false"), Parameter("list"), Parameter("mapping")
PROVIDER = Parameter("text", choices=("serper", "searchapi", "serpapi", "tavily", "wikipedia"))
MODE = Parameter("text", choices=("keyword", "vector", "hybrid"))
WEB_MODE = Parameter("text", choices=("snippet", "document"))
EFFORT, VERBOSITY = Parameter("text", choices=get_args(Effort)), Parameter("text", choices=get_args(Verbosity))
SUMMARY = Parameter("text", choices=get_args(Summary))
REASONS = Parameter("list", choices=get_args(Reason))
EFFECTS = Parameter("text", choices=("read", "idempotent", "once"))
PATH, STORE = Parameter("text", path=True), Parameter("text", ("DocumentStore",))

COMPONENTS: Mapping[str, TypeEntry] = {
    "PromptModel": TypeEntry(
        "retinue.models:PromptModel",
        {
            "model_name_or_path": TEXT, "engine": TEXT, "base_url": TEXT, "api_key": TEXT, "api": TEXT,
            "llm_engine": TEXT, "llm_endpoint_url": TEXT, "llm_model_id": TEXT,
            "dialect": TEXT, "sees": Parameter("true, false or list"), "stream": FLAG, "temperature": NUMBER,
            "options": MAPPING, "script": LIST, "effort": EFFORT, "verbosity": VERBOSITY, "thinking_tokens": WHOLE,
            "summary": SUMMARY,
            "price": MAPPING, "context": WHOLE, "max_length": WHOLE, "timeout": NUMBER, "model_kwargs": MAPPING,
            "models": Parameter("list", ("PromptModel",)), "fall_back_on": REASONS,
        },
    ),
    "PromptNode": TypeEntry(
        "retinue.components:PromptNode",
        {
            "model_name_or_path": Parameter("text", ("PromptModel",)),
            "default_prompt_template": Parameter("text", ("PromptTemplate",)),
            "output_variable": TEXT, "stop_words": LIST, "max_length": WHOLE, "api_key": TEXT, "top_k": WHOLE,
            "model_kwargs": MAPPING,
        },
    ),
    "PromptTemplate": TypeEntry(
        "retinue.components:PromptTemplate", {"name": TEXT, "prompt_text": TEXT}, ("prompt_text",)
    ),
    "SerpAPIComponent": TypeEntry(
        "retinue.components:SerpAPIComponent",
        {"api_key": TEXT, "top_k": WHOLE, "base_url": TEXT, "seconds": NUMBER},
    ),
    "MCPTools": TypeEntry(
        "retinue.mcp:MCPTools",
        {
            "command": TEXT, "args": LIST, "env": MAPPING, "url": TEXT, "headers": MAPPING,
            "tools": LIST, "options": MAPPING, "seconds": NUMBER,
        },
    ),
    "PythonRuntime": TypeEntry("retinue.components:PythonRuntime", {"limits": MAPPING}),
    "GitHubAPI": TypeEntry(
        "retinue.components:GitHubAPI",
        {
            "token": TEXT, "repository": TEXT, "operation": TEXT, "top_k": WHOLE, "base_url": TEXT, "seconds": NUMBER,
        },
    ),
    "IssueLink": TypeEntry(
        "retinue.components:IssueLink",
        {"repository": TEXT, "labels": LIST, "template": TEXT, "base_url": TEXT},
        ("repository",),
    ),
    "DeepsetCloudPipeline": TypeEntry(
        "retinue.components:DeepsetCloudPipeline",
        {"pipeline": TEXT, "workspace": TEXT, "api_key": TEXT, "endpoint": TEXT, "seconds": NUMBER},
        ("pipeline",),
    ),
    "HaystackPipeline": TypeEntry(
        "retinue.components:HaystackPipeline", {"base_url": TEXT, "api_key": TEXT, "seconds": NUMBER}, ("base_url",)
    ),
    "CurrencyConverter": TypeEntry("retinue.components:CurrencyConverter", {"base_url": TEXT, "seconds": NUMBER}),
    "Weather": TypeEntry("retinue.components:Weather", {"base_url": TEXT, "geocoding_url": TEXT, "seconds": NUMBER}),
    "Wikipedia": TypeEntry(
        "retinue.components:Wikipedia",
        {"language": TEXT, "operation": TEXT, "base_url": TEXT, "contact": TEXT, "seconds": NUMBER},
    ),
    "DocumentStore": TypeEntry("retinue.documents:DocumentStore", {"path": PATH, "dimensions": WHOLE}),
    "DocumentSplitter": TypeEntry("retinue.components:DocumentSplitter", {"size": WHOLE}),
    "DocumentWriter": TypeEntry("retinue.components:DocumentWriter", {"store": STORE, "embedder": TEXT}, ("store",)),
    "FileConverter": TypeEntry("retinue.components:FileConverter", {"folder": PATH}),
    "Reader": TypeEntry(
        "retinue.components:Reader", {"prompt_node": Parameter("text", ("PromptNode",)), "top_k": WHOLE}
    ),
    "Retriever": TypeEntry(
        "retinue.components:Retriever",
        {"store": STORE, "mode": MODE, "top_k": WHOLE, "embedder": TEXT, "where": MAPPING, "sources": TEXT},
        ("store",),
    ),
    "Ranker": TypeEntry("retinue.components:Ranker", {"cross_encoder": TEXT, "top_k": WHOLE}),
    "SpeechToText": TypeEntry(
        "retinue.components:SpeechToText",
        {"folder": PATH, "phrases": LIST, "model": TEXT, "language": TEXT, "seconds": NUMBER},
        ("folder",),
    ),
    "TextToSpeech": TypeEntry(
        "retinue.components:TextToSpeech",
        {"folder": PATH, "voice": TEXT, "words_per_minute": WHOLE, "seconds": NUMBER},
        ("folder",),
    ),
    "TopPSampler": TypeEntry("retinue.components:TopPSampler", {"top_p": NUMBER, "cross_encoder": TEXT}),
    "SearchEngine": TypeEntry(
        "retinue.components:SearchEngine",
        {
            "provider": PROVIDER, "api_key": TEXT, "top_k": WHOLE, "allowed_domains": LIST, "language": TEXT,
            "country": TEXT, "base_url": TEXT, "seconds": NUMBER,
        },
    ),
    "LinkContentFetcher": TypeEntry(
        "retinue.components:LinkContentFetcher",
        {"allow": LIST, "ports": LIST, "seconds": NUMBER, "max_bytes": WHOLE},
    ),
    "WebRetriever": TypeEntry(
        "retinue.components:WebRetriever",
        {
            "search_engine": Parameter("text", ("SearchEngine", "SerpAPIComponent")), "mode": WEB_MODE, "top_k": WHOLE,
            "top_search_results": WHOLE, "ranker": Parameter("text", ("Ranker",)),
            "sampler": Parameter("text", ("TopPSampler",)), "cache": STORE,
            "cache_seconds": NUMBER, "fetcher": Parameter("text", ("LinkContentFetcher",)), "size": WHOLE,
        },
        ("search_engine",),
    ),
    "Crawler": TypeEntry(
        "retinue.components:Crawler",
        {
            "site": TEXT, "fetcher": Parameter("text", ("LinkContentFetcher",)), "store": STORE, "pages": WHOLE,
            "depth": WHOLE, "seconds": NUMBER, "max_bytes": WHOLE,
        },
    ),
    "ReportWriter": TypeEntry("retinue.components:ReportWriter", {"folder": PATH}, ("folder",)),
    "ConversationMemory": TypeEntry(
        "retinue.memory:ConversationMemory",
        {
            "window": WHOLE, "max_tokens": WHOLE, "path": PATH,
            "summary": Parameter("text", ("PromptModel", "PromptNode")),
        },
    ),
    "EntityMemory": TypeEntry(
        "retinue.memory:EntityMemory",
        {
            "extractor": Parameter("text", ("EntityExtractor", "PromptModel")),
            "summarizer": Parameter("text", ("EntitySummarizer", "PromptModel")),
            "every": WHOLE, "max_tokens": WHOLE, "half_life": NUMBER, "path": PATH,
        },
    ),
    "EntityExtractor": TypeEntry("retinue.memory:EntityExtractor", {"model": Parameter("text", ("PromptModel",))}),
    "EntitySummarizer": TypeEntry(
        "retinue.memory:EntitySummarizer", {"model": Parameter("text", ("PromptModel",)), "characters": WHOLE}
    ),
    "RemoteAgent": TypeEntry(
        "retinue.teams:RemoteAgent",
        {
            "url": TEXT, "model": TEXT, "api_key": TEXT, "name": TEXT, "stream": FLAG, "seconds": NUMBER,
            "effects": EFFECTS, "price": MAPPING,
        },
        ("url",),
    ),
    "A2AAgent": TypeEntry(
        "retinue.teams:A2AAgent",
        {"url": TEXT, "api_key": TEXT, "name": TEXT, "allow": LIST, "seconds": NUMBER, "effects": EFFECTS},
        ("url",),
    ),
}  # fmt: skip

MEMORIES = ("ConversationMemory", "EntityMemory")  # component types that an agent's `memory` may name

TOOLS: Mapping[str, TypeEntry] = {
    "calculator": TypeEntry("retinue.tools:calculator"),
    "passages": TypeEntry("retinue.tools:passages", {"path": TEXT, "top_k": WHOLE, "max_chars": WHOLE}, ("path",)),
}

PYTHON_ROOTS = ("retinue.tools",)  # `callable_api: module.attribute` may name tools under these
ROOTS = tuple(INPUTS)  # the inputs of a pipeline
MEMORY_TYPES = ("checkpointer", "store")  # OPEA's: in memory, in a file
ENGINES = tuple(dict.fromkeys(("tgi", "vllm", "openai", *_ENGINES)))  # values of an agent's llm_engine

_TYPES: Mapping[Kind, tuple[type, ...]] = {
    "text": (str,), "whole number": (int,), "number": (int, float), "true or false": (bool,), "list": (list,),
    "mapping": (dict,), "text or mapping": (str, dict), "true, false or list": (bool, list),
}  # fmt: skip


def fits(value: object, kind: Kind) -> bool:
    """Whether `value` is of this kind. A `${VARIABLE}` is accepted as any kind; its value is checked when building."""
    if isinstance(value, str) and value.startswith("${") and value.endswith("}"):
        return True
    return isinstance(value, _TYPES[kind]) and (not isinstance(value, bool) or bool in _TYPES[kind])
