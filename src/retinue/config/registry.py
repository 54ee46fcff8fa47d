"""The component types and tools that a file may name, with their parameters, which are those of their constructors.

A constructor is imported when something is built, or when its parameters are checked.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from ..core.component import ComponentReference
from ..core.protocols import Model
from ..core.tools.tool import Tool, make_tool
from ..errors import UsageError
from ..models.prompt_model import ENGINES as _ENGINES
from ..pipelines.graph import INPUTS

Kind = Literal["mapping", "list", "number", "whole number", "true or false", "text", "true, false or list"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """The type of a component's parameter.

    `refers` lists the component types that its text may name. `path` marks a path relative to the file's folder.
    `choices` lists the allowed values."""

    kind: Kind
    refers: tuple[str, ...] = ()
    path: bool = False
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class TypeEntry:
    """Something a file can name; `builder` is the `module:attribute` of its constructor in this package.

    `settings` is that of a dataclass whose fields the constructor takes, too. `hidden` are parameters that files do not
    have, and `also` those that only files have. Those without a default are required, and so is what it `needs`.
    """

    builder: str
    hidden: tuple[str, ...] = ("name",)
    needs: tuple[str, ...] = ()
    settings: str = ""
    also: Mapping[str, Parameter] = field(default_factory=dict)

    @cached_property
    def constructor(self) -> Any:
        """The class or function that makes it, or the tool itself."""
        return _import(self.builder)

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """The parameters that a file can set, by name."""
        hints = _read_hints(self.constructor) | (_read_hints(_import(self.settings)) if self.settings else {})
        described = {name: _describe_parameter(hint) for name, hint in hints.items() if name not in self.hidden}
        return {**{name: one for name, one in described.items() if one is not None}, **self.also}

    @cached_property
    def required(self) -> tuple[str, ...]:
        """The parameters without which it cannot be made."""
        return tuple(
            name for name, one in _list_arguments(self.constructor).items()
            if name in self.needs or (name in self.parameters and one.default is inspect.Parameter.empty)
        )  # fmt: skip


def _import(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


def _list_arguments(constructor: Any) -> Mapping[str, inspect.Parameter]:
    return {} if isinstance(constructor, Tool) else inspect.signature(constructor).parameters


def _read_hints(constructor: Any) -> dict[str, Any]:
    """Return the type hints of a constructor's parameters, in their order."""
    arguments, only_for_checkers = _list_arguments(constructor), dict[str, Any]()
    while arguments:
        try:
            function = constructor if inspect.isroutine(constructor) else constructor.__init__
            hints = get_type_hints(function, localns=only_for_checkers, include_extras=True)
            return {name: hints[name] for name in arguments if name in hints}
        except NameError as error:  # imported under TYPE_CHECKING; no file has such a parameter
            only_for_checkers[str(error.name)] = Any
    return {}


def _describe_parameter(hint: Any) -> Parameter | None:
    """Return what a type hint says to a file, or `None` if a file can express none of its values."""
    members = list(_list_union_members(hint))
    items = [one for list_ in members if _find_kind(list_) == "list" for one in get_args(list_)]
    kinds, refers, choices = set(map(_find_kind, members)), list[str](), list[str]()
    for one in [*members, *(inner for item in items for inner in _list_union_members(item))]:
        if isinstance(one, ComponentReference):
            refers += one.types
        elif get_origin(one) is Literal:
            choices += get_args(one)
        elif (name := "PromptModel" if one is Model else getattr(one, "__name__", "")) in COMPONENTS:
            refers.append(name)
    if kinds == {"true or false", "list"}:
        return Parameter("true, false or list")
    kind = next((one for one in _HINTS if one in kinds), "text" if refers else None)
    return None if kind is None else Parameter(kind, tuple(refers), Path in members, tuple(choices))


def _list_union_members(hint: Any) -> Iterator[Any]:
    """Yield the members of a union, and what `Annotated` says of them; a reference stands for what it annotates."""
    if get_origin(hint) is Annotated:
        inner, *said = get_args(hint)
        if not any(isinstance(one, ComponentReference) for one in said):
            yield from _list_union_members(inner)
        yield from said
    elif get_origin(hint) in (Union, UnionType):
        for one in get_args(hint):
            yield from _list_union_members(one)
    elif hint is not NoneType:
        yield hint


def _find_kind(hint: Any) -> Kind | None:
    plain = get_origin(hint) or hint
    return "text" if plain is Literal else next((kind for kind, known in _HINTS.items() if plain in known), None)


_HINTS: Mapping[Kind, tuple[Any, ...]] = {  # in a union, the first one counts
    "mapping": (Mapping, dict), "list": (Iterable, Sequence, Collection, list, tuple), "number": (float,),
    "whole number": (int,), "true or false": (bool,), "text": (str, Path),
}  # fmt: skip
_TEXT, _WHOLE, _NUMBER, _MAPPING = (Parameter(kind) for kind in ("text", "whole number", "number", "mapping"))

_OF_COMPONENTS = (
    "PythonRuntime", "GitHubAPI", "IssueLink", "DeepsetCloudPipeline", "HaystackPipeline", "CurrencyConverter",
    "Weather", "Wikipedia", "DocumentSplitter", "DocumentWriter", "FileConverter", "Reader", "Retriever", "Ranker",
    "SpeechToText", "TextToSpeech", "TopPSampler", "SearchEngine", "LinkContentFetcher", "WebRetriever", "Crawler",
    "ReportWriter",
)  # fmt: skip
_OF_MEMORY = ("ConversationMemory", "EntityMemory", "EntityExtractor", "EntitySummarizer")
GUARDRAILS = ("PersonalData", "Secrets", "Injections", "ToolsByUser", "SpendPerDay", "Reviewer")
"""Component types that an agent's `hooks` may name."""
_OF_FILES = {
    "llm_engine": _TEXT, "llm_endpoint_url": _TEXT, "llm_model_id": _TEXT, "max_length": _WHOLE, "timeout": _NUMBER,
    "model_kwargs": _MAPPING,
}  # fmt: skip

COMPONENTS: Mapping[str, TypeEntry] = {
    "PromptModel": TypeEntry(
        "retinue.models:PromptModel", ("model",), (), "retinue.models.settings:Settings", _OF_FILES
    ),
    "PromptNode": TypeEntry("retinue.components:PromptNode"),
    "PromptTemplate": TypeEntry("retinue.components:PromptTemplate", hidden=(), needs=("prompt_text",)),
    "SerpAPIComponent": TypeEntry("retinue.components:SerpAPIComponent", hidden=("name", "inputs")),
    "MCPTools": TypeEntry("retinue.mcp:MCPTools", hidden=("name", "pins", "cwd")),
    **{name: TypeEntry(f"retinue.components:{name}") for name in _OF_COMPONENTS},
    "DocumentStore": TypeEntry("retinue.documents:DocumentStore"),
    **{name: TypeEntry(f"retinue.memory:{name}") for name in _OF_MEMORY},
    **{name: TypeEntry(f"retinue.guardrails:{name}") for name in GUARDRAILS},
    "RemoteAgent": TypeEntry("retinue.teams:RemoteAgent", hidden=()),
    "A2AAgent": TypeEntry("retinue.teams:A2AAgent", hidden=()),
}

MEMORIES = ("ConversationMemory", "EntityMemory")  # component types that an agent's `memory` may name

_OF_WORKSPACES = ("list_files", "read_file", "write_file", "edit_file", "search_files")
TOOLS: Mapping[str, TypeEntry] = {
    **{name: TypeEntry(f"retinue.tools:{name}") for name in ("calculator", "passages")},
    **{name: TypeEntry(f"retinue.harness.workspace_tools:{name}") for name in _OF_WORKSPACES},
    "run_command": TypeEntry("retinue.harness.shell:run_command"),
    "write_todos": TypeEntry("retinue.harness.todos:write_todos"),
}

_PYTHON_ROOTS = ("retinue.tools",)
ROOTS = tuple(INPUTS)  # the inputs of a pipeline
MEMORY_TYPES = ("checkpointer", "store")  # OPEA's: in memory, in a file
ENGINES = tuple(dict.fromkeys(("tgi", "vllm", "openai", *_ENGINES)))  # values of an agent's llm_engine

_TYPES: Mapping[Kind, tuple[type, ...]] = {
    "text": (str,), "whole number": (int,), "number": (int, float), "true or false": (bool,), "list": (list,),
    "mapping": (dict,), "true, false or list": (bool, list),
}  # fmt: skip


def list_roots() -> tuple[str, ...]:
    """Return the modules under which files may name code that is not in their folder: those in the operator's variable
    RETINUE_PYTHON_ROOTS, separated by commas, besides our own."""
    own = os.environ.get("RETINUE_PYTHON_ROOTS", "").split(",")
    return (*_PYTHON_ROOTS, *(one.strip() for one in own if one.strip()))


def fits(value: object, kind: Kind) -> bool:
    """Whether `value` is of this kind. A `${VARIABLE}` is accepted as any kind; its value is checked when building."""
    if isinstance(value, str) and value.startswith("${") and value.endswith("}"):
        return True
    return isinstance(value, _TYPES[kind]) and (not isinstance(value, bool) or bool in _TYPES[kind])


def build_built_in_tool(name: str) -> Tool:
    """Return a built-in tool under its name in files. Raises `UsageError` if it needs parameters."""
    known = TOOLS[name]
    if known.required:
        needs = ", ".join(f"{one}: …" for one in known.required)
        raise UsageError(f"{name} needs parameters; write {name}: {{callable_api: {name}, params: {{{needs}}}}}")
    return replace(make_tool(known.constructor), name=name)
