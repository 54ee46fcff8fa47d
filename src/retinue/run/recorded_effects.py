"""Effects that a log answers. The loop handles a recorded run like any other, and knows nothing of replay.

`RecordedEffects` is the cursor over a log. There are two policies at its end, and where the run differs from it:
`ContinuedRun` goes on with the outside world, and `ComparedRun` ends the replay and says what differs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..core.budgets import Budget
from ..core.events import (
    ENDINGS,
    Asked,
    Called,
    Delta,
    Event,
    Finished,
    Observed,
    Paused,
    Replied,
    Resumed,
    Retried,
    Said,
    Started,
    Stopped,
    call_of,
)
from ..core.prompt import Ask
from ..core.protocols import Chunks, Effects, Retry
from ..core.run_result import LIMITS
from ..core.serialization import dump
from ..core.values import AgentAction, Decision, Message, Observation, StopReason
from ..errors import LogMismatch, WindowExceeded
from .difference import Difference, difference

_OUTSIDE = {  # what ends a run there is not the agent's doing
    StopReason.CANCELLED,
    StopReason.AWAITING_HUMAN,
    StopReason.AWAITING_MEMBER,
    StopReason.MAX_EXECUTION_TIME_EXCEEDED,
}
_ALL = 2**31  # steps
_OfACall = Called | Observed | Paused | Resumed


class NumberedEvent(NamedTuple):
    """An event with its number in a log."""

    number: int
    event: Event


def number_events(log: Sequence[Event]) -> list[NumberedEvent]:
    """Return the events with their numbers in `log`, from 1."""
    return [NumberedEvent(number, event) for number, event in enumerate(log, 1)]


class PromptNumbers:
    """Numbers the prompts of a log that goes on in other words than it began with. A prompt whose beginning the log has
    in other words is logged as a whole, under a number of its own."""

    def __init__(self) -> None:
        self._logged: defaultdict[int, list[Message]] = defaultdict(list)  # by numbers in the log
        self._sent: defaultdict[int, list[Message]] = defaultdict(list)  # by the loop's numbers
        self._numbers: dict[int, int] = {}  # the loop's in the log
        self._checked: set[int] = set()

    def skip(self, logged: Asked, sent: Asked) -> None:
        """Note a request of the log, and what the loop would have sent."""
        self._logged[logged.prompt] += logged.messages
        self._sent[sent.prompt] += sent.messages
        self._numbers[sent.prompt] = logged.prompt
        self._checked.discard(sent.prompt)

    def translate(self, asked: Asked) -> Asked:
        """Return a request of the loop as the log should have it."""
        if not self._logged:
            return asked
        number, messages = self._numbers.get(asked.prompt), asked.messages
        if number is None or not self._goes_on(asked.prompt, number):
            messages = (*self._sent[asked.prompt], *messages)
            number = asked.prompt if asked.prompt not in self._logged else max(self._logged) + 1
        self._checked.add(asked.prompt)
        self._numbers[asked.prompt] = number
        self._logged[number] += messages
        self._sent[asked.prompt] += asked.messages
        return replace(asked, prompt=number, messages=messages)

    def _goes_on(self, prompt: int, number: int) -> bool:
        """Whether the log has all that was sent of this prompt, and in the same words."""
        return prompt in self._checked or self._logged[number] == self._sent[prompt]


class RecordedEffects:
    """Answers from a log, event by event, until it ends.

    Not repeated are the endings of earlier drives (parked, cancelled, timed out), and the closing question of a run
    that reached a limit: it goes on if the budget is larger now. Requests up to the step `kept` may have had other
    words.
    """

    def __init__(self, log: Sequence[NumberedEvent], kept: int) -> None:
        self._log = _repeated(log)
        self._at = 0
        self._kept = kept
        self._prompts = PromptNumbers()
        self._limit: StopReason | None = None  # that the closing questions of the log are about, if it is known

    @property
    def _next(self) -> Event | None:
        """The next event of the log, or `None` at its end."""
        return self._log[self._at].event if self._at < len(self._log) else None

    def _skips(self, asked: Asked) -> bool:
        """Whether the next event is a request that may have other words than `asked`."""
        recorded = self._next
        if not isinstance(recorded, Asked) or recorded.step > self._kept:
            return False
        self._prompts.skip(recorded, asked)
        return True

    async def ask(self, request: Ask) -> Chunks:
        """Stream the recorded reply. Raises `WindowExceeded` where the log shows that the prompt was shortened and sent
        again."""
        while isinstance(recorded := self._next, Retried):
            request = replace(request, model=recorded.model or request.model)
            yield Retry(recorded.problem, recorded.seconds, recorded.usage, recorded.model)
        match recorded:
            case Replied(reply=reply):
                yield reply
            case Asked():
                raise WindowExceeded("the prompt was too long")
            case _:
                async with aclosing(self._ask_further(request)) as chunks:
                    async for chunk in chunks:
                        yield chunk

    def _ask_further(self, request: Ask) -> Chunks:
        """Stream a reply that the log does not have."""
        raise NotImplementedError

    async def consult(self, action: AgentAction, problem: str) -> Decision | None:
        """Return the recorded decision, if there is one."""
        recorded = self._next
        return recorded.decision if isinstance(recorded, Resumed) and recorded.call_id == action.id else None

    def past(self, actions: Iterable[AgentAction]) -> Iterator[Event]:
        """Yield what the log has on the calls of these actions."""
        calls = {action.id for action in actions}
        while isinstance(event := self._next, _OfACall) and call_of(event) in calls:
            yield event
            self._at += 1

    def limit(self, nearest: StopReason | None, *, closes: bool) -> StopReason | None:
        """Return the recorded limit, since it may have depended on the clock."""
        recorded = self._next
        if not isinstance(recorded, Asked):
            return nearest if closes else None
        return (self._limit or nearest or StopReason.MAX_EXECUTION_TIME_EXCEEDED) if recorded.closing else None

    def room(self, characters: int) -> int:
        """Return the recorded size, since it may have depended on the engine's token counts."""
        recorded = self._next
        return recorded.shortened if isinstance(recorded, Asked) else characters

    @property
    def elapsed(self) -> float:
        """The seconds that models and tools took according to the log."""
        replies = sum(one.event.reply.seconds for one in self._log if isinstance(one.event, Replied))
        return replies + sum(one.event.observation.seconds for one in self._log if isinstance(one.event, Observed))


class ContinuedRun(RecordedEffects):
    """Goes on with `world` where the log ends. Recorded events are not emitted again; they must be equal.

    With `regardless`, requests are compared by their kind only.
    """

    def __init__(self, world: Effects, log: Sequence[Event], *, regardless: bool = False) -> None:
        super().__init__(number_events(log), _ALL if regardless else -1)
        self._world = world
        self._regardless = regardless
        self.call = world.call
        self.must_ask = world.must_ask
        self.same = world.same
        self.restore = world.restore
        self.recall = world.recall

    async def tell(self, event: Event | Delta) -> None:
        """Emit `event` unless it is recorded. Raises `LogMismatch` if the log has a different one."""
        recorded = self._next
        if recorded is not None and self._is(recorded, event):
            self._at += 1
            return
        await self._world.tell(self._prompts.translate(event) if isinstance(event, Asked) else event)

    def _is(self, recorded: Event, event: Event | Delta) -> bool:
        """Return whether `event` is the `recorded` one. Answers come from the log; requests must be equal."""
        match event:
            case Asked() if self._skips(event):
                return True
            case Started() | Asked():
                if recorded != event and not (self._regardless and type(recorded) is type(event)):
                    raise self._mismatch(recorded, event)
                return True
            case Retried() | Replied():
                return True
            case Paused() | Resumed():
                return type(recorded) is type(event) and call_of(recorded) == call_of(event)
        return False

    def _ask_further(self, request: Ask) -> Chunks:
        if self._next is not None:
            raise self._mismatch(self._next, request)
        return self._world.ask(request)

    def _mismatch(self, recorded: Event, event: object) -> LogMismatch:
        return LogMismatch(
            f"the log does not fit this run: its event {self._at} is {recorded!r:.200}, here comes {event!r:.200}"
        )

    async def consult(self, action: AgentAction, problem: str) -> Decision | None:
        """Return the recorded decision, or else ask a person."""
        return await super().consult(action, problem) or await self._world.consult(action, problem)


class ReplayEnd(LogMismatch):
    """The replay ends here: at the log's end, or at a `difference`."""

    def __init__(self, found: Difference | None = None) -> None:
        super().__init__("the log ends here" if found is None else str(found))
        self.difference = found


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request to the model that a log answers: the number of its event, its step, and the request itself."""

    event: int
    step: int
    request: Ask


class ComparedRun(RecordedEffects):
    """Compares what the run does with its log, and touches nothing outside. Raises `ReplayEnd` where the log ends, and
    where the run differs from it.

    Args:
        log: The events, oldest first.
        same: Whether two calls are equal.
        limited: Whether the run has the budget that it had; otherwise only the log says where a budget ended it.
        accepting: Other prompts and another end are no difference. `events` then is the log as it would be now.
        kept: The last step that was another run's, whose prompts may have had other words; -1 if there is none.
    """

    def __init__(
        self,
        log: Sequence[NumberedEvent],
        same: Callable[[AgentAction, AgentAction], bool],
        *,
        limited: bool = True,
        accepting: bool = False,
        kept: int = -1,
    ) -> None:
        end = log[-1].event if log else None
        self._end = end if isinstance(end, ENDINGS) else None
        self._last = log[-1].number if log else 0
        super().__init__(log if self._end is None else log[:-1], kept)
        if isinstance(end, Stopped) and end.reason in LIMITS:
            self._limit = end.reason
        self.same = same
        self.requests: list[RecordedRequest] = []
        self.events: list[Event] = []
        self.ended = False
        self._limited = limited
        self._accepting = accepting
        self._paused: set[str] = set()
        self._step = 0

    async def tell(self, event: Event | Delta) -> None:
        """Compare `event` with the log."""
        if isinstance(event, Delta):
            return
        self._step = getattr(event, "step", self._step)
        recorded = self._next
        if isinstance(event, Finished | Stopped):
            self._compare_end(event)
        elif recorded is None:
            raise self._over(event)
        else:
            event = self._compare(recorded, event)
            self._at += 1
        self.events.append(event)

    def _compare(self, recorded: Event, event: Event) -> Event:
        """Return `event` as the log has it. Raises `ReplayEnd` if it differs."""
        equal = type(recorded) is type(event) and call_of(recorded) == call_of(event)  # the log's own, or its first
        if isinstance(event, Asked) and not self._skips(event):
            event = self._prompts.translate(event)
            equal = recorded == event or (self._accepting and isinstance(recorded, Asked))
        elif isinstance(event, Paused):
            equal = isinstance(recorded, Paused) and _alike(recorded.action, event.action)
        if not equal:
            raise self._differ(event)
        return event

    def _differ(self, now: Event) -> ReplayEnd:
        """Return the difference between the next recorded event and what comes now."""
        recorded = self._next or self._end
        number = self._log[self._at].number if self._next is not None else self._last + (self._end is None)
        return ReplayEnd(difference(number, getattr(recorded, "step", self._step), recorded, now))

    def _over(self, now: Event) -> ReplayEnd:
        """Return the end of the replay at the log's end, where the run would do more: a difference if the agent ended
        the run."""
        return ReplayEnd() if self._ended_from_outside else self._differ(now)

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

    def _compare_end(self, event: Finished | Stopped) -> None:
        if self._next is not None:
            raise self._differ(event)
        self.ended = True
        if self._accepting or self._end is None or self._ended_from_outside:
            return
        if _describe_end(self._end) != _describe_end(event):
            raise self._differ(event)

    def ask(self, request: Ask) -> Chunks:
        """Stream the recorded reply."""
        self.requests.append(RecordedRequest(self._log[self._at - 1].number, self._step, request))
        return super().ask(request)

    def _ask_further(self, request: Ask) -> Chunks:
        raise self._over(self._log[self._at - 1].event)

    async def call(self, action: AgentAction, share: Callable[[], Budget]) -> Observation:
        """Call nothing."""
        raise self._over(Called(self._step, action))

    def must_ask(self, action: AgentAction, *, begun: bool) -> str:
        """Return why the recorded run asked a person about a call; the log has no outcome of any other."""
        if action.id in self._paused:
            return "a person was asked"
        raise self._over(Called(self._step, action))

    def restore(self, action: AgentAction, observation: Observation | None) -> None:
        """Do nothing: no call is made."""

    recall = restore

    def past(self, actions: Iterable[AgentAction]) -> Iterator[Event]:
        """Yield what the log has on these calls. Each call must be the one that was decided on then; a person may have
        edited it afterwards."""
        wanted = {action.id: action for action in actions}
        known: set[str] = set()
        for event in super().past(wanted.values()):
            call = call_of(event)
            if call not in known and isinstance(event, Called | Paused) and not _alike(event.action, wanted[call]):
                raise self._differ(Called(event.step, wanted[call]))
            known.add(call)
            (self._paused.add if isinstance(event, Paused) else self._paused.discard)(call)
            self._step = getattr(event, "step", self._step)
            self.events.append(event)
            yield event
        for action in wanted.values():
            if action.id not in known and self._next is not None:
                raise self._differ(Called(self._step, action))


def _repeated(log: Sequence[NumberedEvent]) -> list[NumberedEvent]:
    """Return the part of `log` that is repeated: not its endings, nor the closing questions of limits."""
    kept: list[NumberedEvent] = []
    for one in log:
        if isinstance(one.event, Said) or "/" in call_of(one.event):  # a question of a member, which its own run asks
            continue
        if isinstance(one.event, Stopped) and one.event.reason in LIMITS:
            del kept[closing_place([earlier.event for earlier in kept]) :]
        if not isinstance(one.event, ENDINGS):
            kept.append(one)
    return kept


def closing_place(log: Sequence[Event]) -> int:
    """Return where the closing question of `log` is; its end if there is none, or a tool was called later: no call is
    forgotten."""
    closing = [at for at, asked in enumerate(log) if isinstance(asked, Asked) and asked.closing]
    if not closing or any(isinstance(event, Called) for event in log[closing[-1] :]):
        return len(log)
    return closing[-1]


def _alike(one: AgentAction, other: AgentAction) -> bool:
    return (one.tool, one.tool_input, one.id) == (other.tool, other.tool_input, other.id)


def _describe_end(event: Finished | Stopped) -> tuple[str, ...]:
    return dump(event) if isinstance(event, Finished) else (str(event.reason), event.answer)
