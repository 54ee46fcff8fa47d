"""A machine's cores, shared by programs of which each runs on a number of threads."""

from __future__ import annotations

import math
from collections import deque
from heapq import heappop, heappush
from itertools import count

from .virtual_time import Resume, VirtualTime, Wait


class Machine:
    """Each thread that runs gets an equal share of the cores, and at most a whole one, as an operating system's
    scheduler gives it. With endless cores, each thread has one of its own."""

    def __init__(self, time: VirtualTime, cores: float = math.inf) -> None:
        self._time = time
        self._cores = cores
        self._jobs: list[tuple[float, int, Program, float, Resume]] = []  # by the progress at which they end
        self._order = count()
        self._progress = 0.0  # seconds of CPU that a thread would have had that ran all the time
        self._since = 0.0
        self._rate = 1.0
        self._version = 0

    def begin(self, program: Program, seconds: float, resume: Resume) -> None:
        """Run a thread of a program for so many seconds of CPU."""
        self._advance()
        heappush(self._jobs, (self._progress + seconds, next(self._order), program, seconds, resume))
        self._plan(self._jobs[0][4] is resume)

    def _advance(self) -> None:
        self._progress += (self._time.now - self._since) * self._rate
        self._since = self._time.now

    def _plan(self, changed: bool) -> None:
        """Set the time of the next end, unless it stays what it was."""
        rate = min(1.0, self._cores / max(1, len(self._jobs)))
        if not changed and rate == self._rate:
            return
        self._rate = rate
        self._version += 1
        if self._jobs:
            version = self._version
            left = max(0.0, self._jobs[0][0] - self._progress)
            self._time.at(self._time.now + left / rate, lambda _: self._end(version))

    def _end(self, version: int) -> None:
        if version != self._version:
            return
        self._advance()
        self._progress = max(self._progress, self._jobs[0][0])
        _, _, program, seconds, resume = heappop(self._jobs)
        self._plan(True)
        program.ended(seconds)
        resume(None)


class Program:
    """A program of a machine. What its threads have no time for waits, first come, first served."""

    def __init__(self, machine: Machine, threads: float = 1) -> None:
        self.seconds = 0.0  # of CPU that it took; may be set to 0
        self._machine = machine
        self._free = threads
        self._waiting: deque[tuple[float, Resume]] = deque()

    def work(self, seconds: float) -> Wait:
        """Wait until it has worked for so many seconds of CPU."""
        return lambda resume: self._ask(seconds, resume)

    def ended(self, seconds: float) -> None:
        """Note that a thread has ended, and run what waits."""
        self.seconds += seconds
        if self._waiting:
            self._machine.begin(self, *self._waiting.popleft())
        else:
            self._free += 1

    def _ask(self, seconds: float, resume: Resume) -> None:
        if self._free >= 1:
            self._free -= 1
            self._machine.begin(self, seconds, resume)
        else:
            self._waiting.append((seconds, resume))
