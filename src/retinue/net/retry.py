"""How long a request may take, and when it is repeated after a transient failure.

What may be repeated is for the caller to know: a request that may have been executed is not.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf

from ..core.protocols import Chunks, Retry
from ..errors import ModelUnavailable

_SECONDS = re.compile(r"\s*(\d{1,12}(?:\.\d+)?(?:e\d)?)\s*(?:(ms|s|m)[a-z]*)?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Seconds to connect, between two pieces of a reply (or before the first), and in total."""

    connect: float = 10.0
    idle: float = 120.0
    total: float = 600.0


@dataclass(frozen=True, slots=True)
class Retries:
    """Exponential backoff with jitter: `tries` in total.

    Waits double from `first_wait` seconds, half of each is random, and none exceeds `longest_wait`.
    """

    tries: int = 5
    first_wait: float = 1.0
    longest_wait: float = 60.0


class Attempts:
    """Counts the attempts at one thing, and says how long to wait before the next; none begins `seconds` after now."""

    def __init__(self, retries: Retries, seconds: float = inf) -> None:
        self._retries = retries
        self._until = time.monotonic() + seconds
        self._failures = 0

    def count_failure(self, retry_after: float | None = None) -> float | None:
        """Count a failure, and return the seconds before the next attempt; `None` if there is none.

        `retry_after` is honored; there is no next attempt if it exceeds the longest wait, or the time that is left.
        """
        self._failures += 1
        limits = self._retries
        if self._failures >= limits.tries:
            return None
        wait = retry_after
        if wait is None:
            backoff = limits.first_wait * 2.0 ** (self._failures - 1)
            wait = min(limits.longest_wait, backoff) * random.uniform(0.5, 1.0)
        return None if wait > limits.longest_wait or time.monotonic() + wait > self._until else wait

    def plan_retry(self, error: ModelUnavailable) -> Retry:
        """Count a failure, and return the next retry. Raises `error` if there is none."""
        wait, asked, longest = self.count_failure(error.retry_after), error.retry_after, self._retries.longest_wait
        if wait is not None:
            return Retry(str(error), wait)
        if asked is None or asked <= longest or self._failures >= self._retries.tries:
            raise error
        too_long = f"{error} (it asks to wait {asked:.0f} s, longer than the {longest:.0f} s allowed)"
        later = ModelUnavailable(too_long, asked)
        later.code = error.code
        raise later from error


async def with_retries(attempt: Callable[[], Chunks], retries: Retries) -> Chunks:
    """Yield from `attempt`. After a `ModelUnavailable`, yield a `Retry` and start the next attempt from scratch."""
    attempts = Attempts(retries)
    while True:
        chunks = attempt()
        try:
            async for chunk in chunks:
                yield chunk
            return
        except ModelUnavailable as error:
            retry = attempts.plan_retry(error)
        finally:
            await chunks.aclose()
        yield retry
        await asyncio.sleep(retry.seconds)


def parse_retry_after(header: str | None) -> float | None:
    """Parse a `Retry-After` header (RFC 9110: a number of seconds or a date; some servers write the unit) into seconds;
    `None` if it is invalid."""
    if not header:
        return None
    if plain := _SECONDS.fullmatch(header):
        return float(plain[1]) * {"ms": 0.001, "m": 60.0}.get((plain[2] or "").lower(), 1.0)
    from email.utils import parsedate_to_datetime  # imported late, as few servers send a date

    try:
        date = parsedate_to_datetime(header)
        seconds = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - datetime.now(UTC).timestamp()
    except (ValueError, OverflowError):
        return None
    return max(0.0, seconds)
