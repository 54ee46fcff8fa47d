"""Reading a recorded run back while its strategy is driven again."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import TypeVar

from .errors import LogMismatch
from .events import Asked, Called, Event, Finished, Observed, Paused, Replied, Resumed, Started, Stopped
from .schema import StopReason

E = TypeVar("E", bound=Event)
_LIMITS = {
    StopReason.MAX_ITERATION_EXCEEDED,
    StopReason.MAX_EXECUTION_TIME_EXCEEDED,
    StopReason.TOKEN_BUDGET_EXCEEDED,
    StopReason.STAGNATED,
}


class Recording:
    """A cursor over a log. Once it is at the end, the run goes on live.

    How the run ended before (parked, cancelled, out of time) is not part of what is replayed; neither
    is the closing question of a run that ended at a limit, so that with a larger budget it goes on.
    """

    def __init__(self, log: Sequence[Event]) -> None:
        self._log: list[Event] = []
        for event in log:
            if isinstance(event, Stopped) and event.reason in _LIMITS:
                self._log = _before_closing(self._log)
            if not isinstance(event, Finished | Stopped):
                self._log.append(event)
        self._at = 0

    @property
    def next(self) -> Event | None:
        """The next event; `None` at the end."""
        return self._log[self._at] if self._at < len(self._log) else None

    def take(self, *kinds: type[E]) -> Iterator[E]:
        """The next events, as long as they are of these kinds."""
        while isinstance(event := self.next, kinds):
            self._at += 1
            yield event

    def take_of(self, calls: Container[str]) -> Iterator[Called | Observed | Paused | Resumed]:
        """The next events, as long as they are about the calls of these ids."""
        while isinstance(event := self.next, Called | Observed | Paused | Resumed) and call_of(event) in calls:
            self._at += 1
            yield event

    def expect(self, event: Started | Asked) -> bool:
        """Whether `event` is recorded here. Raises `LogMismatch` if something else is."""
        recorded = self.next
        if recorded is None:
            return False
        if recorded != event:
            raise LogMismatch(
                f"the log does not fit this run: its event {self._at} is {recorded!r:.200}, here comes {event!r:.200}"
            )
        self._at += 1
        return True

    @property
    def seconds(self) -> float:
        """The time that models and tools took in the recorded part."""
        replies = sum(event.reply.seconds for event in self._log if isinstance(event, Replied))
        return replies + sum(event.observation.seconds for event in self._log if isinstance(event, Observed))


def _before_closing(log: list[Event]) -> list[Event]:
    """`log` up to its closing question; all of it, if a tool was called after that: no call is forgotten."""
    closing = [at for at, asked in enumerate(log) if isinstance(asked, Asked) and asked.closing]
    if not closing or any(isinstance(event, Called) for event in log[closing[-1] :]):
        return log
    return log[: closing[-1]]


def call_of(event: Called | Observed | Paused | Resumed) -> str:
    """The id of the call that an event is about."""
    match event:
        case Called(action=action) | Paused(action=action):
            return action.id
        case Observed(observation=observation):
            return observation.call_id
        case Resumed(call_id=call_id):
            return call_id
