"""A compiled graph: `GraphPlan`, which is plain data, and `GraphFlow`, the strategy that walks it. The state is a fold
over what the roles said.

Each round runs all roles that are ready, side by side. A role that an edge led to is ready when all its heads have led
to it, or when none of the others can any more, because nothing that is still to run leads there. Gates wait until no
other role is ready, so a person is asked when nothing else can be done.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from ..core.protocols import Flow, Request, Sent, Task, act, consult
from ..core.values import AgentAction, AgentFinish, Decision, Observation, StopReason, ToolInput
from .role import END, START
from .selectors import ExpressionError, ModelChoice, When, ask_for_choice, find_word
from .shared_state import (
    ERRORS,
    HISTORY,
    QUESTION,
    UNSET,
    VISITS,
    StateError,
    StateField,
    Values,
    as_words,
    read_value,
    replace_field,
    write_field,
)

WHOLE_STATE = "state"
T = TypeVar("T")
Part = Generator[Request, Sent, T]


@dataclass(frozen=True, slots=True)
class RolePlan:
    """A role in a plan.

    Args:
        reads: The fields that it reads, by label or parameter, where `WHOLE_STATE` stands for the whole state; `None`:
            what the roles before it said.
        by_name: Whether it gets the fields as arguments by name, as functions do, and not as one text.
        parameter: The only parameter of a function that gets what the roles before it said.
        optional: The fields that may be unset.
        gate: The question for a person who decides, if this is a human gate.
    """

    name: str
    writes: tuple[str, ...]
    max_visits: int
    reads: Mapping[str, str] | None = None
    by_name: bool = False
    parameter: str = ""
    optional: tuple[str, ...] = ()
    speaks_json: bool = False
    gate: str | None = None


@dataclass(frozen=True, slots=True)
class Branch:
    """Conditional edges from `head`. `tails` has the candidates by the word that selects them.

    A function is called as the tool `tool`; otherwise `selector` chooses.
    """

    head: str
    tails: Mapping[str, str]
    selector: When | ModelChoice | None = None
    tool: str = ""


@dataclass(frozen=True)
class GraphPlan:
    """A compiled graph."""

    name: str
    roles: Mapping[str, RolePlan]
    edges: tuple[tuple[str, str], ...]
    error_edges: tuple[tuple[str, str], ...] = ()
    branches: tuple[Branch, ...] = ()
    fields: Mapping[str, StateField] = field(default_factory=dict)
    answer: str = ""
    max_runs: int = 100

    def list_tails(self, head: str, *, failed: bool = False) -> list[str]:
        """Return where the edges from `head` lead, or those for errors."""
        return [tail for one, tail in (self.error_edges if failed else self.edges) if one == head]

    def list_branches(self, head: str) -> list[Branch]:
        """Return the conditional edges from `head`."""
        return [branch for branch in self.branches if branch.head == head]

    @cached_property
    def heads(self) -> Mapping[str, frozenset[str]]:
        """By role, what leads to it."""
        return {name: frozenset(head for head, tail in self.list_links() if tail == name) for name in self.roles}

    @cached_property
    def reach(self) -> Mapping[str, frozenset[str]]:
        """By role, the roles that may run after it."""
        return reach_of({head: [tail for one, tail in self.list_links() if one == head] for head in self.roles})

    def list_links(self) -> Iterator[tuple[str, str]]:
        """Yield every edge of any kind, as head and tail."""
        yield from self.edges
        yield from self.error_edges
        for branch in self.branches:
            yield from ((branch.head, tail) for tail in branch.tails.values())


def reach_of(tails: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    """Return by node the nodes that can be reached from it in one step or more."""
    reach: dict[str, frozenset[str]] = {}
    for name in tails:
        found: set[str] = set()
        new = list(tails[name])
        while new:
            if (one := new.pop()) not in found:
                found.add(one)
                new += tails.get(one, ())
        reach[name] = frozenset(found - {START})
    return reach


# ── the walk ─────────────────────────────────────────────────────────────────────────────────────

_SELECTOR = RolePlan("selector", (), 1, speaks_json=True)


@dataclass(frozen=True)
class GraphFlow:
    """The strategy of a compiled graph. `plan` says what leads to what."""

    plan: GraphPlan
    name: str = "graph"

    def __call__(self, task: Task) -> Flow:
        """Walk the graph once."""
        return _Walk(self.plan, task).walk()


class _End(Exception):
    """The walk ends here, without an answer. `refused`: a person did not approve of what there is of one."""

    def __init__(self, problem: str, reason: StopReason = StopReason.ERROR, *, refused: bool = False) -> None:
        super().__init__(problem)
        self.reason = reason
        self.refused = refused


class _Walk:
    """One walk through a graph."""

    def __init__(self, plan: GraphPlan, task: Task) -> None:
        self._plan = plan
        history = [{"role": one.role, "content": one.content} for one in task.history]
        begin = {name: one.initial for name, one in plan.fields.items() if one.initial is not UNSET}
        self._values = begin | {QUESTION: task.question, HISTORY: history, ERRORS: {}, VISITS: {}}
        self._said: dict[str, Any] = {START: task.question}
        self._pending: dict[str, list[str]] = {}  # by role, the heads that led to it since it last ran
        self._decided: dict[str, tuple[Decision, str]] = {}  # by gate, the last decision and the field it is about
        self._last, self._last_failed = START, False  # what led to the end

    def walk(self) -> Flow:
        try:
            yield from self._follow_edges(START)
            while self._pending:
                yield from self._run_round(self._list_ready_roles())
            answer = self._find_final_answer()
        except _End as end:
            best = "" if end.refused else self._answer()
            return AgentFinish({"problem": str(end), "best": best, "state": self._values}, reason=end.reason)
        return AgentFinish({"output": answer, "state": self._values})

    def _answer(self) -> str:
        """Return the field of the answer, or what was said last."""
        value = self._values.get(self._plan.answer)
        return as_words(self._said[self._last] if value is None and self._last != START else value or "")

    def _find_final_answer(self) -> str:
        """Return the answer at the end of the walk. Raises `_End` if what led there is a person's refusal, or a failure
        that leaves no answer."""
        last = self._plan.roles.get(self._last)
        if last is None:
            return self._answer()
        if self._last_failed and (last.gate is not None or self._values.get(self._plan.answer) is None):
            raise _end_by_failure([(last, self._values[ERRORS][last.name])])
        if last.gate is not None:
            decision, field = self._decided[last.name]
            if decision.kind == "reject":
                raise _end_by_failure([(last, describe_rejection(decision))])
            if decision.kind == "respond" and field == self._plan.answer:
                return decision.message
        return self._answer()

    # ── what runs next ───────────────────────────────────────────────────────────────────────────

    def _list_ready_roles(self) -> list[RolePlan]:
        """Return the roles of the next round, in the order of the group."""
        waits = {name: self._list_awaited(name) for name in self._plan.roles if name in self._pending}
        ready = [name for name, others in waits.items() if not others]
        if not ready:  # the first that waits for none but those that wait for it, too
            after = reach_of(waits)
            ready = [next(name for name in waits if all(name in after[one] for one in after[name]))]
        roles = [self._plan.roles[name] for name in ready]
        return [role for role in roles if role.gate is None] or roles[:1]

    def _list_awaited(self, name: str) -> set[str]:
        """Return the pending roles after which a head that has not led to `name` yet may still do so."""
        missing = self._plan.heads[name] - set(self._pending[name]) - {name}
        others = [one for one in self._pending if one != name]
        return {one for one in others if one in missing or not missing.isdisjoint(self._plan.reach[one])}

    def _run_round(self, roles: Sequence[RolePlan]) -> Part[None]:
        heads = {role.name: self._count_visit(role) for role in roles}
        if roles[0].gate is not None:
            outputs = [(yield from self._ask_person(roles[0], heads[roles[0].name]))]
        else:
            outputs = yield from self._run_roles(roles, heads)
        failed: list[tuple[RolePlan, Output]] = []
        for role, output in zip(roles, outputs, strict=True):
            output = self._store_output(role, output)
            self._said[role.name] = output.value if output.said is None else output.said
            failed += [(role, output)] if output.failed else []
        if lost := [one for one in failed if not self._plan.list_tails(one[0].name, failed=True)]:
            raise _end_by_failure([(role, output.value) for role, output in lost])  # no edges for errors lead on
        gone = [role.name for role, _ in failed]
        for role in roles:
            yield from self._follow_edges(role.name, failed=role.name in gone)

    def _count_visit(self, role: RolePlan) -> list[str]:
        """Count a visit, and return the heads that led to it. Raises `_End` at a limit."""
        visits = {**self._values[VISITS], role.name: self._values[VISITS].get(role.name, 0) + 1}
        over = StopReason.MAX_ITERATION_EXCEEDED
        if visits[role.name] > role.max_visits:
            raise _End(f"the role {role.name!r} ran {role.max_visits} times, which is its limit (max_visits)", over)
        if sum(visits.values()) > self._plan.max_runs:
            raise _End(f"the graph's roles ran {self._plan.max_runs} times, which is its limit (max_runs)", over)
        self._values = {**self._values, VISITS: visits}
        return self._pending.pop(role.name)

    # ── running roles ────────────────────────────────────────────────────────────────────────────

    def _run_roles(self, roles: Sequence[RolePlan], heads: dict[str, list[str]]) -> Part[list[Output]]:
        """Run the roles side by side; one whose input is missing fails without being run."""
        actions: dict[str, AgentAction] = {}
        outputs: dict[str, Output] = {}
        for role in roles:
            try:
                said = {head: self._said[head] for head in heads[role.name]}
                actions[role.name] = AgentAction(role.name, read_input(role, self._values, said))
            except StateError as problem:
                outputs[role.name] = Output(str(problem), failed=True)
        if actions:
            observations = yield from act(*actions.values(), answer=self._answer())
            seen = zip(actions, observations, strict=True)
            outputs |= {name: read_observation(self._plan.roles[name], one) for name, one in seen}
        return [outputs[role.name] for role in roles]

    def _ask_person(self, role: RolePlan, heads: list[str]) -> Part[Output]:
        before = self._plan.roles.get(heads[-1])
        (field,) = role.reads or ((before.writes[0],) if before else (QUESTION,))
        shown = self._values.get(field) if role.reads else self._said[heads[-1]]
        decision = yield from consult(AgentAction(role.name, as_words(shown)), role.gate or f"{role.name}: go on?")
        self._decided[role.name] = decision, field
        leads_on = bool(self._plan.list_branches(role.name))
        return read_decision(decision, leads_on=leads_on, field=field, shown=shown)

    def _store_output(self, role: RolePlan, output: Output) -> Output:
        """Write an output into the state; return it, or the failure if it does not fit."""
        if not output.failed:
            try:
                self._values = store_output(role, output, self._values, self._plan.fields)
                return output
            except StateError as error:
                output = Output(str(error), failed=True)
        errors = {**self._values[ERRORS], role.name: output.value}
        self._values = {**self._values, ERRORS: errors}
        return output

    # ── following edges ──────────────────────────────────────────────────────────────────────────

    def _follow_edges(self, head: str, *, failed: bool = False) -> Part[None]:
        for tail in self._plan.list_tails(head, failed=failed):
            self._follow_edge(head, tail, failed=failed)
        for branch in () if failed else self._plan.list_branches(head):
            for tail in (yield from self._select_tails(branch)):
                self._follow_edge(head, tail)

    def _follow_edge(self, head: str, tail: str, *, failed: bool = False) -> None:
        if tail == END:
            self._last, self._last_failed = head, failed
        elif head not in self._pending.setdefault(tail, []):
            self._pending[tail].append(head)

    def _select_tails(self, branch: Branch) -> Part[list[str]]:
        """Return the candidates that a selector chose. Raises `_End` if it chose none of them."""
        where = f"the conditional edges from {branch.head!r}"
        match branch.selector:
            case When():
                try:
                    words: Any = branch.selector.select_target(self._values)
                except ExpressionError as error:
                    raise _End(f"{where}: {error}") from None
            case ModelChoice():
                words = yield from ask_for_choice(branch.selector, branch.tails, self._values)
                if not words:
                    problem = f"{where}: the model named none of {', '.join(branch.tails)}"
                    raise _End(problem, StopReason.UNREADABLE_REPLY)
            case _:
                (seen,) = yield from act(AgentAction(branch.tool, {"state": dict(self._values)}), answer=self._answer())
                output = read_observation(_SELECTOR, seen)
                if output.failed:
                    raise _End(f"{where}: {output.value}")
                words = output.value
        named = [find_word(word) for word in (words if isinstance(words, list) else [words])]
        if unknown := [word for word in named if word not in branch.tails]:
            raise _End(f"{where}: {unknown[0]!r:.80} was selected; there are: {', '.join(branch.tails)}")
        return [branch.tails[word] for word in dict.fromkeys(named)]


def _end_by_failure(failed: Sequence[tuple[RolePlan, str]]) -> _End:
    problem = "; ".join(f"the role {role.name!r} failed: {why}" for role, why in failed)
    return _End(problem, refused=any(role.gate is not None for role, _ in failed))


# ── what a role gets ──────────────────────────────────────────────────────────────────────────────


def read_input(role: RolePlan, values: Values, said: Mapping[str, Any]) -> ToolInput:
    """Return the input of a role's tool. `said` is what the roles that led to it said. Raises `StateError`."""
    shown = said
    if role.reads is not None:
        known = {WHOLE_STATE: dict(values), **values}
        for one in role.reads.values():
            if one not in known and one not in role.optional:
                raise StateError(f"it reads the field {one!r}, which is not set")
        shown = {name: known[one] for name, one in role.reads.items() if one in known}
        if role.by_name:
            return shown
    elif role.parameter:
        return {role.parameter: next(iter(said.values())) if len(said) == 1 else dict(said)}
    if len(said if role.reads is None else role.reads) > 1:
        return "\n\n".join(f"{name}: {as_words(value)}" for name, value in shown.items())
    return as_words(*shown.values())


# ── what came of it ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Output:
    """A role's value, or why it `failed`. `said` is what the roles after it hear instead, and `edited` the new value of
    a field that a person edited."""

    value: Any
    failed: bool = False
    said: Any = None
    edited: tuple[str, Any] | None = None


def read_observation(role: RolePlan, seen: Observation) -> Output:
    """Return the output that an observation means."""
    if seen.outcome != "result":
        return Output(seen.text, failed=True)
    if not role.speaks_json:
        return Output(seen.text)
    try:
        return Output(json.loads(seen.text))
    except (ValueError, RecursionError):  # too long, or a person's words instead of it
        return Output(seen.text)


def read_decision(decision: Decision, *, leads_on: bool, field: str, shown: Any) -> Output:
    """Return the output of a human gate, which passes on what was `shown` of `field`, or what a person made of it.

    `leads_on`: edges depend on the decision, so a rejection is no failure.
    """
    if decision.kind == "reject" and not leads_on:
        return Output(describe_rejection(decision), failed=True)
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


def describe_rejection(decision: Decision) -> str:
    """Return why a role fails that a person rejected."""
    return f"a person rejected it{': ' * bool(decision.message)}{decision.message}"


def store_output(role: RolePlan, output: Output, values: Values, fields: Mapping[str, StateField]) -> dict[str, Any]:
    """Return the state with a role's output. Raises `StateError`."""
    new, value = dict(values), output.value
    if output.edited is not None:
        new = replace_field(new, fields, *output.edited)
    if len(role.writes) == 1:
        (name,) = role.writes
        read = isinstance(value, str) and not role.speaks_json
        return write_field(new, fields, name, read_value(value, fields[name]) if read else value)
    if isinstance(value, str):
        value = read_value(value, StateField(dict))
    if not isinstance(value, Mapping):
        raise StateError(f"want a mapping with {', '.join(role.writes)}, not {json.dumps(value)[:60]}")
    for name in role.writes:
        if name not in value:
            raise StateError(f"its value has no {name!r}; it writes {', '.join(role.writes)}")
        new = write_field(new, fields, name, value[name])
    return new
