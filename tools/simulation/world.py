"""The world: machines that take turns as the seed says, what is under way between them, and what was seen."""

from __future__ import annotations

import asyncio
from asyncio.events import _get_running_loop, _set_running_loop
from collections import Counter
from collections.abc import Callable, Coroutine
from contextvars import Context
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any

from retinue.store.clock import CLOCK

from .virtual_time import BEGAN, UPTIME, VirtualLoop

_MOST = 100_000  # turns of a schedule
_IDLE = 0.5  # seconds without a change after which time flies
_LAZIEST = 4.0
_NEVER = float("inf")
_NESTED = 2  # machines whose statements others may come between, at a time


class Machine:
    """A process on a machine of its own: an event loop, and clocks."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.loop = VirtualLoop(world)
        self.ready = self.loop._ready
        self.alive = True  # until it is killed
        self.paused = False
        self.ahead = BEGAN - UPTIME  # of its `CLOCK`
        self.skew = 0.0  # seconds that its system clock was set ahead
        self.fuse = 0  # steps and statements until the fault that is planned for it; 0: none
        self.blow: Callable[[], None] = lambda: None
        self.after_pause: list[Callable[[], None]] = []
        world.machines.append(self)

    def begin(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task."""
        return self.loop.create_task(work, context=Context())

    def act(self, call: Callable[[], Any]) -> Any:
        """Call something with the loop and the clocks of this machine."""
        world, before, loop = self.world, self.world.current, _get_running_loop()
        if before is not None:
            before.ahead = CLOCK.ahead
        world.current, CLOCK.ahead = self, self.ahead
        _set_running_loop(self.loop)
        try:
            return call()
        finally:
            self.ahead = CLOCK.ahead
            world.current = before
            if before is not None:
                CLOCK.ahead = before.ahead
            _set_running_loop(loop)

    def burn(self) -> None:
        """A step or a statement has passed: the planned fault may come now."""
        if self.fuse:
            self.fuse -= 1
            if not self.fuse:
                self.blow()

    def kill(self) -> None:
        """End as by `kill -9`."""
        if self.alive:
            self.alive = False
            self.loop.die()
            self.world.machines.remove(self)
            self.world.graves.append(self)

    def pause(self, seconds: float) -> None:
        """Do nothing for a while, as after SIGSTOP."""
        if self.alive and not self.paused:
            self.paused = True
            self.world.later(seconds, self.go_on)

    def go_on(self) -> None:
        """End a pause."""
        if self.paused and self.alive:
            self.paused = False
            waiting, self.after_pause = self.after_pause, []
            for call in waiting:
                call()

    def take_turn(self) -> None:
        """Run what is ready, as one iteration of a loop does. No machine acts yet."""
        ready = self.ready
        self.world.current, CLOCK.ahead = self, self.ahead
        _set_running_loop(self.loop)
        for _ in range(len(ready)):
            if not ready or self.paused:
                break
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()
            if self.fuse:
                self.burn()
        self.world.current, self.ahead = None, CLOCK.ahead
        _set_running_loop(None)


class World:
    """Machines and time. Everything that happens by chance asks `dice`."""

    def __init__(self, seed: int, *, traced: bool = False) -> None:
        self.seed = seed
        self.dice = Random(seed)
        self._random = self.dice.random
        self.now = 0.0
        self.machines: list[Machine] = []
        self.graves: list[Machine] = []
        self.current: Machine | None = None
        self.problems: list[str] = []
        self.faults: Counter[str] = Counter()
        self.trace: list[str] | None = [] if traced else None
        self.laziness = self.dice.choice((0.01, 0.3, 1.5))  # seconds that timers may be late while nothing happens
        self.changed = 0.0  # when the database was changed last
        self.steps = 0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._nested = 0

    def skew(self) -> float:
        """How far the system clock of the current machine is ahead."""
        return 0.0 if self.current is None else self.current.skew

    def failed(self, problem: str) -> None:
        """Note what must not happen."""
        who = "" if self.current is None else f"{self.current.name}: "
        if len(self.problems) < 20:
            self.problems.append(f"{who}{problem}")
        self.note(f"BROKEN: {problem}")

    def note(self, what: str) -> None:
        """Add a line to the trace, if one is kept."""
        if self.trace is not None:
            self.trace.append(f"{self.now:9.3f}  {'' if self.current is None else self.current.name:8}  {what}")

    def fault(self, kind: str, what: str = "") -> None:
        """Count an injected fault."""
        self.faults[kind] += 1
        if self.trace is not None:
            self.note(f"FAULT: {kind} {what}")

    def chance(self, part: float) -> bool:
        """Whether something happens that does so in this part of the cases."""
        return self._random() < part

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Have something happen outside the machines."""
        heappush(self._events, (self.now + seconds, next(self._numbers), call))

    def at(self, moment: float, call: Callable[[], None]) -> None:
        """Have something happen at this moment, after what was to happen then before."""
        heappush(self._events, (moment, next(self._numbers), call))

    async def wait(self, seconds: float) -> None:
        """Wait for something outside this machine."""
        future = asyncio.get_running_loop().create_future()
        self.later(seconds, lambda: None if future.done() else future.set_result(None))
        await future

    def delay(self) -> float:
        """Seconds that a message or an operation takes: mostly few, sometimes many."""
        random = self._random()
        return random * 0.01 if random < 0.92 else (random - 0.92) * 4

    def run(self, done: Callable[[], bool], until: float) -> bool:
        """Run until `done`, at most until this time. Return whether it is done."""
        while self.steps % 8 or not done():
            if self.steps > _MOST:
                self.failed(f"{_MOST} turns, and no end")
                return False
            if not self._turn() and not self._advance(until):
                return done()
        return True

    def come_between(self) -> None:
        """Let others act before the next statement of a machine."""
        if self._nested < _NESTED:
            self._nested += 1
            before, self.current = self.current, None
            if before is not None:
                before.ahead = CLOCK.ahead
            loop = _get_running_loop()
            _set_running_loop(None)
            for _ in range(1 + int(self.dice.random() * 4)):
                self._turn()
            _set_running_loop(loop)
            self.current = before
            if before is not None:
                CLOCK.ahead = before.ahead
            self._nested -= 1

    def _turn(self) -> bool:
        """Let one of those act that can."""
        able: list[Machine | None] = []
        for machine in self.machines:
            if machine.ready and not machine.paused:
                able.append(machine)  # noqa: PERF401 - a comprehension is a call
        events = self._events
        if events and events[0][0] <= self.now:
            able.append(None)
        if not able:
            return False
        self.steps += 1
        one = able[int(self._random() * len(able))] if len(able) > 1 else able[0]
        if one is None:
            heappop(events)[2]()
        else:
            one.take_turn()
        return True

    def _advance(self, until: float) -> bool:
        """Let time pass until something happens. Timers may be late, as on a busy machine."""
        happens, first = self._events[0][0] if self._events else _NEVER, _NEVER
        for one in self.machines:
            if one.loop._scheduled and not one.paused and (due := one.loop.due()) < first:
                first = due
        if first < happens:
            idle = self.now - self.changed > _IDLE
            happens = min(first + self._random() * (_LAZIEST if idle else self.laziness), happens)
        if happens > until:
            return False
        if happens > self.now:
            self.now = happens
        if first <= self.now:
            for one in self.machines:
                if one.loop._scheduled and not one.paused:
                    one.loop.ripen()
        return True

    def dispose(self) -> None:
        """End all machines with their schedule."""
        for one in (*self.machines, *self.graves):
            one.alive = False
            one.loop.dispose()
        self.machines.clear()
        self._events.clear()
