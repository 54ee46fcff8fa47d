"""Reading a recorded run back while its strategy is driven again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from .errors import LogMismatch
from .events import Asked, Event, Finished, Observed, Replied, Started, Stopped

E = TypeVar("E", bound=Event)


class Recording:
    """A cursor over a log. Once it is at the end, the run goes on live.

    How the run ended before (parked, cancelled, out of time) is not part of what is replayed.
    """

    def __init__(self, log: Sequence[Event]) -> None:
        self._log = [event for event in log if not isinstance(event, Finished | Stopped)]
        self._at = 0

    def take(self, *kinds: type[E]) -> Iterator[E]:
        """The next events, as long as they are of these kinds."""
        while self._at < len(self._log) and isinstance(event := self._log[self._at], kinds):
            self._at += 1
            yield event

    def expect(self, event: Started | Asked) -> bool:
        """Whether `event` is recorded here. Raises `LogMismatch` if something else is."""
        if self._at >= len(self._log):
            return False
        recorded = self._log[self._at]
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
