"""An agent's specification as JSON, kept with the runs that it begins; and the agent rebuilt from a former one.

`file` is the part of its file that an agent can be rebuilt from. The rest says what it comes to: what a person reads,
and what is compared. Secrets are in neither: those of today's file and environment are used again.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import json
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import asdict, fields, is_dataclass, replace
from functools import partial
from importlib.resources import files
from pathlib import PurePath
from types import NoneType
from typing import Any, NamedTuple

from pydantic import ValidationError

from .._internal.redaction import redact
from .._internal.source_text import Source
from ..agent import Agent
from ..core.budgets import Budget
from ..core.protocols import Strategy
from ..core.tools.tool import Tool
from ..errors import AgentChanged, DataError, UsageError
from ..run.run_parts import describe_instructions
from ..run.spec import RunSpec
from ..strategies.auto import Auto
from ..strategies.react import React
from .builder import Builder
from .environment import mask_secrets
from .export import Origin
from .specs import FileSpec

_FORMAT = 1
_COMPARED = ("strategy", "answer", "hooks", "skills")  # what no other part of an agent makes up for
_PACKAGE = "retinue.strategies"
_WORDS = ("title", "description", "examples")
_BY_NAME = ("properties", "$defs", "patternProperties")


class AgentSnapshot(NamedTuple):
    """A specification as JSON, and its hash."""

    hash: str
    body: Mapping[str, Any]


def take_snapshot(agent: Agent) -> AgentSnapshot:
    """Return the specification of an agent."""
    specified = _write_specification(agent.spec, as_in_file=_is_as_in_file(agent))
    body = {"format": _FORMAT, **specified, "file": _read_file_content(agent)}
    canonical = json.dumps(body, sort_keys=True)
    return AgentSnapshot(hashlib.sha256(canonical.encode()).hexdigest(), body)


def _write_specification(spec: RunSpec, *, as_in_file: bool) -> dict[str, Any]:
    """Return what makes an agent answer as it does, as JSON without secrets.

    If the agent is as its file says, only the type of its model is told: the rest may come from the environment."""
    model = describe(spec.model)
    found = {
        "name": spec.name,
        "instructions": mask_secrets(describe_instructions(spec.instructions), "INSTRUCTIONS"),
        "strategy": describe(spec.strategy),
        "model": {"type": model["type"]} if as_in_file else mask_secrets(model, "MODEL"),
        "budget": asdict(spec.budget),
        "answer": spec.answers and spec.answers.schema,
        "hooks": [
            {"point": one.point, "name": one.name, "code": describe(one.source or one.function)} for one in spec.hooks
        ],
        "memories": [type(memory).__name__ for memory in spec.memories],
        "tools": [
            {
                "name": tool.name,
                "description": tool.description,
                "input": tool.signature.parameters,
                "effects": tool.effects,
                "approval": tool.approval,
            }
            for tool in spec.tools
        ],
    }
    if spec.harness is not None and spec.harness.found_skills:
        found["skills"] = {one.name: one.sha256 for one in spec.harness.found_skills}
    clean: dict[str, Any] = _redact(found)
    return clean


def _is_as_in_file(agent: Agent) -> bool:
    """Whether an agent is what its file says."""
    return agent.origin is not None and agent.state() == agent.origin.state


def _read_file_content(agent: Agent) -> Any:
    """Return the content of an agent's file, without what people are told to ask: an edit of that changes no agent."""
    if not _is_as_in_file(agent):
        return None
    written = dict(agent.origin.written)
    if "agents" in written:
        written["agents"] = [
            {**one, "params": {key: value for key, value in one["params"].items() if key != "questions"}}
            for one in written["agents"]
        ]
    return _redact(written)


def _redact(value: Any) -> Any:
    """Return JSON without secrets; numbers that JSON does not have become texts."""
    return json.loads(redact(json.dumps(value)), parse_constant=str)


def rebuild(kept: Mapping[str, Any], agent: Agent) -> Agent:
    """Return the agent with the specification `kept`, where `agent` is the one served now: with its code, and the words
    and settings that were kept. Raises `AgentChanged` with all that is in the way, except for settings of the strategy:
    with an upgrade, they may be others, which matters only to a run that they make ask otherwise."""
    there = {tool.name: tool for tool in agent.tools}
    builder = _read_kept_file(kept, agent) if kept["file"] and _is_as_in_file(agent) else None
    if builder is not None:
        with _tell_of_file():
            harness = builder.build_harness(agent.name)
        there |= {tool.name: tool for tool in harness.tools} if harness else {}  # as the file said then
    if problems := list(_find_tool_problems(kept["tools"], there)):
        raise AgentChanged("; ".join(problems))
    tools = [_with_stored_words(there[one["name"]], one) for one in kept["tools"]]
    if builder is not None:
        with _tell_of_file():
            made = builder.build_agent(agent.name, tools)
    else:  # no file describes it; its instructions are in the run's log
        made = copy.copy(agent)
        made.spec = replace(agent.spec, tools=tuple(tools), budget=Budget(**kept["budget"]))
    made.strategy = _with_settings(made.strategy, kept["strategy"])
    if describe(made.model) == describe(agent.model):
        made.model = agent.model  # with its connections
    of_file = builder is not None  # whose model was just made of what the file said
    compared = _COMPARED if of_file else (*_COMPARED, "model")
    now = _write_specification(made.spec, as_in_file=_is_as_in_file(made))
    if problems := list(_find_differences(kept, now, compared)):
        raise AgentChanged("; ".join(problems))
    return made


def _read_kept_file(kept: Mapping[str, Any], agent: Agent) -> Builder:
    origin: Origin = agent.origin
    value = _restore_secrets(kept["file"], _read_file_content(agent), origin.whole)
    with _tell_of_file():
        spec = FileSpec.model_validate(value)
        spec._source = Source(origin.spec.source.file, value)
        return Builder(spec)


@contextmanager
def _tell_of_file() -> Iterator[None]:
    """Raise `AgentChanged` for what is wrong with what the file said."""
    try:
        yield
    except ValidationError as error:
        raise AgentChanged("what its file said is no longer valid") from error
    except (DataError, UsageError) as error:
        raise AgentChanged(f"what its file said cannot be built: {' '.join(str(error).split())}") from error


def _restore_secrets(kept: Any, clean: Any, whole: Any) -> Any:
    """Return `kept` with what is in `whole` wherever it is the same as in `clean`, which is `whole` without secrets."""
    if kept == clean:
        return whole
    if isinstance(kept, dict) and isinstance(clean, dict):
        return {
            key: _restore_secrets(one, clean[key], whole[key]) if key in clean else one for key, one in kept.items()
        }
    if isinstance(kept, list) and isinstance(clean, list):
        there = {_list_key(one, at): (one, whole[at]) for at, one in enumerate(clean)}
        return [_restore_secrets(one, *there.get(_list_key(one, at), (None, None))) for at, one in enumerate(kept)]
    return kept


def _list_key(item: Any, at: int) -> Any:
    """Return what an item of a list is known by: its name, or where it stands."""
    return item["name"] if isinstance(item, dict) and isinstance(item.get("name"), str) else at


def _with_settings(strategy: Strategy, kept: Mapping[str, Any]) -> Strategy:
    """Return a strategy with the texts, numbers and flags that were kept of one of its type, such as its prompt."""
    now = describe(strategy)
    if now["type"] != kept["type"] or not is_dataclass(strategy) or isinstance(strategy, type):
        return strategy
    names = {one.name for one in fields(strategy) if one.init} & kept.keys() & now.keys()
    plain = (str, int, float, NoneType)
    other = {name: kept[name] for name in names if kept[name] != now[name]}
    other = {name: one for name, one in other.items() if isinstance(one, plain) and isinstance(now[name], plain)}
    return replace(strategy, **other) if other else strategy


def _with_stored_words(tool: Tool, kept: Mapping[str, Any]) -> Tool:
    """Return today's tool with the words that the model was told of it."""
    signature = tool.signature
    changed: dict[str, Any] = {"description": kept["description"], "approval": tool.approval or kept["approval"]}
    if signature.parameters != kept["input"]:
        changed["takes"] = replace(signature, parameters=kept["input"])
    return replace(tool, **changed)


def _find_tool_problems(kept: Sequence[Mapping[str, Any]], there: Mapping[str, Tool]) -> Iterator[str]:
    for one in kept:
        if (tool := there.get(one["name"])) is None:
            yield f"the tool `{one['name']}` is gone"
            continue
        before, after = without_words(one["input"]), without_words(_redact(tool.signature.parameters))
        if before != after:
            yield f"the input of `{tool.name}` changed: {describe_schema_changes(before, after)}"


def _find_differences(kept: Mapping[str, Any], now: Mapping[str, Any], parts: Sequence[str]) -> Iterator[str]:
    for part in parts:
        before, after = kept.get(part) or None, now.get(part) or None  # some lack some parts
        if before == after:
            continue
        if not isinstance(before, Mapping) or not isinstance(after, Mapping) or part == "answer":
            yield f"the {part.replace('_', ' ')} changed"
        elif part == "skills":
            yield from (f"the skill `{one}` changed" for one in {*before, *after} if before.get(one) != after.get(one))
        elif before.get("type") != after.get("type"):
            yield f"the {part} was {_name_of(before)} and is {_name_of(after)}"
        elif part != "strategy":  # whose questions are compared with the log when that is replayed
            changed = sorted(key for key in {*before, *after} if before.get(key) != after.get(key))
            yield f"the {part} {_name_of(before)} changed: its {', '.join(changed)}"


def _name_of(part: Mapping[str, Any]) -> str:
    return f"`{part.get('name') or part.get('type')}`"


def describe(something: Any) -> Any:
    """Return JSON that says what an object is: the type and fields of a dataclass, what an object was made with
    (`given`), and the qualified names of functions and of anything else. Secrets are not removed."""
    if something is None or isinstance(something, bool | int | float | str):
        return something
    if isinstance(something, PurePath):
        return str(something)
    if isinstance(something, Mapping):
        return {str(key): describe(one) for key, one in something.items()}
    if isinstance(something, list | tuple):
        return [describe(one) for one in something]
    if isinstance(something, Set):
        return sorted(map(str, something))
    if isinstance(something, partial):
        return {"type": "partial", "function": describe(something.func), "args": describe(something.args)}
    if inspect.isroutine(something) or isinstance(something, type):
        return f"{something.__module__}.{something.__qualname__}"
    return _describe_object(something)


def _describe_object(something: Any) -> dict[str, Any]:
    kind = type(something)
    about: dict[str, Any] = {"type": f"{kind.__module__}.{kind.__qualname__}"}
    if isinstance(given := getattr(something, "given", None), Mapping):
        return about | {"settings": {key: describe(one) for key, one in given.items() if one is not None}}
    if isinstance(name := getattr(something, "name", None), str):
        about["name"] = name
    if is_dataclass(something):
        about |= {one.name: describe(getattr(something, one.name)) for one in fields(something)}
    if isinstance(something, Auto):
        about["otherwise"] = describe(React())
    package, _, module = kind.__module__.rpartition(".")
    if package == _PACKAGE and (prompt := files(package).joinpath(f"{module}.txt")).is_file():  # a built-in strategy's
        about["template"] = prompt.read_text(encoding="utf-8")
    return about


def without_words(schema: Any) -> Any:
    """Return a schema without what only describes values."""
    if isinstance(schema, list):
        return [without_words(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _BY_NAME and isinstance(value, Mapping):  # names of arguments, which may be called `title`
            kept[key] = {name: without_words(one) for name, one in value.items()}
        elif key not in _WORDS:
            kept[key] = value if key in ("default", "const", "enum") else without_words(value)
    return kept


def describe_schema_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return what changed between two schemas of type `object`, by the names of their properties."""
    old, new = before.get("properties", {}), after.get("properties", {})
    required, demanded = set(before.get("required", ())), set(after.get("required", ()))
    changes = [
        *(f"`{name}` is gone" for name in old if name not in new),
        *(f"`{name}` is new" for name in new if name not in old),
        *(f"`{name}` is another" for name in old if name in new and old[name] != new[name]),
        *(f"`{name}` is required" for name in sorted(demanded - required) if name in old),
        *(f"`{name}` may be left out" for name in sorted(required - demanded) if name in new),
    ]
    return ", ".join(changes) or "its schema"
