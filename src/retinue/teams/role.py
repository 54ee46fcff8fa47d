"""Roles: what takes part in a graph. A role becomes a tool of the graph's agent."""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from ..core.tools.result import as_text, finish, is_unfinished
from ..core.tools.tool import Effects, Tool
from ..core.values import Document
from ..errors import ToolError, UsageError

START, END = "START", "END"
SECONDS = 600.0  # default time limit of a role that sets none
MAX_RESULT = 1_000_000  # characters of what a role says
Reads = str | Sequence[str] | Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Role:
    """Something that takes part in a graph.

    Args:
        name: Letters, digits and underscores, at most 50.
        something: An agent, a planner, an executor, a tool, a function, a component or a pipeline.
        input: The field of the state that it reads, or several; for a function also fields by parameter. By default, a
            function gets the fields that its parameters are called after, or the whole state as `state`. Anything else,
            and a function with one other parameter, gets the output of the roles that led to it.
        output: The field that it writes; the role's name by default. With several, its value must be a mapping that has
            them as keys.
        description: For people and diagrams.
        max_visits: How often it may run; the group's `max_visits` by default.
        effects: As of a `Tool`.
        timeout: In seconds; by default ten minutes, or none for an agent, which has a budget.

    Raises `UsageError` for an invalid name, and something that cannot be called.
    """

    name: str
    something: Any
    input: Reads | None = None
    output: str | Sequence[str] = ""
    description: str = ""
    max_visits: int | None = None
    effects: Effects | None = None
    timeout: float | None = None

    def __post_init__(self) -> None:
        check_role_name(self.name, self.max_visits)
        as_tool(self)

    @property
    def writes(self) -> tuple[str, ...]:
        """The fields that it writes."""
        return (self.output or self.name,) if isinstance(self.output, str) else tuple(self.output)


@dataclass(frozen=True, slots=True)
class HumanGate:
    """A role that a person has: the run waits until somebody decides.

    The field of its name becomes `{"decision": …, "message": …}`, where the decision is `approve`, `edit`, `reject` or
    `respond`. An edited text replaces the field shown. A rejection ends the run, unless conditional edges or an edge
    for errors lead on from the gate.

    Args:
        shows: The field that the person sees and may edit; the output of the role before by default.
        question: What the person is asked.
    """

    name: str
    shows: str = ""
    question: str = ""
    max_visits: int | None = None

    def __post_init__(self) -> None:
        check_role_name(self.name, self.max_visits)

    @property
    def writes(self) -> tuple[str, ...]:
        """The fields that it writes."""
        return (self.name,)


def check_role_name(name: str, max_visits: int | None = None) -> None:
    """Raise `UsageError` for a name that no role can have."""
    if not (isinstance(name, str) and re.fullmatch("[A-Za-z0-9_]{1,50}", name)):
        raise UsageError(f"a role's name: want letters, digits and underscores, at most 50, not {name!r:.60}")
    if name in (START, END):
        raise UsageError(f"{name} is where every graph {'begins' if name == START else 'ends'}; choose another name")
    if max_visits is not None and max_visits < 1:
        raise UsageError(f"role {name}: max_visits: want a number above 0, not {max_visits}")


def takes_text(something: Any) -> bool:
    """Return whether a role gets one text: an agent, a component or a pipeline does."""
    if isinstance(something, Tool):
        something = something.something
    return not hasattr(something, "tool_function") and _has_run(something)


def is_json_speaker(something: Any) -> bool:
    """Return whether a role's value comes as JSON: a function's does; others answer in text."""
    return not isinstance(something, Tool) and not _has_run(something)


def as_tool(role: Role) -> Tool:
    """Return a role as a tool of its graph. A role that runs again does so even if its input is the same."""
    something = role.something
    options: dict[str, Any] = {"polls": True, "max_result": MAX_RESULT}
    if role.effects is not None:
        options["effects"] = role.effects
    if isinstance(something, Tool):
        timeout = role.timeout or something.timeout
        told = role.description or something.description
        return replace(something, name=role.name, description=told, timeout=timeout, return_direct=False, **options)
    if role.timeout is not None or not hasattr(something, "run_spec"):
        options["timeout"] = role.timeout or SECONDS
    if _has_run(something):
        return Tool(role.name, something, role.description or f"the role {role.name}", **options)
    if not callable(something):
        wanted = "want an agent, a function, a component or a pipeline"
        raise UsageError(f"role {role.name}: {something!r:.80} cannot be called and has no run; {wanted}")
    if effects := getattr(something, "effects", None):
        options.setdefault("effects", effects)
    return Tool(role.name, _with_json_result(something, role.name), role.description, **options)


def _has_run(something: Any) -> bool:
    return any(hasattr(something, name) for name in ("tool_function", "run_async", "run", "run_spec"))


def _with_json_result(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a function that returns its value as JSON, with the same parameters, which can be passed by name."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise UsageError(f"role {name}: the parameters of {function!r:.80} are not known; wrap it in a def") from error
    parameters = signature.parameters.values()
    unnamed = [one.name for one in parameters if one.kind is one.POSITIONAL_ONLY]

    def made(**values: Any) -> Any:
        value = function(*[values.pop(one) for one in unnamed if one in values], **values)
        return finish_as_json(value) if is_unfinished(value) else encode_value(value)

    async def finish_as_json(value: Any) -> str:
        while is_unfinished(value):
            value = await finish(value, Tool.max_result)
        return encode_value(value)

    functools.update_wrapper(made, function)
    hints = dict.fromkeys(signature.parameters, Any)  # a parameter without a hint takes any value
    made.__annotations__ = hints | getattr(function, "__annotations__", {})
    named = [one.replace(kind=one.POSITIONAL_OR_KEYWORD) if one.name in unnamed else one for one in parameters]
    vars(made)["__signature__"] = signature.replace(parameters=named)
    return made


def encode_value(value: Any) -> str:
    """Return a function's value as JSON; documents are their texts. Raises `ToolError` for what is not JSON."""
    documents = isinstance(value, list) and value and all(isinstance(one, Document) for one in value)
    if documents or isinstance(value, Document) or hasattr(value, "stop_reason"):
        value = as_text(value)
    if isinstance(value, Iterator):
        value = list(value)
    try:
        return json.dumps(to_jsonable_python(value), ensure_ascii=False, allow_nan=False)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise ToolError(f"it returned a {type(value).__name__}, and a state holds JSON: {error}") from None
