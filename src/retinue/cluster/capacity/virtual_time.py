"""Virtual time: processes are generators that wait, and events happen in the order of their times."""

from __future__ import annotations

from collections.abc import Callable, Generator
from heapq import heappop, heappush
from itertools import count
from typing import Any, TypeAlias

Resume: TypeAlias = "Callable[[Any], None]"
Wait: TypeAlias = "Callable[[Resume], None]"  # is told how to go on with the process that waits
Process: TypeAlias = "Generator[Wait, Any, None]"


class VirtualTime:
    """The clock in seconds, and what will happen. Events of the same time happen in the order of their making."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Resume]] = []
        self._order = count()

    def at(self, when: float, event: Resume) -> None:
        """Let `event` happen at a time that is not before now."""
        heappush(self._events, (when, next(self._order), event))

    def after(self, seconds: float) -> Wait:
        """Wait for so many seconds."""
        return lambda resume: self.at(self.now + seconds, resume)

    def start(self, process: Process) -> None:
        """Begin a process now."""
        self.at(self.now, lambda _: _go_on(process, None))

    def run(self, until: float) -> None:
        """Let everything happen that happens before `until`."""
        while self._events and self._events[0][0] <= until:
            self.now, _, event = heappop(self._events)
            event(None)
        self.now = until


def _go_on(process: Process, value: Any) -> None:
    try:
        wait = process.send(value)
    except StopIteration:
        return
    wait(lambda result: _go_on(process, result))


class Level:
    """A number that changes over time, and its mean since `reset`."""

    def __init__(self, time: VirtualTime) -> None:
        self.value = 0.0
        self._time = time
        self._area = 0.0
        self._since = self._changed = time.now

    def change(self, by: float) -> None:
        """Add to the number."""
        self._add_area()
        self.value += by

    def reset(self) -> None:
        """Begin the mean anew."""
        self._area, self._since, self._changed = 0.0, self._time.now, self._time.now

    @property
    def mean(self) -> float:
        """The mean over time since `reset`."""
        self._add_area()
        passed = self._time.now - self._since
        return self._area / passed if passed else self.value

    def _add_area(self) -> None:
        self._area += self.value * (self._time.now - self._changed)
        self._changed = self._time.now
