"""Things of which there are so many, and the queue of those who wait for one."""

from __future__ import annotations

from collections import deque

from .machine import Program
from .virtual_time import Level, Process, Resume, VirtualTime, Wait


class Places:
    """Places by their owners, such as a worker's for runs. Owners with a free place take turns; who waits is served in
    order."""

    def __init__(self, time: VirtualTime, owners: int, each: float) -> None:
        self.used = Level(time)
        self.queued = Level(time)
        self._time = time
        self._free = dict.fromkeys(range(owners), each)
        self._turns = deque(owner for owner in self._free if each >= 1)
        self._waiting: deque[Resume] = deque()

    def take(self) -> Wait:
        """Wait for a place; gives the owner's number."""
        return self._take

    def give(self, owner: int) -> None:
        """Give a place back."""
        self._free[owner] += 1
        self.used.change(-1)
        if self._free[owner] == 1:
            self._turns.append(owner)
        if self._waiting:
            self.queued.change(-1)
            self._grant(self._waiting.popleft())

    def _take(self, resume: Resume) -> None:
        if self._turns:
            self._grant(resume)
        else:
            self.queued.change(1)
            self._waiting.append(resume)

    def _grant(self, resume: Resume) -> None:
        owner = self._turns.popleft()
        self._free[owner] -= 1
        if self._free[owner] >= 1:
            self._turns.append(owner)
        self.used.change(1)
        self._time.at(self._time.now, lambda _: resume(owner))


class CommitGroups:
    """The writes of one process: those that come while others are committed share the next commit."""

    def __init__(self, time: VirtualTime, database: Program, seconds: float) -> None:
        self.commits = 0
        self._time = time
        self._database = database
        self._seconds = seconds
        self._waiting: list[tuple[float, Resume]] = []
        self._busy = False

    def write(self, cpu: float) -> Wait:
        """Wait until a write is committed, which takes the database so many seconds of CPU."""
        return lambda resume: self._add(cpu, resume)

    def _add(self, cpu: float, resume: Resume) -> None:
        self._waiting.append((cpu, resume))
        if not self._busy:
            self._busy = True
            self._time.start(self._commit_all())

    def _commit_all(self) -> Process:
        while self._waiting:
            group, self._waiting = self._waiting, []
            yield self._database.work(sum(cpu for cpu, _ in group))
            yield self._time.after(self._seconds)
            self.commits += 1
            for _, resume in group:
                resume(None)
        self._busy = False
