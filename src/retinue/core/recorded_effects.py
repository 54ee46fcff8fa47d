"""Effects of a run that is replayed without anything outside: its log answers all, and all that it does is compared.

`replay.py` continues a run at the end of its log. Here, the end of the log is the end of the replay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..errors import LogMismatch, WindowExceeded
from .budgets import Budget
from .events import (
    ENDINGS,
    Asked,
    Called,
    Delta,
    Event,
    Finished,
    Paused,
    Replied,
    Resumed,
    Retried,
    Stopped,
)
from .log_difference import Difference, difference
from .prompt import Ask
from .prompt_numbers import PromptNumbers
from .protocols import Chunks, Retry
from .replay import LIMITS, OfACall, call_of, replayed
from .serialization import dump
from .values import AgentAction, Decision, Observation, StopReason

_OUTSIDE = {  # what ends a run there is not the agent's doing
    StopReason.CANCELLED,
    StopReason.AWAITING_HUMAN,
    StopReason.AWAITING_MEMBER,
    StopReason.MAX_EXECUTION_TIME_EXCEEDED,
}


class NumberedEvent(NamedTuple):
    """An event with its number in a log."""

    number: int
    event: Event


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


class RecordedEffects:
    """Answers from `log` alone. Raises `ReplayEnd` where the log ends, and where the run differs from it.

    Args:
        log: The events, oldest first.
        same: Whether two calls are equal.
        limited: Whether the run has the budget that it had; otherwise only the log says where a budget ended it.
        accepting: Other prompts and another end are no difference. `events` then is the log as it would be now.
        kept: The last step that was another run's, whose prompts may have had other words; -1 if there is none.
    """

    elapsed = 0.0

    def __init__(
        self,
        log: Sequence[NumberedEvent],
        same: Callable[[AgentAction, AgentAction], bool],
        *,
        limited: bool = True,
        accepting: bool = False,
        kept: int = -1,
    ) -> None:
        self.same = same
        self.requests: list[RecordedRequest] = []
        self.events: list[Event] = []
        self.ended = False
        self._limited = limited
        self._accepting = accepting
        self._kept = kept
        self._prompts = PromptNumbers()
        self._last = log[-1].number if log else 0
        end = log[-1].event if log else None
        self._end = end if isinstance(end, Finished | Stopped) else None
        self._log = _compared(log)
        self._at = 0
        self._paused: set[str] = set()
        self._step = 0

    @property
    def _next(self) -> Event | None:
        """The next event of the log, or `None` at its end."""
        return self._log[self._at].event if self._at < len(self._log) else None

    async def tell(self, event: Event | Delta) -> None:
        """Compare `event` with the log."""
        self._step = getattr(event, "step", self._step)
        match event:
            case Delta():
                return
            case Finished() | Stopped():
                self._compare_end(event)
            case _ if self._next is None:
                raise self._over(event)
            case Asked():
                self._compare_request(event)
            case Paused(action=action):
                self._compare(event, equal=isinstance(self._next, Paused) and _alike(self._next.action, action))
            case _:  # the log's own, or its first
                self._compare(event, equal=type(self._next) is type(event) and call_of(self._next) == call_of(event))
        self.events.append(event)

    def _compare_request(self, event: Asked) -> None:
        recorded = self._next
        if self._kept < 0:
            self._compare(event, equal=recorded == event or (self._accepting and isinstance(recorded, Asked)))
        elif isinstance(recorded, Asked) and recorded.step <= self._kept:
            self._prompts.pass_over(recorded, event)
            self._at += 1
        else:
            event = self._prompts.translate(event)
            self._compare(event, equal=recorded == event)

    def _compare(self, event: Event, *, equal: bool) -> None:
        if not equal:
            raise self._differ(event)
        self._at += 1

    def _differ(self, now: Event) -> ReplayEnd:
        """Return the difference between the next recorded event and what comes now."""
        recorded = self._next or self._end
        number = self._log[self._at].number if self._next is not None else self._last + (self._end is None)
        step = getattr(recorded, "step", self._step)
        return ReplayEnd(difference(number, step, recorded, now))

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
        if _said_at_end(self._end) != _said_at_end(event):
            raise self._differ(event)

    async def ask(self, request: Ask) -> Chunks:
        """Stream the recorded reply. Raises `WindowExceeded` where the log shows that the prompt was shortened and sent
        again."""
        asked = self._log[self._at - 1]
        self.requests.append(RecordedRequest(asked.number, self._step, request))
        while isinstance(recorded := self._next, Retried):
            yield Retry(recorded.problem, recorded.seconds, recorded.usage, recorded.model)
        match recorded:
            case Replied(reply=reply):
                yield reply
            case Asked():
                raise WindowExceeded("the prompt was too long")
            case _:
                raise self._over(asked.event)

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

    def recall(self, action: AgentAction, observation: Observation) -> None:
        """Do nothing: no call is made."""

    async def consult(self, action: AgentAction, problem: str) -> Decision | None:
        """Return the recorded decision, or `None` if there is none."""
        recorded = self._next
        return recorded.decision if isinstance(recorded, Resumed) and recorded.call_id == action.id else None

    def past(self, actions: Iterable[AgentAction]) -> Iterator[OfACall]:
        """Yield what the log has on these calls. Each call must be the one that was decided on then; a person may have
        edited it afterwards."""
        wanted = {action.id: action for action in actions}
        known: set[str] = set()
        while isinstance(event := self._next, OfACall) and call_of(event) in wanted:
            call = call_of(event)
            if call not in known and isinstance(event, Called | Paused) and not _alike(event.action, wanted[call]):
                raise self._differ(Called(event.step, wanted[call]))
            known.add(call)
            (self._paused.add if isinstance(event, Paused) else self._paused.discard)(call)
            self._step = event.step
            self._at += 1
            self.events.append(event)
            yield event
        for action in wanted.values():
            if action.id not in known and self._next is not None:
                raise self._differ(Called(self._step, action))

    def limit(self, nearest: StopReason | None, *, closes: bool) -> StopReason | None:
        """Return the recorded limit, since it may have depended on the clock."""
        recorded = self._next
        if not isinstance(recorded, Asked):
            return nearest if closes else None
        if not recorded.closing:
            return None
        reason = self._end.reason if isinstance(self._end, Stopped) else None
        return reason if reason in LIMITS else nearest or StopReason.MAX_EXECUTION_TIME_EXCEEDED

    def room(self, characters: int) -> int:
        """Return the recorded size, since it may have depended on the engine's token counts."""
        recorded = self._next
        return recorded.shortened if isinstance(recorded, Asked) else characters


def _compared(log: Sequence[NumberedEvent]) -> list[NumberedEvent]:
    """Return the part of `log` that is compared event by event: not its end, nor those of earlier drives."""
    last = log[:-1] if log and isinstance(log[-1].event, ENDINGS) else log
    numbers = {id(one.event): one.number for one in last}
    return [NumberedEvent(numbers[id(event)], event) for event in replayed([one.event for one in last])]


def _alike(one: AgentAction, other: AgentAction) -> bool:
    return (one.tool, one.tool_input) == (other.tool, other.tool_input) and one.id == other.id


def _said_at_end(event: Finished | Stopped) -> tuple[str, ...]:
    if isinstance(event, Finished):
        return dump(event)
    return str(event.reason), event.answer
