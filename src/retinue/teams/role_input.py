"""A role's input, from the state or from what the roles before it said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.values import ToolInput
from .graph_plan import WHOLE_STATE, RolePlan
from .shared_state import Values, as_words


class InputProblem(Exception):
    """A field that a role reads is not set."""


def input_of(role: RolePlan, values: Values, said: Mapping[str, Any]) -> ToolInput:
    """Return the input of a role's tool. `said` is what the roles that led to it said. Raises `InputProblem`."""
    if role.takes:
        return {name: value for name, field in role.takes.items() for value in _read(role, field, values)}
    if role.reads == ():
        return {}
    if role.reads is not None:
        read = {name: value for name in role.reads for value in _read(role, name, values)}
        return _labelled(read) if len(role.reads) > 1 else as_words(*read.values())
    if role.parameter:
        return {role.parameter: next(iter(said.values())) if len(said) == 1 else dict(said)}
    return _labelled(said) if len(said) > 1 else as_words(*said.values())


def _read(role: RolePlan, field: str, values: Values) -> list[Any]:
    """Return a field's value in a list, which is empty if it is not set and need not be."""
    if field == WHOLE_STATE and field not in values:
        return [dict(values)]
    if field in values:
        return [values[field]]
    if field in role.optional:
        return []
    raise InputProblem(f"it reads the field {field!r}, which is not set")


def _labelled(values: Mapping[str, Any]) -> str:
    return "\n\n".join(f"{name}: {as_words(value)}" for name, value in values.items())
