"""Plans how each role of a group reads and writes the state, and checks that this fits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_origin, get_type_hints

from .._internal.message_text import suggestion
from .._internal.type_check import mismatch
from ..core.tool import Tool
from ..errors import UsageError
from .graph_plan import WHOLE_STATE, RolePlan
from .graph_structure import GraphProblem
from .role import HumanGate, Role, as_tool, speaks_json, takes_text
from .selectors import ModelChoice, When
from .shared_state import OWN, UNSET, StateField
from .state_expression import field_names

_JSON = {"string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict}
_SAMPLES = {str: "", int: 0, float: 0.5, bool: True, list: [], dict: {}}


@dataclass(slots=True)
class Planned:
    """Roles as planned so far, their tools, the fields of the state, and what is wrong."""

    fields: dict[str, StateField]
    roles: dict[str, RolePlan] = field(default_factory=dict)
    tools: list[Tool] = field(default_factory=list)
    problems: list[GraphProblem] = field(default_factory=list)


def planned(roles: Sequence[Role | HumanGate], declared: Mapping[str, StateField], max_visits: int) -> Planned:
    """Plan all roles."""
    kinds = {role.name: StateField(dict) if isinstance(role, HumanGate) else StateField() for role in roles}
    fields = {name: kinds.get(name, StateField()) for role in roles for name in role.writes}
    found = Planned({**OWN, **fields, **declared})
    for index, role in enumerate(roles):
        where = ("role", index)
        visits = role.max_visits or max_visits
        plan = RolePlan(role.name, role.writes, visits)
        if isinstance(role, HumanGate):
            asked = role.question or f"{role.name}: shall it go on?"
            plan = replace(plan, reads=(role.shows,) if role.shows else None, speaks_json=True, gate=asked)
        else:
            found.tools.append(as_tool(role))
            plan = replace(plan, speaks_json=speaks_json(role.something))
            try:
                plan = _Reader(role, found.tools[-1], found.fields).read(plan)
            except UsageError as error:
                found.problems.append(GraphProblem(where, f"role {role.name}: {error}"))
        found.problems += [GraphProblem(where, f"role {role.name}: {one}") for one in _misfits(role, plan, found)]
        found.roles[role.name] = plan
    return found


@dataclass(frozen=True, slots=True)
class _Reader:
    """Plans what a role reads."""

    role: Role
    tool: Tool
    fields: Mapping[str, StateField]

    def read(self, plan: RolePlan) -> RolePlan:
        """Return the plan with what the role reads. Raises `UsageError`."""
        if takes_text(self.role.something):
            return self._text(plan)
        parameters = list(self.tool.signature.parameters.get("properties", {}))
        needed = self.tool.signature.parameters.get("required", [])
        takes = self._takes(parameters, needed)
        if takes is None:
            text = bool(self.tool.signature.text_argument)
            return plan if text else replace(plan, parameter=(needed or parameters)[0])
        if not takes:
            return replace(plan, reads=())
        optional = tuple(name for parameter, name in takes.items() if parameter not in needed)
        return replace(plan, takes=takes, optional=optional)

    def _text(self, plan: RolePlan) -> RolePlan:
        given = self.role.input
        if isinstance(given, Mapping):
            raise UsageError("input: it takes one text, so want a field, or a list of fields")
        if given is None:
            return plan
        reads = (given,) if isinstance(given, str) else tuple(given)
        return replace(plan, reads=reads, optional=reads if len(reads) > 1 else ())

    def _takes(self, parameters: Sequence[str], needed: Sequence[str]) -> dict[str, str] | None:
        """Return the fields by parameter; `None` for a function of what the roles before it said."""
        given = self.role.input
        if isinstance(given, str):
            one = given if given in parameters else next(iter(needed or parameters), "")
            if len(needed) > 1 or not one:
                raise UsageError(f"input: it takes {_listed(parameters)}; want fields by parameter")
            return {one: given}
        if given is not None:
            takes = dict(given) if isinstance(given, Mapping) else {name: name for name in given}
            if wrong := [name for name in takes if name not in parameters]:
                raise UsageError(f"input: no parameter {wrong[0]!r}; {suggestion(wrong[0], parameters)}")
            if lacking := [name for name in needed if name not in takes]:
                raise UsageError(f"input: its parameter {lacking[0]!r} gets nothing; name a field for it")
            return takes
        known = {name: name for name in parameters if name in self.fields or name == WHOLE_STATE}
        unknown = [name for name in needed if name not in known]
        if not unknown and known:
            return known
        if len(needed or parameters) == 1:
            return None
        if not parameters:
            return {}
        raise UsageError(f"its parameter {unknown[0]!r} is no field of the state; say input={{{unknown[0]!r}: …}}")


def _misfits(role: Role | HumanGate, plan: RolePlan, found: Planned) -> Iterator[str]:
    """Yield what a role reads or writes that is not there or is of another type."""
    own = [name for name in plan.writes if name in OWN]
    for name in own:
        yield f"output: the field {name!r} is kept by the graph; choose another name"
    reads = [*(plan.reads or ()), *plan.takes.values()]
    for name in dict.fromkeys(reads):
        if name not in found.fields and name != WHOLE_STATE:
            yield f"input: no field {name!r}; {suggestion(name, found.fields)}"
    if isinstance(role, HumanGate):
        return
    yield from _wrong_types(found.tools[-1], plan, found.fields)
    if speaks_json(role.something) and len(plan.writes) == 1 and not own:
        kind = _returned(role.something)
        to = found.fields[plan.writes[0]]
        if kind in _SAMPLES and to.reducer in ("replace", "merge") and mismatch(_SAMPLES[kind], to.type):
            yield f"it returns {kind.__name__}, and its field {plan.writes[0]!r} holds {_type_name(to.type)}"


def _wrong_types(tool: Tool, plan: RolePlan, fields: Mapping[str, StateField]) -> Iterator[str]:
    properties: Mapping[str, Any] = tool.signature.parameters.get("properties", {}) if plan.takes else {}
    for parameter, name in plan.takes.items():
        wanted = _JSON.get(str(properties.get(parameter, {}).get("type")))
        kind = fields[name].type if name in fields else None
        kind = get_origin(kind) or kind
        if wanted is None or kind not in _SAMPLES:
            continue
        if mismatch(_SAMPLES[kind], wanted):
            yield f"its parameter {parameter!r} wants {wanted.__name__}, and the field {name!r} holds {kind.__name__}"


def _returned(function: Any) -> Any:
    try:
        hint = get_type_hints(function).get("return")
    except (TypeError, NameError):
        return None
    return get_origin(hint) or hint


def unset_reads(
    roles: Mapping[str, RolePlan], fields: Mapping[str, StateField], reach: Mapping[str, Iterable[str]]
) -> Iterator[tuple[str, str]]:
    """Yield the roles, each with a field that it needs and that is certainly not set when it runs."""
    for name, role in roles.items():
        before = [other for other in roles if name in reach[other]]
        there = {one for other in before for one in roles[other].writes} | {WHOLE_STATE, *OWN}
        there |= {one for one, field in fields.items() if field.initial is not UNSET}
        for one in dict.fromkeys([*(role.reads or ()), *role.takes.values()]):
            if one in fields and one not in there and one not in role.optional:
                yield name, one


def selector_problems(
    selector: When | ModelChoice | None, tails: Mapping[str, str], fields: Mapping[str, StateField]
) -> Iterator[str]:
    """Yield the fields and candidates that a selector names and that are not there."""
    if isinstance(selector, When):
        wanted = [to for _, to in selector.cases] + ([selector.otherwise] if selector.otherwise else [])
        for word in dict.fromkeys(wanted):
            if word not in tails:
                yield f"{word!r} is no candidate; {suggestion(word, tails)}"
        for name in dict.fromkeys(name for tree in selector.trees for name in field_names(tree)):
            if name not in fields:
                yield f"no field {name!r}; {suggestion(name, fields)}"
    if isinstance(selector, ModelChoice):
        for name in selector.shows:
            if name not in fields:
                yield f"shows: no field {name!r}; {suggestion(name, fields)}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"


def _type_name(type_: Any) -> str:
    return type_.__name__ if isinstance(type_, type) else str(type_)
