"""A model endpoint: how long replies take, how many are made side by side, and how many a minute."""

from __future__ import annotations

import math
import random
from collections.abc import Generator
from typing import Any

from ...net.retry import Retries
from .machine import Program
from .run_places import Places
from .virtual_time import VirtualTime, Wait
from .workload import Endpoint

TRIES = Retries().tries  # of a request, as the product makes them


class _Bucket:
    """A limit per minute: what is left fills up evenly, and holds `burst` at most."""

    def __init__(self, per_minute: float, burst: float) -> None:
        self._rate = per_minute / 60
        self._burst = self._left = burst
        self._at = 0.0

    def missing(self, now: float, amount: float) -> float:
        """Return the seconds until there is so much."""
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        return max(0.0, (min(amount, self._burst) - self._left) / self._rate)

    def take(self, amount: float) -> None:
        self._left -= amount


class RateLimitedEndpoint:
    """Replies, or refuses with a pause as a 429 with `Retry-After` does. Counts of both may be set to 0."""

    def __init__(self, time: VirtualTime, what: Endpoint, dice: random.Random, program: Program) -> None:
        self.replies = self.refusals = 0
        self.places = Places(time, 1, what.places or math.inf)
        self._time = time
        self._what = what
        self._dice = dice
        self._program = program
        limits = ((what.requests_per_minute, 1.0), (what.tokens_per_minute, float(what.tokens)))
        self._limits = [(_Bucket(most, most / 60 * what.burst_seconds), each) for most, each in limits if most]

    def ask(self, cpu: float) -> Generator[Wait, Any, bool]:
        """Ask until there is a reply, or a run's tries are used up. `cpu`: what a reply costs this endpoint's program,
        where that shares the machine."""
        for left in reversed(range(TRIES)):
            pause = self._pause()
            if not pause:
                yield from self._reply(cpu)
                return True
            self.refusals += 1
            if left:
                yield self._time.after(pause)
        return False

    def _reply(self, cpu: float) -> Generator[Wait, Any, None]:
        owner = yield self.places.take()
        if cpu:
            yield self._program.work(cpu)
        yield self._time.after(drawn(self._dice, self._what.seconds, self._what.spread))
        self.places.give(owner)
        self.replies += 1

    def _pause(self) -> float:
        """Count a request, or return the seconds after which another try makes sense, rounded up as servers do."""
        missing = max((bucket.missing(self._time.now, each) for bucket, each in self._limits), default=0.0)
        if missing > 1e-9:
            return float(math.ceil(missing))
        for bucket, each in self._limits:
            bucket.take(each)
        return 0.0


def drawn(dice: random.Random, mean: float, spread: float) -> float:
    """Draw from a gamma distribution with this mean and coefficient of variation: 0 is constant, 1 exponential."""
    if not mean or not spread:
        return mean
    shape = 1 / spread**2
    return dice.gammavariate(shape, mean / shape)
