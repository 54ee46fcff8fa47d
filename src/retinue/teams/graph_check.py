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
from .graph_plan import WHOLE_STATE, RolePlan, reach_of
from .role import END, START, HumanGate, Role, as_tool, is_json_speaker, takes_text
from .selectors import ModelChoice, When
from .shared_state import OWN, UNSET, StateField
from .state_expression import list_field_names

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
        return
    named = [*_find_edge_problems(outline), *_find_branch_problems(outline)]
    yield from named
    if not named:
        yield from _find_path_problems(outline)


def _find_edge_problems(outline: GraphOutline) -> Iterator[GraphProblem]:
    seen = set[tuple[str, str, bool]]()
    for index, (head, tail, on_error) in enumerate(outline.edges):
        yield from _name_problems(outline.roles, ("edge", index), head, [tail])
        if on_error and head == START:
            yield GraphProblem(("edge", index, "head"), f"{START} cannot fail, so it has no edge for errors")
        if (head, tail, on_error) in seen:
            yield GraphProblem(("edge", index), f"there are two edges from {head!r} to {tail!r}")
        seen.add((head, tail, on_error))


def _find_branch_problems(outline: GraphOutline) -> Iterator[GraphProblem]:
    for index, (head, tails) in enumerate(outline.branches):
        where: Where = ("branch", index)
        yield from _name_problems(outline.roles, where, head, tails)
        if not tails:
            yield GraphProblem((*where, "tails"), f"the conditional edges from {head!r} have no candidates")
        certain = {tail for one, tail, on_error in outline.edges if one == head and not on_error}
        for tail in dict.fromkeys(tails):
            if tail in certain:
                both = f"{tail!r} follows {head!r} by an edge, so it cannot be a candidate, too"
                yield GraphProblem((*where, "tails"), both)


def _name_problems(roles: Sequence[str], where: Where, head: str, tails: Iterable[str]) -> Iterator[GraphProblem]:
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
    tails: dict[str, list[str]] = {name: [] for name in (START, *outline.roles)}
    for head, tail, _ in outline.edges:
        tails[head].append(tail)
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
        elif END not in reach[name] and _can_go_on(name, reach, tails):
            yield GraphProblem(("role", index), f"there is no way from the role {name!r} to {END}")
    yield from _find_cycle_problems(outline)


def _can_go_on(name: str, reach: Mapping[str, frozenset[str]], tails: Mapping[str, list[str]]) -> bool:
    """Return whether no role after `name` is a dead end, which is reported by itself."""
    return all(tails[one] for one in reach[name] if one != END)


def _find_cycle_problems(outline: GraphOutline) -> Iterator[GraphProblem]:
    graph = {name: [t for h, t, on_error in outline.edges if h == name and not on_error] for name in outline.roles}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle = error.args[1][::-1]
        first = outline.roles.index(circle[-1])
        shown = " → ".join(circle)
        yield GraphProblem(("role", first), f"{shown} never ends; make one of these edges conditional")


@dataclass(slots=True)
class RolePlans:
    """Roles as plan_roles so far, their tools, the fields of the state, and what is wrong."""

    fields: dict[str, StateField]
    roles: dict[str, RolePlan] = field(default_factory=dict)
    tools: list[Tool] = field(default_factory=list)
    problems: list[GraphProblem] = field(default_factory=list)


def plan_roles(roles: Sequence[Role | HumanGate], declared: Mapping[str, StateField], max_visits: int) -> RolePlans:
    """Plan all roles."""
    kinds = {role.name: StateField(dict) if isinstance(role, HumanGate) else StateField() for role in roles}
    fields = {name: kinds.get(name, StateField()) for role in roles for name in role.writes}
    found = RolePlans({**OWN, **fields, **declared})
    for index, role in enumerate(roles):
        where = ("role", index)
        visits = role.max_visits or max_visits
        plan = RolePlan(role.name, role.writes, visits)
        if isinstance(role, HumanGate):
            asked = role.question or f"{role.name}: shall it go on?"
            plan = replace(plan, reads=(role.shows,) if role.shows else None, speaks_json=True, gate=asked)
        else:
            found.tools.append(as_tool(role))
            plan = replace(plan, speaks_json=is_json_speaker(role.something))
            try:
                plan = _Reader(role, found.tools[-1], found.fields).read(plan)
            except UsageError as error:
                found.problems.append(GraphProblem(where, f"role {role.name}: {error}"))
        found.problems += [
            GraphProblem(where, f"role {role.name}: {one}") for one in _find_field_problems(role, plan, found)
        ]
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
            return self._plan_text(plan)
        parameters = list(self.tool.signature.parameters.get("properties", {}))
        needed = self.tool.signature.parameters.get("required", [])
        takes = self._plan_arguments(parameters, needed)
        if takes is None:
            text = bool(self.tool.signature.text_argument)
            return plan if text else replace(plan, parameter=(needed or parameters)[0])
        if not takes:
            return replace(plan, reads=())
        optional = tuple(name for parameter, name in takes.items() if parameter not in needed)
        return replace(plan, takes=takes, optional=optional)

    def _plan_text(self, plan: RolePlan) -> RolePlan:
        given = self.role.input
        if isinstance(given, Mapping):
            raise UsageError("input: it takes one text, so want a field, or a list of fields")
        if given is None:
            return plan
        reads = (given,) if isinstance(given, str) else tuple(given)
        return replace(plan, reads=reads, optional=reads if len(reads) > 1 else ())

    def _plan_arguments(self, parameters: Sequence[str], needed: Sequence[str]) -> dict[str, str] | None:
        """Return the fields by parameter; `None` for a function of what the roles before it said."""
        given = self.role.input
        if isinstance(given, str):
            one = given if given in parameters else next(iter(needed or parameters), "")
            if len(needed) > 1 or not one:
                raise UsageError(f"input: it takes {', '.join(parameters) or 'nothing'}; want fields by parameter")
            return {one: given}
        if given is not None:
            takes = dict(given) if isinstance(given, Mapping) else {name: name for name in given}
            if wrong := [name for name in takes if name not in parameters]:
                raise UsageError(f"input: no parameter {wrong[0]!r}; {suggest_name(wrong[0], parameters)}")
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


def _find_field_problems(role: Role | HumanGate, plan: RolePlan, found: RolePlans) -> Iterator[str]:
    """Yield what a role reads or writes that is not there or is of another type."""
    own = [name for name in plan.writes if name in OWN]
    for name in own:
        yield f"output: the field {name!r} is kept by the graph; choose another name"
    reads = [*(plan.reads or ()), *plan.takes.values()]
    for name in dict.fromkeys(reads):
        if name not in found.fields and name != WHOLE_STATE:
            yield f"input: no field {name!r}; {suggest_name(name, found.fields)}"
    if isinstance(role, HumanGate):
        return
    yield from _find_type_problems(found.tools[-1], plan, found.fields)
    if is_json_speaker(role.something) and len(plan.writes) == 1 and not own:
        kind = _return_type(role.something)
        to = found.fields[plan.writes[0]]
        if kind in _SAMPLES and to.reducer in ("replace", "merge") and describe_mismatch(_SAMPLES[kind], to.type):
            yield f"it returns {kind.__name__}, and its field {plan.writes[0]!r} holds {_name_type(to.type)}"


def _find_type_problems(tool: Tool, plan: RolePlan, fields: Mapping[str, StateField]) -> Iterator[str]:
    properties: Mapping[str, Any] = tool.signature.parameters.get("properties", {}) if plan.takes else {}
    for parameter, name in plan.takes.items():
        wanted = _JSON.get(str(properties.get(parameter, {}).get("type")))
        kind = fields[name].type if name in fields else None
        kind = get_origin(kind) or kind
        if wanted is None or kind not in _SAMPLES:
            continue
        if describe_mismatch(_SAMPLES[kind], wanted):
            yield f"its parameter {parameter!r} wants {wanted.__name__}, and the field {name!r} holds {kind.__name__}"


def _return_type(function: Any) -> Any:
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


def find_selector_problems(
    selector: When | ModelChoice | None, tails: Mapping[str, str], fields: Mapping[str, StateField]
) -> Iterator[str]:
    """Yield the fields and candidates that a selector names and that are not there."""
    if isinstance(selector, When):
        wanted = [to for _, to in selector.cases] + ([selector.otherwise] if selector.otherwise else [])
        for word in dict.fromkeys(wanted):
            if word not in tails:
                yield f"{word!r} is no candidate; {suggest_name(word, tails)}"
        for name in dict.fromkeys(name for tree in selector.trees for name in list_field_names(tree)):
            if name not in fields:
                yield f"no field {name!r}; {suggest_name(name, fields)}"
    if isinstance(selector, ModelChoice):
        for name in selector.shows:
            if name not in fields:
                yield f"shows: no field {name!r}; {suggest_name(name, fields)}"


def _name_type(type_: Any) -> str:
    return type_.__name__ if isinstance(type_, type) else str(type_)
