"""Usage accounting of API keys. It is in memory: of several servers on one database, each has its own."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Literal

from ...store.api_keys import Key
from .api_errors import ApiError

READ = 0.1  # of a request: clients poll with reads while they wait
_ROUNDING = 1e-6  # tolerates clients that waited exactly as long as told
_WORDS = {"requests": "requests per min (RPM)", "tokens": "tokens per min (TPM)"}


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


class UsageLimits:
    """The limits and usage of each key. Keys without their own limits have the `usual` ones. `clock` returns
    seconds."""

    def __init__(self, usual: Bounds = Bounds(), clock: Callable[[], float] = time.monotonic) -> None:
        self._usual = usual
        self._clock = clock
        self._own: dict[str, Bounds] = {}
        self._buckets: dict[tuple[str, str], _Bucket] = {}
        self.streams: Counter[str] = Counter()  # open streams by key

    def know(self, key: Key) -> Bounds:
        """Register a key's own limits. Return its limits."""
        if key.limits and key.id not in self._own:
            own = {name: value for name, value in key.limits.items() if name in NAMES}
            self._own[key.id] = replace(self._usual, **own)
        return self.of(key.id)

    def of(self, key_id: str | None) -> Bounds:
        """Return a key's limits."""
        return self._own.get(key_id or "", self._usual)

    def runs(self, key_id: str | None) -> int | None:
        """Return how many runs of a key may be active."""
        return self.of(key_id).runs

    def request(self, key_id: str, *, reads: bool) -> None:
        """Count a request. Raises `ApiError` (429) if it exceeds the limit."""
        bucket = self._bucket(key_id, "requests")
        if bucket is not None and not bucket.take(READ if reads else 1.0):
            raise _too_much("requests", bucket, READ if reads else 1.0)

    def tokens(self, key_id: str) -> None:
        """Raise `ApiError` (429) if a key's tokens are used up."""
        bucket = self._bucket(key_id, "tokens")
        if bucket is not None and bucket.level() < 1.0:
            raise _too_much("tokens", bucket, 1.0)

    def spent(self, key_id: str | None, tokens: int) -> None:
        """Count a run's tokens. They are known only afterwards, so a key may go into debt."""
        if key_id is not None and (bucket := self._bucket(key_id, "tokens")) is not None:
            bucket.take(tokens, owing=True)

    def headers(self, key_id: str) -> Iterator[tuple[str, str]]:
        """Yield the rate limit headers of a key."""
        kinds: tuple[Literal["requests", "tokens"], ...] = ("requests", "tokens")
        for kind in kinds:
            if (bucket := self._bucket(key_id, kind)) is not None:
                yield f"x-ratelimit-limit-{kind}", str(bucket.size)
                yield f"x-ratelimit-remaining-{kind}", str(max(0, math.floor(bucket.level())))
                yield f"x-ratelimit-reset-{kind}", duration(bucket.seconds_to(bucket.size))

    def _bucket(self, key_id: str, kind: Literal["requests", "tokens"]) -> _Bucket | None:
        size: int | None = getattr(self.of(key_id), kind)
        if size is None:
            return None
        return self._buckets.setdefault((key_id, kind), _Bucket(size, self._clock))


class _Bucket:
    """A token bucket of capacity `size`, refilled within a minute."""

    def __init__(self, size: int, clock: Callable[[], float]) -> None:
        self.size = size
        self._clock = clock
        self._level, self._at = float(size), clock()

    def level(self) -> float:
        now = self._clock()
        self._level = min(self.size, self._level + (now - self._at) * self.size / 60)
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
        return max(0.0, (amount - self.level()) * 60 / self.size)


def too_many(what: str, most: int) -> ApiError:
    """Return the error for a key that already has `most` of something."""
    said = f"Rate limit reached for {what}: Limit {most}, Used {most}, Requested 1. Please try again in 1s."
    return _refusal(said, "requests", 1.0)


def overloaded() -> ApiError:
    """Return the error for too many requests of all keys together."""
    return _refusal(
        "Rate limit reached for all requests: the server is overloaded. Please try again in 5s.", "requests", 5.0
    )


def _too_much(kind: str, bucket: _Bucket, wanted: float) -> ApiError:
    seconds = max(0.001, bucket.seconds_to(wanted))
    used = math.ceil(bucket.size - bucket.level())
    said = f"Limit {bucket.size}, Used {used}, Requested 1. Please try again in {duration(seconds)}."
    return _refusal(f"Rate limit reached for {_WORDS[kind]}: {said}", kind, seconds)


def _refusal(message: str, kind: str, seconds: float) -> ApiError:
    wait = {"retry-after": str(math.ceil(seconds)), "retry-after-ms": str(math.ceil(seconds * 1000))}
    return ApiError(429, message, kind=kind, code="rate_limit_exceeded", headers=wait)


def duration(seconds: float) -> str:
    """Format seconds as OpenAI does: `12ms`, `1s`, `6m0s`."""
    if seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms"
    whole = math.ceil(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{f'{hours}h' if hours else ''}{f'{minutes}m' if minutes or hours else ''}{rest}s"


def room(bounds: Bounds, at_once: int) -> int | None:
    """Return how many runs of a key may be active or queued; `None` if unlimited."""
    if bounds.queue is None:
        return None
    return min(at_once, bounds.runs or at_once) + bounds.queue
