"""A role's output, from the observation of its tool or from a person's decision, and how the state takes it up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..core.values import Decision, Observation
from .graph_plan import RolePlan
from .shared_state import StateError, StateField, Values, replaced, value_from, written


@dataclass(frozen=True, slots=True)
class Output:
    """A role's value, or why it `failed`. `said` is what the roles after it hear instead, and `edited` the new value of
    a field that a person edited."""

    value: Any
    failed: bool = False
    said: Any = None
    edited: tuple[str, Any] | None = None


def seen_from(role: RolePlan, seen: Observation) -> Output:
    """Return the output that an observation means."""
    if seen.outcome != "result":
        return Output(seen.text, failed=True)
    if not role.speaks_json:
        return Output(seen.text)
    try:
        return Output(json.loads(seen.text))
    except (ValueError, RecursionError):  # too long, or a person's words instead of it
        return Output(seen.text)


def decided(decision: Decision, *, leads_on: bool, field: str, shown: Any) -> Output:
    """Return the output of a human gate, which passes on what was `shown` of `field`, or what a person made of it.

    `leads_on`: edges depend on the decision, so a rejection is no failure.
    """
    if decision.kind == "reject" and not leads_on:
        return Output(rejection(decision), failed=True)
    value = {"decision": decision.kind, "message": decision.message}
    if decision.kind == "edit":
        new = decision.tool_input
        if isinstance(new, dict) and not isinstance(shown, dict):  # arguments by name; the gate shows one text
            if set(new) not in ({"input"}, {field}):
                return Output(
                    f"the edit has {', '.join(new) or 'nothing'}; want 'input' with the new text", failed=True
                )
            (new,) = new.values()
        if new is None:
            return Output("the edit has no new text", failed=True)
        return Output(value, said=new, edited=(field, new))
    return Output(value, said=decision.message if decision.kind == "respond" else shown)


def rejection(decision: Decision) -> str:
    """Return why a role fails that a person rejected."""
    return f"a person rejected it{': ' * bool(decision.message)}{decision.message}"


def stored(role: RolePlan, output: Output, values: Values, fields: Mapping[str, StateField]) -> dict[str, Any]:
    """Return the state with a role's output. Raises `StateError`."""
    new = dict(values)
    if output.edited is not None:
        new = replaced(new, fields, *output.edited)
    if len(role.writes) == 1:
        return written(new, fields, role.writes[0], _value(role, output.value, fields[role.writes[0]]))
    value = _mapping(role, output.value)
    for name in role.writes:
        if name not in value:
            raise StateError(f"its value has no {name!r}; it writes {', '.join(role.writes)}")
        new = written(new, fields, name, value[name])
    return new


def _value(role: RolePlan, value: Any, field: StateField) -> Any:
    return value if role.speaks_json or not isinstance(value, str) else value_from(value, field)


def _mapping(role: RolePlan, value: Any) -> Mapping[str, Any]:
    if isinstance(value, str):
        value = value_from(value, StateField(dict))
    if not isinstance(value, Mapping):
        wanted = ", ".join(role.writes)
        raise StateError(f"want a mapping with {wanted}, not {json.dumps(value)[:60]}")
    return value
