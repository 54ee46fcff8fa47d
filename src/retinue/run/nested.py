"""Runs of members in their caller's process: nested runs, each with a log of its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Protocol

from .._internal.containment import describe_error
from ..core.delegation import MemberAnswer, MemberCall, Pending, answer_of, with_effects
from ..core.effects import Human
from ..core.events import Delta, Event
from ..core.protocols import Task
from ..core.run_result import RunResult, ending
from ..core.values import Decision, StopReason, Usage
from ..errors import ModelError
from .spec import RunSpec, Specified

Listener = Callable[[str, Event | Delta], None]
"""Is called with what happens in members' runs: the path of call ids to the run, such as `call_1_0/call_2_0`, and its
event."""


class NestedRun(Protocol):
    """A member's run, as `retinue.run.run.Run` has it."""

    listener: Listener | None

    def events(self) -> AsyncGenerator[Event | Delta, None]:
        """Drive it, and yield its events."""
        ...

    @property
    def result(self) -> RunResult:
        """Its outcome so far."""
        ...


@dataclass(frozen=True, slots=True)
class Earlier:
    """What a run that continues was given: its log, people's decisions by call id, and its members' logs. Calls of
    members are named by their paths."""

    log: Sequence[Event] = ()
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    children: Mapping[str, Sequence[Event]] = field(default_factory=dict)

    def of(self, call: str) -> Earlier:
        """Return what belongs to the member's run of this call."""
        inside = f"{call}/"
        return Earlier(
            self.children.get(call, ()),
            {path.removeprefix(inside): one for path, one in self.decisions.items() if path.startswith(inside)},
            {path.removeprefix(inside): one for path, one in self.children.items() if path.startswith(inside)},
        )


class NestedRuns:
    """Runs members where their caller runs, which waits for them.

    A member without a `human` asks its caller's. `children` has the logs so far, by the paths of their calls.
    """

    __slots__ = ("_earlier", "_human", "_key", "_start", "_task", "children", "listener")

    def __init__(
        self,
        start: Callable[[Specified, Task, Earlier, str], NestedRun],
        task: Task,
        key: str,
        human: Human | None,
        earlier: Earlier,
    ) -> None:
        self._start = start
        self._task = task
        self._key = key
        self._human = human
        self._earlier = earlier
        self.listener: Listener | None = None
        self.children: dict[str, tuple[Event, ...]] = {path: tuple(log) for path, log in earlier.children.items()}

    def knows(self, call: str) -> bool:
        """Whether the log of this call's run is known."""
        return call in self._earlier.children

    async def run(self, member: MemberCall) -> MemberAnswer:
        """Run the member to its end, or continue its run. Raises `Pending` if it waits for a person."""
        try:
            answer = await self._answer(member)
        except ModelError as error:  # it never said anything
            text = f"{member.tool.name} failed: {describe_error(error)}"
            answer = MemberAnswer("failed", text, Usage(runs=1), 0.0)
        return with_effects(answer, member, self.children.get(member.call, ()))

    async def _answer(self, member: MemberCall) -> MemberAnswer:
        spec: RunSpec = member.tool.something.run_spec()
        given = Given(replace(spec, budget=member.budget(spec.budget), human=spec.human or self._human))
        task = self._task if member.passes_conversation else Task(member.question)
        run = self._start(given, task, self._earlier.of(member.call), f"{self._key}/{member.call}")
        run.listener = lambda path, event: self._heard(f"{member.call}/{path}", event)
        try:
            await self._listen(member.call, run)
        finally:
            self._keep(member.call, run.result)
        result = run.result
        if result.stop_reason is StopReason.AWAITING_HUMAN:
            calls = ", ".join(f"{one.tool} ({member.call}/{one.id})" for one in result.waiting)
            raise Pending(result.stop_reason, f"{member.tool.name}: no person has decided on {calls}")
        return answer_of(member.tool.name, ending(result.events), result.usage, 0.0)

    async def _listen(self, call: str, run: NestedRun) -> None:
        async with aclosing(run.events()) as events:
            async for event in events:
                self._heard(call, event)

    def _heard(self, path: str, event: Event | Delta) -> None:
        if self.listener is not None:
            self.listener(path, event)

    def _keep(self, call: str, result: RunResult) -> None:
        self.children[call] = result.events
        self.children |= {f"{call}/{path}": log for path, log in result.children.items()}


@dataclass(frozen=True, slots=True)
class Given:
    """A specification that is given."""

    spec: RunSpec

    def run_spec(self) -> RunSpec:
        """Return it."""
        return self.spec
