"""`GraphFlow`: the strategy that walks a compiled graph. Its state is a fold over what the roles said.

Each round runs all roles that are ready, side by side. A role that an edge led to is ready when all its heads have led
to it, or when none of the others can any more, because nothing that is still to run leads there. Gates wait until no
other role is ready, so a person is asked when nothing else can be done.

Below the walk: what a role gets from the state or from the roles before it, and what its observation or a person's
decision means.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ..core.protocols import Flow, Request, Sent, Task, act, consult
from ..core.values import AgentAction, AgentFinish, Decision, Observation, StopReason, ToolInput
from .graph_plan import WHOLE_STATE, Branch, GraphPlan, RolePlan, reach_of
from .role import END, START
from .selectors import ModelChoice, When, ask_for_choice, find_word
from .shared_state import (
    ERRORS,
    HISTORY,
    QUESTION,
    VISITS,
    StateError,
    StateField,
    Values,
    as_words,
    build_initial_state,
    read_value,
    replace_field,
    write_field,
)
from .state_expression import ExpressionError

T = TypeVar("T")
Part = Generator[Request, Sent, T]
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
        own = {QUESTION: task.question, HISTORY: history, ERRORS: {}, VISITS: {}}
        self._values = build_initial_state(plan.fields, **own)
        self._said: dict[str, Any] = {START: task.question}
        self._pending: dict[str, list[str]] = {}  # by role, the heads that led to it since it last ran
        self._decided: dict[str, tuple[Decision, str]] = {}  # by gate, the last decision and the field it is about
        self._last, self._last_failed = START, False  # what led to the end

    def walk(self) -> Flow:
        """Run roles until none is left."""
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
        ready = [name for name, others in waits.items() if not others] or [_find_first_of_circle(waits)]
        roles = [self._plan.roles[name] for name in ready]
        return [role for role in roles if role.gate is None] or roles[:1]

    def _list_awaited(self, name: str) -> set[str]:
        """Return the pending roles after which a head that has not led to `name` yet may still do so."""
        missing = self._plan.heads[name] - set(self._pending[name]) - {name}
        others = [one for one in self._pending if one != name]
        return {one for one in others if one in missing or not missing.isdisjoint(self._plan.reach[one])}

    def _run_round(self, roles: Sequence[RolePlan]) -> Part[None]:
        outputs: list[Output] = []
        heads = {role.name: self._count_visit(role, len(roles)) for role in roles}
        if roles[0].gate is not None:
            outputs = [(yield from self._ask_person(roles[0], heads[roles[0].name]))]
        else:
            outputs = yield from self._run_roles(roles, heads)
        failed = []
        for role, output in zip(roles, outputs, strict=True):
            output = self._store_value(role, output)
            self._said[role.name] = output.value if output.said is None else output.said
            failed += [(role, output)] if output.failed else []
        self._check_failures(failed)
        gone = [role.name for role, _ in failed]
        for role in roles:
            yield from self._follow_edges(role.name, failed=role.name in gone)

    def _count_visit(self, role: RolePlan, count: int) -> list[str]:
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
            except InputProblem as problem:
                outputs[role.name] = Output(str(problem), failed=True)
        if actions:
            observations = yield from act(*actions.values(), answer=self._answer())
            seen = zip(actions, observations, strict=True)
            outputs |= {name: read_observation(self._plan.roles[name], one) for name, one in seen}
        return [outputs[role.name] for role in roles]

    def _ask_person(self, role: RolePlan, heads: list[str]) -> Part[Output]:
        """Ask a person."""
        before = self._plan.roles.get(heads[-1])
        (field,) = role.reads or ((before.writes[0],) if before else (QUESTION,))
        shown = self._values.get(field) if role.reads else self._said[heads[-1]]
        decision = yield from consult(AgentAction(role.name, as_words(shown)), role.gate or f"{role.name}: go on?")
        self._decided[role.name] = decision, field
        leads_on = bool(self._plan.list_branches(role.name))
        return read_decision(decision, leads_on=leads_on, field=field, shown=shown)

    def _store_value(self, role: RolePlan, output: Output) -> Output:
        """Write an output into the state; return it, or the failure if it does not fit."""
        if output.failed:
            errors = {**self._values[ERRORS], role.name: output.value}
            self._values = {**self._values, ERRORS: errors}
            return output
        try:
            self._values = store_output(role, output, self._values, self._plan.fields)
        except StateError as error:
            return self._store_value(role, Output(str(error), failed=True))
        return output

    def _check_failures(self, failed: Iterable[tuple[RolePlan, Output]]) -> None:
        """Raise `_End` unless edges for errors lead on from all roles that failed."""
        lost = [(role, output) for role, output in failed if not self._plan.list_tails(role.name, failed=True)]
        if lost:
            raise _end_by_failure([(role, output.value) for role, output in lost])

    # ── following edges ──────────────────────────────────────────────────────────────────────────

    def _follow_edges(self, head: str, *, failed: bool = False) -> Part[None]:
        """Follow the edges from `head`."""
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
                words = self._read_words(seen, where)
        named = [find_word(word) for word in (words if isinstance(words, list) else [words])]
        if unknown := [word for word in named if word not in branch.tails]:
            raise _End(f"{where}: {unknown[0]!r:.80} was selected; there are: {', '.join(branch.tails)}")
        return [branch.tails[word] for word in dict.fromkeys(named)]

    def _read_words(self, seen: Observation, where: str) -> Any:
        output = read_observation(_SELECTOR, seen)
        if output.failed:
            raise _End(f"{where}: {output.value}")
        return output.value


def _end_by_failure(failed: Sequence[tuple[RolePlan, str]]) -> _End:
    """Return the end of a walk that these roles' failures end."""
    problem = "; ".join(f"the role {role.name!r} failed: {why}" for role, why in failed)
    return _End(problem, refused=any(role.gate is not None for role, _ in failed))


def _find_first_of_circle(waits: dict[str, set[str]]) -> str:
    """Return the first role that waits for none but those that wait for it, too."""
    after = reach_of({name: list(others) for name, others in waits.items()})
    return next(name for name in waits if all(name in after[one] for one in after[name]))


# ── what a role gets ──────────────────────────────────────────────────────────────────────────────


class InputProblem(Exception):
    """A field that a role reads is not set."""


def read_input(role: RolePlan, values: Values, said: Mapping[str, Any]) -> ToolInput:
    """Return the input of a role's tool. `said` is what the roles that led to it said. Raises `InputProblem`."""
    if role.takes:
        return {name: value for name, field in role.takes.items() for value in _read_field(role, field, values)}
    if role.reads == ():
        return {}
    if role.reads is not None:
        read = {name: value for name in role.reads for value in _read_field(role, name, values)}
        return _label_values(read) if len(role.reads) > 1 else as_words(*read.values())
    if role.parameter:
        return {role.parameter: next(iter(said.values())) if len(said) == 1 else dict(said)}
    return _label_values(said) if len(said) > 1 else as_words(*said.values())


def _read_field(role: RolePlan, field: str, values: Values) -> list[Any]:
    """Return a field's value in a list, which is empty if it is not set and need not be."""
    if field == WHOLE_STATE and field not in values:
        return [dict(values)]
    if field in values:
        return [values[field]]
    if field in role.optional:
        return []
    raise InputProblem(f"it reads the field {field!r}, which is not set")


def _label_values(values: Mapping[str, Any]) -> str:
    return "\n\n".join(f"{name}: {as_words(value)}" for name, value in values.items())


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
    new = dict(values)
    if output.edited is not None:
        new = replace_field(new, fields, *output.edited)
    if len(role.writes) == 1:
        return write_field(new, fields, role.writes[0], _parse_value(role, output.value, fields[role.writes[0]]))
    value = _parse_mapping(role, output.value)
    for name in role.writes:
        if name not in value:
            raise StateError(f"its value has no {name!r}; it writes {', '.join(role.writes)}")
        new = write_field(new, fields, name, value[name])
    return new


def _parse_value(role: RolePlan, value: Any, field: StateField) -> Any:
    return value if role.speaks_json or not isinstance(value, str) else read_value(value, field)


def _parse_mapping(role: RolePlan, value: Any) -> Mapping[str, Any]:
    if isinstance(value, str):
        value = read_value(value, StateField(dict))
    if not isinstance(value, Mapping):
        wanted = ", ".join(role.writes)
        raise StateError(f"want a mapping with {wanted}, not {json.dumps(value)[:60]}")
    return value
