"""Checks a graph: its structure, by the names of its roles alone, so that a file can be checked before it is built; and
how each role reads and writes the state, which is planned here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple, get_origin, get_type_hints

from .._internal.message_text import suggest_name
from .._internal.type_check import describe_mismatch
from ..core.tools.tool import Tool
from ..errors import UsageError
from .graph_flow import WHOLE_STATE, GraphPlan, RolePlan, reach_of
from .role import END, START, HumanGate, Role, as_tool, is_json_speaker, takes_text
from .selectors import ModelChoice, When
from .shared_state import OWN, UNSET, StateField, name_type

Where = tuple[str | int, ...]
_JSON = {"string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict}
_SAMPLES = {str: "", int: 0, float: 0.5, bool: True, list: [], dict: {}}


class GraphProblem(NamedTuple):
    """A mistake in a graph. `where` is `("role", index)`, `("edge", index, "head" or "tail")`, `("branch", index, …)`
    or `()` for the graph itself."""

    where: Where
    message: str


@dataclass(frozen=True, slots=True)
class GraphOutline:
    """A graph by names: its roles, its edges, whether each is for errors, and its conditional edges."""

    roles: Sequence[str]
    edges: Sequence[tuple[str, str, bool]]
    branches: Sequence[tuple[str, Sequence[str]]]


def find_structure_problems(outline: GraphOutline) -> Iterator[GraphProblem]:
    """Yield everything that is wrong with the structure of a graph."""
    seen = set[str]()
    for index, name in enumerate(outline.roles):
        if name in seen:
            yield GraphProblem(("role", index), f"two roles are called {name!r}; give one of them another name")
        seen.add(name)
    if not outline.roles:
        yield GraphProblem((), "there are no roles")
    elif named := [*_find_edge_problems(outline), *_find_branch_problems(outline)]:
        yield from named
    else:
        yield from _find_path_problems(outline)


def _find_edge_problems(outline: GraphOutline) -> Iterator[GraphProblem]:
    seen = set[tuple[str, str, bool]]()
    for index, edge in enumerate(outline.edges):
        head, tail, on_error = edge
        yield from _find_name_problems(outline.roles, ("edge", index), head, [tail])
        if on_error and head == START:
            yield GraphProblem(("edge", index, "head"), f"{START} cannot fail, so it has no edge for errors")
        if edge in seen:
            yield GraphProblem(("edge", index), f"there are two edges from {head!r} to {tail!r}")
        seen.add(edge)


def _find_branch_problems(outline: GraphOutline) -> Iterator[GraphProblem]:
    for index, (head, tails) in enumerate(outline.branches):
        where: Where = ("branch", index)
        yield from _find_name_problems(outline.roles, where, head, tails)
        if not tails:
            yield GraphProblem((*where, "tails"), f"the conditional edges from {head!r} have no candidates")
        certain = {tail for one, tail, on_error in outline.edges if one == head and not on_error}
        for tail in dict.fromkeys(tails):
            if tail in certain:
                both = f"{tail!r} follows {head!r} by an edge, so it cannot be a candidate, too"
                yield GraphProblem((*where, "tails"), both)


def _find_name_problems(roles: Sequence[str], where: Where, head: str, tails: Iterable[str]) -> Iterator[GraphProblem]:
    if head == END:
        yield GraphProblem((*where, "head"), f"nothing follows {END}")
    elif head != START and head not in roles:
        yield GraphProblem((*where, "head"), f"no role {head!r}; {suggest_name(head, [START, *roles])}")
    for tail in tails:
        if tail == START:
            yield GraphProblem((*where, "tail"), f"nothing leads to {START}")
        elif tail != END and tail not in roles:
            yield GraphProblem((*where, "tail"), f"no role {tail!r}; {suggest_name(tail, [*roles, END])}")


def _find_path_problems(outline: GraphOutline) -> Iterator[GraphProblem]:
    """Yield the roles that cannot be reached or cannot end, and circles without a condition."""
    certain: dict[str, list[str]] = {name: [] for name in outline.roles}
    tails: dict[str, list[str]] = {name: [] for name in (START, *outline.roles)}
    for head, tail, on_error in outline.edges:
        tails[head].append(tail)
        if not on_error and head != START:
            certain[head].append(tail)
    for head, candidates in outline.branches:
        tails[head] += candidates
    reach = reach_of(tails)
    if not tails[START]:
        yield GraphProblem((), f"nothing follows {START}; add an edge from {START} to the first role")
    for index, name in enumerate(outline.roles):
        if tails[START] and name not in reach[START]:
            yield GraphProblem(("role", index), f"the role {name!r} is never reached; add an edge to it")
        if not tails[name]:
            yield GraphProblem(("role", index), f"nothing follows the role {name!r}; add an edge, such as one to {END}")
        elif END not in reach[name] and all(tails[one] for one in reach[name]):  # a dead end is reported by itself
            yield GraphProblem(("role", index), f"there is no way from the role {name!r} to {END}")
    try:
        TopologicalSorter(certain).prepare()
    except CycleError as error:
        circle = error.args[1][::-1]
        shown = f"{' → '.join(circle)} never ends; make one of these edges conditional"
        yield GraphProblem(("role", outline.roles.index(circle[-1])), shown)


# ── how roles read and write the state ───────────────────────────────────────────────────────────


@dataclass(slots=True)
class RolePlans:
    """Planned roles, their tools, the fields of the state, and what is wrong."""

    fields: dict[str, StateField]
    roles: dict[str, RolePlan] = field(default_factory=dict)
    tools: list[Tool] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def plan_roles(roles: Sequence[Role | HumanGate], declared: Mapping[str, StateField], max_visits: int) -> RolePlans:
    """Plan all roles. A field that is not declared holds any value, or what a person decided."""
    kinds = {role.name: StateField(dict) if isinstance(role, HumanGate) else StateField() for role in roles}
    fields = {name: kinds.get(name, StateField()) for role in roles for name in role.writes}
    found = RolePlans({**OWN, **fields, **declared})
    for role in roles:
        plan = RolePlan(role.name, role.writes, role.max_visits or max_visits)
        problems: list[str] = []
        if isinstance(role, HumanGate):
            asked = role.question or f"{role.name}: shall it go on?"
            plan = replace(plan, reads={role.shows: role.shows} if role.shows else None, speaks_json=True, gate=asked)
        else:
            tool = as_tool(role)
            found.tools.append(tool)
            plan = replace(plan, speaks_json=is_json_speaker(role.something))
            try:
                plan = _plan_text(role, plan) if takes_text(role.something) else _plan_call(role, tool, plan, found)
            except UsageError as error:
                problems.append(str(error))
        problems += _find_field_problems(role, plan, found)
        found.problems += [f"role {role.name}: {one}" for one in problems]
        found.roles[role.name] = plan
    return found


def _plan_text(role: Role, plan: RolePlan) -> RolePlan:
    """Return the plan of a role that takes one text, with what it reads. Raises `UsageError`."""
    if isinstance(role.input, Mapping):
        raise UsageError("input: it takes one text, so want a field, or a list of fields")
    if role.input is None:
        return plan
    reads = (role.input,) if isinstance(role.input, str) else tuple(dict.fromkeys(role.input))
    return replace(plan, reads=dict(zip(reads, reads, strict=True)), optional=reads if len(reads) > 1 else ())


def _plan_call(role: Role, tool: Tool, plan: RolePlan, found: RolePlans) -> RolePlan:
    """Return the plan of a function, with what it reads. Raises `UsageError`."""
    parameters = list(tool.signature.parameters.get("properties", {}))
    needed = tool.signature.parameters.get("required", [])
    if role.input is not None:
        takes = _read_arguments(role.input, parameters, needed)
    else:
        takes = {name: name for name in parameters if name in found.fields or name == WHOLE_STATE}
        if unknown := [name for name in needed if name not in takes]:
            takes = {}
        if not takes and len(needed or parameters) == 1:  # it gets what the roles before it said
            text = bool(tool.signature.text_argument)
            return plan if text else replace(plan, parameter=(needed or parameters)[0])
        if unknown:
            raise UsageError(f"its parameter {unknown[0]!r} is no field of the state; say input={{{unknown[0]!r}: …}}")
    optional = tuple(name for parameter, name in takes.items() if parameter not in needed)
    return replace(plan, reads=takes, by_name=True, optional=optional)


def _read_arguments(given: Any, parameters: Sequence[str], needed: Sequence[str]) -> dict[str, str]:
    """Return the fields by parameter that a role's `input` means. Raises `UsageError`."""
    if isinstance(given, str):
        one = given if given in parameters else next(iter(needed or parameters), "")
        if len(needed) > 1 or not one:
            raise UsageError(f"input: it takes {', '.join(parameters) or 'nothing'}; want fields by parameter")
        return {one: given}
    takes = dict(given) if isinstance(given, Mapping) else {name: name for name in given}
    if wrong := [name for name in takes if name not in parameters]:
        raise UsageError(f"input: no parameter {wrong[0]!r}; {suggest_name(wrong[0], parameters)}")
    if lacking := [name for name in needed if name not in takes]:
        raise UsageError(f"input: its parameter {lacking[0]!r} gets nothing; name a field for it")
    return takes


def _find_field_problems(role: Role | HumanGate, plan: RolePlan, found: RolePlans) -> Iterator[str]:
    """Yield what a role reads or writes that is not there or is of another type."""
    own = [name for name in plan.writes if name in OWN]
    for name in own:
        yield f"output: the field {name!r} is kept by the graph; choose another name"
    for name in dict.fromkeys((plan.reads or {}).values()):
        if name not in found.fields and name != WHOLE_STATE:
            yield f"input: no field {name!r}; {suggest_name(name, found.fields)}"
    if isinstance(role, HumanGate):
        return
    yield from _find_type_problems(found.tools[-1], plan, found.fields)
    if is_json_speaker(role.something) and len(plan.writes) == 1 and not own:
        kind = _find_return_type(role.something)
        to = found.fields[plan.writes[0]]
        if kind in _SAMPLES and to.reducer in ("replace", "merge") and describe_mismatch(_SAMPLES[kind], to.type):
            yield f"it returns {kind.__name__}, and its field {plan.writes[0]!r} holds {name_type(to.type)}"


def _find_type_problems(tool: Tool, plan: RolePlan, fields: Mapping[str, StateField]) -> Iterator[str]:
    properties: Mapping[str, Any] = tool.signature.parameters.get("properties", {})
    for parameter, name in (plan.reads or {}).items() if plan.by_name else ():
        wanted = _JSON.get(str(properties.get(parameter, {}).get("type")))
        kind = fields[name].type if name in fields else None
        kind = get_origin(kind) or kind
        if wanted is not None and kind in _SAMPLES and describe_mismatch(_SAMPLES[kind], wanted):
            yield f"its parameter {parameter!r} wants {wanted.__name__}, and the field {name!r} holds {kind.__name__}"


def _find_return_type(function: Any) -> Any:
    try:
        hint = get_type_hints(function).get("return")
    except (TypeError, NameError):
        return None
    return get_origin(hint) or hint


# ── the graph as a whole ─────────────────────────────────────────────────────────────────────────


def find_unset_reads(plan: GraphPlan) -> Iterator[str]:
    """Yield the roles that read a field which is certainly not set when they run."""
    preset = {WHOLE_STATE, *OWN, *(name for name, one in plan.fields.items() if one.initial is not UNSET)}
    for name, role in plan.roles.items():
        there = {one for other in plan.roles if name in plan.reach[other] for one in plan.roles[other].writes} | preset
        for one in dict.fromkeys((role.reads or {}).values()):
            if one in plan.fields and one not in there and one not in role.optional:
                yield f"role {name}: it reads the field {one!r}, which nothing before it sets"


def find_selector_problems(plan: GraphPlan) -> Iterator[str]:
    """Yield the fields and candidates that selectors name and that are not there."""
    for branch in plan.branches:
        where, selector = f"the conditional edges from {branch.head!r}", branch.selector
        if isinstance(selector, When):
            wanted = [to for _, to in selector.cases] + ([selector.otherwise] if selector.otherwise else [])
            for word in dict.fromkeys(wanted):
                if word not in branch.tails:
                    yield f"{where}: {word!r} is no candidate; {suggest_name(word, branch.tails)}"
            for name in dict.fromkeys(name for one in selector.expressions for name in one.fields):
                if name not in plan.fields:
                    yield f"{where}: no field {name!r}; {suggest_name(name, plan.fields)}"
        if isinstance(selector, ModelChoice):
            for name in selector.shows:
                if name not in plan.fields:
                    yield f"{where}: shows: no field {name!r}; {suggest_name(name, plan.fields)}"
