"""What an API key may use at a time and in a minute, and how many wrong keys an address may send. In memory: of several
servers on one database, each counts for itself."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Literal, NamedTuple

from ..store.api_keys import Key
from . import LimitReached

READ = 0.1  # of a request: clients poll with reads while they wait
AT_ONCE = 100  # wrong keys per address that are refused without a wait
EVERY = 1.0  # seconds until one more is
_ADDRESSES = 10_000  # remembered, least recently seen dropped first
_ROUNDING = 1e-6  # tolerates clients that waited exactly as long as told
_WORDS = {"requests": "requests per min (RPM)", "tokens": "tokens per min (TPM)"}
Kind = Literal["requests", "tokens"]
KINDS: tuple[Kind, ...] = ("requests", "tokens")


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of a key; `None` is unlimited. `requests` and `tokens` are per minute; `runs` may be active at a time,
    and `queue` more may wait; `streams` may be open."""

    requests: int | None = None
    tokens: int | None = None
    runs: int | None = None
    queue: int | None = None
    streams: int | None = None


NAMES = tuple(one.name for one in fields(Bounds))


class Level(NamedTuple):
    """How a key stands with a limit per minute: what is left, and the seconds until all of it is."""

    kind: Kind
    limit: int
    left: int
    resets: float


class KeyLimits:
    """The limits and the use of each key. Keys without their own limits have the `usual` ones. `clock` returns
    seconds."""

    def __init__(self, usual: Bounds = Bounds(), clock: Callable[[], float] = time.monotonic) -> None:
        self._usual = usual
        self._clock = clock
        self._own: dict[str, Bounds] = {}
        self._buckets: dict[tuple[str, Kind], Bucket] = {}
        self.streams: Counter[str] = Counter()
        """Open streams by key."""

    def know(self, key: Key) -> None:
        """Register a key's own limits."""
        if key.limits and key.id not in self._own:
            own = {name: value for name, value in key.limits.items() if name in NAMES}
            self._own[key.id] = replace(self._usual, **own)

    def of(self, key_id: str | None) -> Bounds:
        """Return a key's limits."""
        return self._own.get(key_id or "", self._usual)

    def runs(self, key_id: str | None) -> int | None:
        """Return how many runs of a key may be active."""
        return self.of(key_id).runs

    def room(self, key_id: str, at_once: int) -> int | None:
        """Return how many runs of a key may be active or queued, where `at_once` may be active of all keys; `None` if
        unlimited."""
        bounds = self.of(key_id)
        return None if bounds.queue is None else min(at_once, bounds.runs or at_once) + bounds.queue

    def request(self, key_id: str, *, reads: bool) -> None:
        """Count a request. Raises `LimitReached` if it is one too many."""
        wanted = READ if reads else 1.0
        bucket = self._bucket(key_id, "requests")
        if bucket is not None and not bucket.take(wanted):
            raise bucket.reached("requests", wanted)

    def tokens(self, key_id: str) -> None:
        """Raise `LimitReached` if a key's tokens are used up."""
        bucket = self._bucket(key_id, "tokens")
        if bucket is not None and bucket.level() < 1.0:
            raise bucket.reached("tokens", 1.0)

    def spent(self, key_id: str | None, tokens: int) -> None:
        """Count a run's tokens. They are known only afterwards, so a key may go into debt."""
        if key_id is not None and (bucket := self._bucket(key_id, "tokens")) is not None:
            bucket.take(tokens, owing=True)

    def levels(self, key_id: str) -> Iterator[Level]:
        """Yield how a key stands with each limit per minute that it has."""
        for kind in KINDS:
            if (bucket := self._bucket(key_id, kind)) is not None:
                left = max(0, math.floor(bucket.level()))
                yield Level(kind, bucket.size, left, bucket.seconds_to(bucket.size))

    def _bucket(self, key_id: str, kind: Kind) -> Bucket | None:
        size: int | None = getattr(self.of(key_id), kind)
        if size is None:
            return None
        return self._buckets.setdefault((key_id, kind), Bucket(size, 60.0, self._clock))


class KeyThrottle:
    """Counts wrong keys by address; each may send `at_once`, and then one a second. Valid keys are accepted from any
    address. `clock` returns seconds."""

    def __init__(self, at_once: int = AT_ONCE, clock: Callable[[], float] = time.monotonic) -> None:
        self._at_once = at_once
        self._clock = clock
        self._buckets: dict[str, Bucket] = {}  # the least recently seen first

    def count(self, address: str) -> float:
        """Count one more. Return the seconds until the next is accepted; 0 if this one is."""
        bucket = self._buckets.pop(address, None) or Bucket(self._at_once, self._at_once * EVERY, self._clock)
        self._buckets[address] = bucket
        if len(self._buckets) > _ADDRESSES:
            del self._buckets[next(iter(self._buckets))]
        return 0.0 if bucket.take(1.0) else bucket.seconds_to(1.0)


class Bucket:
    """A token bucket of capacity `size`, refilled within `seconds`."""

    def __init__(self, size: int, seconds: float, clock: Callable[[], float]) -> None:
        self.size = size
        self._seconds = seconds
        self._clock = clock
        self._level, self._at = float(size), clock()

    def level(self) -> float:
        """Return what is available now."""
        now = self._clock()
        self._level = min(self.size, self._level + (now - self._at) * self.size / self._seconds)
        self._at = now
        return self._level

    def take(self, amount: float, *, owing: bool = False) -> bool:
        """Take an amount. Return whether it was available."""
        if self.level() < amount - _ROUNDING and not owing:
            return False
        self._level -= amount
        return True

    def seconds_to(self, amount: float) -> float:
        """Return the seconds until an amount is available."""
        return max(0.0, (amount - self.level()) * self._seconds / self.size)

    def reached(self, kind: Kind, wanted: float) -> LimitReached:
        """Return the error for an amount that is not available."""
        seconds = max(0.001, self.seconds_to(wanted))
        used = math.ceil(self.size - self.level())
        said = f"Limit {self.size}, Used {used}, Requested 1. Please try again in {format_duration(seconds)}."
        return LimitReached(kind, f"Rate limit reached for {_WORDS[kind]}: {said}", seconds)


def format_duration(seconds: float) -> str:
    """Format seconds as OpenAI does: `12ms`, `1s`, `6m0s`."""
    if seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms"
    minutes, rest = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{f'{hours}h' if hours else ''}{f'{minutes}m' if minutes or hours else ''}{rest}s"
