"""`replay`: whether an agent still decides as a log says, without asking a model or calling a tool."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import attrgetter
from types import MappingProxyType
from typing import Any, cast

from .._internal.sync_bridge import run_blocking
from ..core.budgets import Budget, Meter
from ..core.events import (
    ENDINGS,
    Asked,
    Called,
    Compacted,
    Delta,
    Event,
    Finished,
    Judged,
    Observed,
    Paused,
    Point,
    Reported,
    Retried,
    Said,
    Stopped,
    call_of,
    find_started,
)
from ..core.hooks import Hook, Judgement, group_hooks, run_hooks
from ..core.loop.deadline import Deadline
from ..core.loop.drive import drive
from ..core.loop.judging import ASKS
from ..core.prompt import Ask
from ..core.protocols import Chunks
from ..core.run_context import RunContext, current_run, run_context
from ..core.run_result import LIMITS, RunResult
from ..core.schema.patterns import Pattern, print_gbnf
from ..core.serialization import dump
from ..core.tools.delegation import MemberCall, is_member, makes_helpers
from ..core.tools.tool import Tool
from ..core.tools.toolbox import Toolbox
from ..core.values import AgentAction, Observation, StopReason
from ..errors import LogMismatch, ModelError
from .difference import Difference, find_difference
from .recorded_effects import NumberedEvent, RecordedEffects, number_events
from .run_parts import call_for_run, describe_instructions
from .spec import RunSpec, Specified

_OUTSIDE = {  # what ends a run there is not the agent's doing
    StopReason.CANCELLED,
    StopReason.AWAITING_HUMAN,
    StopReason.AWAITING_MEMBER,
    StopReason.MAX_EXECUTION_TIME_EXCEEDED,
}
_AS_JUDGED = ("before_model", "before_tool", "before_answer")  # where a replay knows what was judged
_decided = attrgetter("tool", "tool_input", "id")
_MOST_PRINTED = 20_000  # characters of a grammar


@dataclass(frozen=True, slots=True)
class Replay:
    """How a log's run goes by now.

    Args:
        differs: The first difference, or `None`.
        requests: The requests to the model up to there.
        events: The log as it would be now, up to there.
        members: The replays of the agents that were called, by the paths of their calls.
    """

    differs: Difference | None
    requests: tuple[ModelRequest, ...]
    events: tuple[Event, ...] = ()
    members: Mapping[str, Replay] = field(default_factory=dict)

    @property
    def agrees(self) -> bool:
        """Whether everything is decided as before, also in the runs of members."""
        return self.differs is None and all(one.agrees for one in self.members.values())


@dataclass(frozen=True, slots=True)
class Recording:
    """A log to replay.

    Args:
        log: Its events with their numbers.
        budget: The run's budget; `None` if it is not known, so that only the log says where it ended the run.
        instructions: The system message; `None` for that of the agent.
        accepting: Whether other prompts, or another end, are no difference.
        kept: The last step that was another run's, of which this one is a fork; -1 if it is none.
    """

    log: Sequence[NumberedEvent]
    budget: Budget | None = None
    instructions: str | None = None
    accepting: bool = False
    kept: int = -1


def replay(
    agent: Specified, log: RunResult[Any] | Sequence[Event], *, budget: Budget | None = None, deps: Any = None
) -> Replay:
    """Run `replay_async` and block."""
    return run_blocking(replay_async(agent, log, budget=budget, deps=deps))


async def replay_async(
    agent: Specified, log: RunResult[Any] | Sequence[Event], *, budget: Budget | None = None, deps: Any = None
) -> Replay:
    """Run `agent` again on a log: a result, its `events`, or what `from_json` made of JSON lines. The log answers
    everything, and what the agent asks, does and answers is compared with it.

    `budget` is the run's, if it was not the agent's; `deps` is for functions that say which tools a run has. A
    result also has the runs of members, which are replayed, too. Raises
    `LogMismatch` if the log does not begin with `started`.
    """
    spec = agent.run_spec()
    events = log.events if isinstance(log, RunResult) else log
    children = log.children if isinstance(log, RunResult) else {}
    with run_context(replace(current_run(), deps=deps)):
        return await replay_team(spec, Recording(number_events(events), budget or spec.budget), children)


async def replay_team(spec: RunSpec, recording: Recording, children: Mapping[str, Sequence[Event]]) -> Replay:
    """Replay a run and those of its members, whose logs are `children`, by the paths of their calls. Raises
    `LogMismatch` if a member is no longer in the team, and as `replay_run` does."""
    found = await replay_run(spec, recording)
    members = {
        path: await replay_run(member, Recording(number_events(children[path]), accepting=recording.accepting))
        for path, member in _find_members(spec, [one.event for one in recording.log], children)
    }
    return replace(found, members=members)


def _find_members(
    spec: RunSpec, log: Sequence[Event], children: Mapping[str, Sequence[Event]], path: str = ""
) -> Generator[tuple[str, RunSpec], None, None]:
    """Yield the paths of the members' logs in `children`, each with the member. Raises `LogMismatch` for one that is
    no longer in the team."""
    tools = {tool.name: tool for tool in spec.tools}
    for event in log:
        if not isinstance(event, Called) or (call := f"{path}{event.action.id}") not in children:
            continue
        tool = tools.get(event.action.tool)
        if tool is None or not (is_member(tool) or makes_helpers(tool)):
            raise LogMismatch(f"{spec.name} has no member {event.action.tool!r} any more, which has the call {call}")
        member = _find_member(spec, tools, tool, event.action)
        yield call, member
        yield from _find_members(member, children[call], children, f"{call}/")


def _find_member(spec: RunSpec, tools: Mapping[str, Tool], tool: Tool, action: AgentAction) -> RunSpec:
    given = tool.signature.arguments(action.tool_input) if makes_helpers(tool) else {}
    order = tool.something.order_helper(given, tools) if given else None
    asked = tools[order.agent] if order and order.agent else tool
    return cast(RunSpec, MemberCall(asked, "", action.id, Budget, order, spec).run_spec())


async def replay_run(spec: RunSpec, recording: Recording) -> Replay:
    """Replay one run, without those of its members. Raises `LogMismatch` if the log does not begin with `started`, and
    `UsageError` if the strategy cannot begin."""
    recording = replace(recording, log=[one for one in recording.log if not isinstance(one.event, Said | Reported)])
    started = find_started(one.event for one in recording.log)
    if started is None:
        raise LogMismatch("a log must begin with the event 'started'")
    here = current_run()
    user, thread = started.user or here.user, started.thread or here.thread
    context = replace(here, user=user, thread=thread, metadata=started.metadata or here.metadata, agent=spec.name)
    if spec.tool_functions and spec.deps_of is not None and here.deps is None:
        context = replace(context, deps=await call_for_run("deps_of", spec.deps_of, context))
    with run_context(context):
        spec = await spec.complete(context, started)
    words = recording.instructions
    if words is None:
        words = describe_instructions(spec.instructions)
    effects = ComparedRun(recording, Toolbox(spec.tools, "replay").same, group_hooks(spec.hooks), context)
    # without the run's budget there are no limits: a member's share is not known any more
    lifted = Budget(None, stale_steps=None, early_stopping_method=spec.budget.early_stopping_method)
    budget = replace(recording.budget or lifted, seconds=None)  # the log says when time was up
    differs: Difference | None = None
    try:
        with suppress(ModelError):  # the log has it
            await drive(spec.begin, effects, replace(started, instructions=words), Meter(budget), Deadline())()
    except ReplayEnd as end:
        differs = end.difference
    return Replay(differs, tuple(effects.requests), tuple(effects.events))


class ReplayEnd(LogMismatch):
    """The replay ends here: at the log's end, or at a `difference`."""

    def __init__(self, found: Difference | None = None) -> None:
        super().__init__("the log ends here" if found is None else str(found))
        self.difference = found


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What a log does not hold of a request to the model.

    Args:
        event: The number of the event `asked`.
        step: Its step.
        pattern: What the reply had to look like, as a grammar in GBNF; `None` if it was free.
        schema: The same as a JSON Schema, for engines that only know these.
        stop: Texts before which the reply ends.
        tools: The tools that were offered for native calls.
        max_tokens: The limit of the reply.
    """

    event: int
    step: int
    pattern: str | None
    schema: Mapping[str, Any] | None
    stop: tuple[str, ...]
    tools: tuple[str, ...]
    max_tokens: int | None


@lru_cache(16)
def _print_grammar(pattern: Pattern) -> str:
    text = print_gbnf(pattern)
    return text if len(text) <= _MOST_PRINTED else f"{text[:_MOST_PRINTED]}\n# … {len(text):,} characters in all"


class ComparedRun(RecordedEffects):
    """Compares what the run does with its `recording`, and touches nothing outside. Raises `ReplayEnd` where the log
    ends, and where the run differs from it. `same`: whether two calls are equal. `hooks` judge what the log has, in
    `context`, and their verdicts are compared.

    `requests` are those so far, and `events` is the log as it would be now.
    """

    def __init__(
        self,
        recording: Recording,
        same: Callable[[AgentAction, AgentAction], bool],
        hooks: Mapping[Point, Sequence[Hook]] = MappingProxyType({}),
        context: RunContext[Any] = RunContext(),
    ) -> None:
        log = recording.log
        end = log[-1].event if log else None
        self._end = end if isinstance(end, ENDINGS) else None
        self._last = log[-1].number if log else 0
        super().__init__(log if self._end is None else log[:-1], recording.kept, hooks)
        if isinstance(end, Stopped) and end.reason in LIMITS:
            self._limit = end.reason
        self.same = same
        self.requests: list[ModelRequest] = []
        self.events: list[Event] = []
        self._limited = recording.budget is not None
        self._accepting = recording.accepting
        self._paused: set[str] = set()
        self._hooks, self._context = hooks, context
        self._told: dict[str, tuple[AgentAction, list[NumberedEvent]]] = {}  # calls whose verdicts are not compared yet
        self._step = 0

    async def tell(self, event: Event | Delta) -> None:
        """Compare `event` with the log."""
        if isinstance(event, Delta):
            return
        await self._compare_calls()
        self._step = getattr(event, "step", self._step)
        recorded = self._next
        if isinstance(event, Finished | Stopped):
            self._compare_end(event)
        elif recorded is None:
            raise self._end_replay(event)
        else:
            equal = type(recorded) is type(event) and call_of(recorded) == call_of(event)  # the log's own, or its first
            if isinstance(event, Compacted):
                event = recorded if equal else event
            elif isinstance(event, Asked) and not self._skip_request(event):
                event = self._translate(event)
                equal = recorded == event or (self._accepting and isinstance(recorded, Asked))
            elif isinstance(event, Paused):
                equal = isinstance(recorded, Paused) and _decided(recorded.action) == _decided(event.action)
            if not equal:
                raise self._describe_difference(event)
            self._at += 1
        self.events.append(event)

    async def judge(self, point: Point, event: Any, step: int) -> Judgement:
        """Return what the log has, if the hooks of today agree with it."""
        await self._compare_calls()
        if point in ("before_tool", "after_tool", "after_run"):  # the log has no such call, and the replay ends there
            return Judgement(event)
        if point == "before_model" and step <= self._kept and self._skip_verdicts():
            return Judgement(event)
        recorded = self._read_verdicts(point)
        there = self._log[self._at : self._at + len(recorded) + 1]  # the first event may be among them
        place = sorted(there, key=lambda one: not isinstance(one.event, Judged))
        found = await self._compare_verdicts(point, event, place, step)
        if found is None or found.end is not None:
            last = self._at + len(recorded) == len(self._log)
            if found is None and last and isinstance(event, Finished) and isinstance(self._end, Finished):
                return Judgement(self._end, recorded)  # as it was changed
            return self._recall(event, recorded)
        if self._accepting:
            self._at += len(recorded)
            self.events += found.verdicts
            return Judgement(found.event)
        return Judgement(found.event, recorded)

    async def _compare_verdicts(
        self, point: Point, event: Any, place: Sequence[NumberedEvent], step: int
    ) -> Judgement | None:
        """Return what the hooks of today say, or `None` where the log does not have the event as it was judged. Raises
        `ReplayEnd` if they say something else than the verdicts at `place`, where the log has what followed, too."""
        recorded = [one.event for one in place if isinstance(one.event, Judged) and one.event.point == point]
        hooks = self._hooks.get(point, ())
        names = {one.name for one in hooks}
        judged = [one for one in hooks if one.replays]
        whole = point in _AS_JUDGED or not recorded
        if not whole or not {one.name for one in hooks if not one.replays}.isdisjoint(one.hook for one in recorded):
            gone = next((at for at, one in enumerate(recorded) if one.hook not in names), None)
            if gone is not None:
                raise self._differ(place[gone : gone + 1], event)
            return None
        found = await run_hooks(judged, event, step, self._context)
        then, now = ([(one.hook, one.verdict) for one in verdicts] for verdicts in (recorded, found.verdicts))
        at = next((at for at in range(max(len(then), len(now))) if then[at : at + 1] != now[at : at + 1]), None)
        if at is not None and not (self._accepting and {*then, *now} <= {(name, "change") for name in names}):
            raise self._differ(place[at : at + 1], found.verdicts[at] if at < len(now) else event)
        return found

    def _differ(self, place: Sequence[NumberedEvent], now: Event) -> ReplayEnd:
        if not place:
            return self._describe_difference(now)
        return ReplayEnd(find_difference(place[0].number, self._step, place[0].event, now))

    async def _compare_calls(self) -> None:
        """Compare what hooks say of calls of which the log tells, and of their results."""
        while self._told:
            call = next(iter(self._told))
            action, told = self._told.pop(call)
            judged = [one for one in told if isinstance(one.event, Judged)]
            calls = [one for one in told if isinstance(one.event, Called | Paused) and call_of(one.event) == call]
            seen = [one for one in told if isinstance(one.event, Observed)]
            before = [one for one in judged if one.number < (calls or seen or told)[0].number]
            step = getattr(told[0].event, "step", self._step)
            place = [*before, *(calls or seen)[:1]]
            found = await self._compare_verdicts("before_tool", Called(step, action), place, step)
            first: Any = calls[0].event if calls else None
            if first and found is not None and _decided(first.action) != _decided(found.event.action):
                raise self._differ(calls, found.event)
            if seen and any(isinstance(one.event, Called) for one in calls):
                place = [*judged[len(before) :], *seen[-1:]]
                await self._compare_verdicts("after_tool", seen[-1].event, place, step)

    def _compare_end(self, event: Finished | Stopped) -> None:
        def describe(end: Finished | Stopped) -> tuple[str, ...]:
            return dump(end) if isinstance(end, Finished) else (str(end.reason), end.answer)

        if self._next is not None:
            raise self._describe_difference(event)
        if self._accepting or self._end is None or self._ended_from_outside:
            return
        if describe(self._end) != describe(event):
            raise self._describe_difference(event)

    def _describe_difference(self, now: Event) -> ReplayEnd:
        """Return the difference between the next recorded event and what comes now."""
        recorded = self._next or self._end
        number = self._log[self._at].number if self._next is not None else self._last + (self._end is None)
        return ReplayEnd(find_difference(number, getattr(recorded, "step", self._step), recorded, now))

    def _end_replay(self, now: Event) -> ReplayEnd:
        """Return the end of the replay at the log's end, where the run would do more: a difference if the agent ended
        the run."""
        return ReplayEnd() if self._ended_from_outside else self._describe_difference(now)

    @property
    def _ended_from_outside(self) -> bool:
        """Whether it was not the agent that ended the run: the log is cut, or its end says so."""
        match self._end:
            case None:
                return True
            case Stopped(reason=StopReason.ERROR):  # of the model, or of a person's program
                return bool(self._log) and isinstance(self._log[-1].event, Asked | Retried | Paused)
            case Stopped(reason=reason):
                return reason in _OUTSIDE or (reason in LIMITS and not self._limited)
        return False

    def ask(self, request: Ask) -> Chunks:
        """Stream the recorded reply."""
        constraint, number = request.constraint, self._log[self._at - 1].number
        grammar = None if constraint is None else _print_grammar(constraint.pattern)
        schema = None if constraint is None else constraint.schema
        tools = tuple(tool.name for tool in request.tools)
        self.requests.append(ModelRequest(number, self._step, grammar, schema, request.stop, tools, request.max_tokens))
        return super().ask(request)

    def _ask_further(self, request: Ask) -> Chunks:
        raise self._end_replay(self._log[self._at - 1].event)

    async def call(self, action: AgentAction, share: Callable[[], Budget]) -> Observation:
        """Call nothing."""
        raise self._end_replay(Called(self._step, action))

    def must_ask(self, action: AgentAction, *, begun: bool) -> str:
        """Return why the recorded run asked a person about a call; the log has no outcome of any other."""
        if action.id in self._paused:
            return "a person was asked"
        raise self._end_replay(Called(self._step, action))

    def restore(self, action: AgentAction, observation: Observation | None) -> None:
        """Do nothing: no call is made."""

    recall = restore

    def past(self, actions: Iterable[AgentAction]) -> Iterator[Event]:
        """Yield what the log has on these calls. Each call must be the one that was decided on then; a person may have
        edited it afterwards."""
        wanted = {action.id: action for action in actions}
        told: dict[str, list[NumberedEvent]] = {}
        for event in super().past(wanted.values()):
            call = call_of(event).removeprefix(ASKS)
            self._step = getattr(event, "step", self._step)
            known = told.setdefault(call, [])
            changed = any(isinstance(one.event, Judged) for one in known)  # by a hook: compared later
            first = isinstance(event, Called | Paused) and not known
            begun = event.action if isinstance(event, Called | Paused) and first and not changed else wanted[call]
            if _decided(begun) != _decided(wanted[call]):
                raise self._describe_difference(Called(self._step, wanted[call]))
            known.append(self._log[self._at])
            (self._paused.add if isinstance(event, Paused) else self._paused.discard)(call_of(event))
            self.events.append(event)
            yield event
        if self.points:
            self._told |= {call: (wanted[call], known) for call, known in told.items()}
        for action in wanted.values():
            if action.id not in told and self._next is not None:
                raise self._describe_difference(Called(self._step, action))
