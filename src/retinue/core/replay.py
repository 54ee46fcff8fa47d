"""Replay of a recorded run: its effects are not repeated, and its events are not emitted again.

The loop handles a recorded run like any other. `ReplayingEffects` answers from the log until the log ends, and from
the outside world after that. Replayed events are compared with the log and must be equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace

from ..errors import LogMismatch, WindowExceeded
from .events import (
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
)
from .prompt import Ask
from .prompt_numbers import PromptNumbers
from .protocols import Chunks, Effects, Retry
from .values import AgentAction, Decision, StopReason

OfACall = Called | Observed | Paused | Resumed
LIMITS = {
    StopReason.MAX_ITERATION_EXCEEDED,
    StopReason.MAX_EXECUTION_TIME_EXCEEDED,
    StopReason.TOKEN_BUDGET_EXCEEDED,
    StopReason.COST_BUDGET_EXCEEDED,
    StopReason.STAGNATED,
}


def replaying(effects: Effects, log: Sequence[Event], *, regardless: bool = False) -> Effects:
    """Return the effects of a run that continues at the end of `log`: if `regardless`, also where the log has the same
    requests in other words."""
    return ReplayingEffects(effects, log, regardless=regardless) if log else effects


def beginning(log: Sequence[Event]) -> Started | None:
    """Return the log's `Started` event, if there is one."""
    return next((event for event in log if isinstance(event, Started)), None)


class ReplayingEffects:
    """Answers from `log` until it ends, and then delegates to `effects`.

    The previous ending (parked, cancelled, timed out) is not replayed. Neither is the closing question of a run that
    reached a limit, so the run continues if the budget is larger now. With `regardless`, requests are compared by their
    kind only.
    """

    def __init__(self, effects: Effects, log: Sequence[Event], *, regardless: bool = False) -> None:
        self._effects = effects
        self._prompts = PromptNumbers() if regardless else None
        self._log = replayed(log)
        self._at = 0
        self.call = effects.call
        self.must_ask = effects.must_ask
        self.same = effects.same
        self.restore = effects.restore
        self.recall = effects.recall

    @property
    def _next(self) -> Event | None:
        """The next event of the log, or `None` at its end."""
        return self._log[self._at] if self._at < len(self._log) else None

    async def tell(self, event: Event | Delta) -> None:
        """Emit `event` unless it is recorded. Raises `LogMismatch` if the log has a different one."""
        recorded = self._next
        if recorded is not None and self._is(recorded, event):
            self._at += 1
            return
        if self._prompts is not None and isinstance(event, Asked):
            event = self._prompts.translate(event)
        await self._effects.tell(event)

    def _is(self, recorded: Event, event: Event | Delta) -> bool:
        """Return whether `event` matches the `recorded` one. Answers come from the log; requests must be equal."""
        match event:
            case Started() | Asked():
                if recorded != event and not (self._prompts is not None and type(recorded) is type(event)):
                    raise self._mismatch(recorded, event)
                if self._prompts is not None and isinstance(event, Asked) and isinstance(recorded, Asked):
                    self._prompts.pass_over(recorded, event)
                return True
            case Retried() | Replied():
                return True
            case Paused() | Resumed():
                return type(recorded) is type(event) and call_of(recorded) == call_of(event)
        return False

    def _mismatch(self, recorded: Event, event: object) -> LogMismatch:
        return LogMismatch(
            f"the log does not fit this run: its event {self._at} is {recorded!r:.200}, here comes {event!r:.200}"
        )

    async def ask(self, request: Ask) -> Chunks:
        """Stream the recorded reply to `request`, or else the model's.

        Raises `WindowExceeded` if the log shows that the prompt was shortened and sent again, and `LogMismatch` if it
        has a different event.
        """
        while isinstance(recorded := self._next, Retried):
            request = replace(request, model=recorded.model or request.model)
            yield Retry(recorded.problem, recorded.seconds, recorded.usage, recorded.model)
        match recorded:
            case Replied(reply=reply):
                yield reply
            case None:
                async with aclosing(self._effects.ask(request)) as chunks:
                    async for chunk in chunks:
                        yield chunk
            case Asked():
                raise WindowExceeded("the prompt was too long")
            case _:
                raise self._mismatch(recorded, request)

    async def consult(self, action: AgentAction, problem: str) -> Decision | None:
        """Return the recorded decision, or else ask a person."""
        recorded = self._next
        if isinstance(recorded, Resumed) and recorded.call_id == action.id:
            return recorded.decision
        return await self._effects.consult(action, problem)

    def past(self, actions: Iterable[AgentAction]) -> Iterator[OfACall]:
        """Yield what the log has on the calls of these actions."""
        calls = {action.id for action in actions}
        while isinstance(event := self._next, OfACall) and call_of(event) in calls:
            self._at += 1
            yield event

    def limit(self, nearest: StopReason | None, *, closes: bool) -> StopReason | None:
        """Return the recorded limit, since it may have depended on the clock."""
        recorded = self._next
        if isinstance(recorded, Asked):
            return (nearest or StopReason.MAX_EXECUTION_TIME_EXCEEDED) if recorded.closing else None
        return self._effects.limit(nearest, closes=closes)

    def room(self, characters: int) -> int:
        """Return the recorded size, since it may have depended on the engine's token counts."""
        recorded = self._next
        return recorded.shortened if isinstance(recorded, Asked) else self._effects.room(characters)

    @property
    def elapsed(self) -> float:
        """The seconds that models and tools took according to the log."""
        replies = sum(event.reply.seconds for event in self._log if isinstance(event, Replied))
        return replies + sum(event.observation.seconds for event in self._log if isinstance(event, Observed))


def replayed(log: Sequence[Event]) -> list[Event]:
    """Return the part of `log` that is replayed: not its endings, nor the closing questions of limits."""
    kept: list[Event] = []
    for event in log:
        if isinstance(event, Said) or "/" in call_of(event):  # a question of a member, which its own run asks
            continue
        if isinstance(event, Stopped) and event.reason in LIMITS:
            kept = before_closing(kept)
        if not isinstance(event, Finished | Stopped):
            kept.append(event)
    return kept


def before_closing(log: list[Event]) -> list[Event]:
    """Return `log` up to its closing question, or all of it if a tool was called later: no call is forgotten."""
    closing = [at for at, asked in enumerate(log) if isinstance(asked, Asked) and asked.closing]
    if not closing or any(isinstance(event, Called) for event in log[closing[-1] :]):
        return log
    return log[: closing[-1]]


def call_of(event: Event) -> str:
    """Return the id of the call that an event is about, or an empty string."""
    match event:
        case Called(action=action) | Paused(action=action):
            return action.id
        case Observed(observation=observation):
            return observation.call_id
        case Resumed(call_id=call_id):
            return call_id
    return ""
