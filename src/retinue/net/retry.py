"""Retries after transient failures of an engine."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from ..core.protocols import Chunks, Retry
from ..errors import ModelUnavailable

_SECONDS = re.compile(r"\s*(\d{1,12}(?:\.\d+)?(?:e\d)?)\s*(?:(ms|s|m)[a-z]*)?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Retries:
    """Exponential backoff with jitter: `tries` in total.

    Waits double from `first_wait` seconds, half of each is random, and none exceeds `longest_wait`.
    """

    tries: int = 5
    first_wait: float = 1.0
    longest_wait: float = 60.0


def next_retry(failures: int, error: ModelUnavailable, retries: Retries) -> Retry:
    """Return the next retry after `failures` failures, of which `error` is the last; raise it if no tries are left.

    `error.retry_after` is honored, unless it exceeds `longest_wait`: then `error` is raised.
    """
    if failures >= retries.tries:
        raise error
    wait = error.retry_after
    if wait is None:
        wait = min(retries.longest_wait, retries.first_wait * 2 ** (failures - 1)) * random.uniform(0.5, 1.0)
    if wait > retries.longest_wait:
        too_long = f"{error} (it asks to wait {wait:.0f} s, longer than the {retries.longest_wait:.0f} s allowed)"
        later = ModelUnavailable(too_long, wait)
        later.code = error.code
        raise later from error
    return Retry(str(error), wait)


async def with_retries(attempt: Callable[[], Chunks], retries: Retries) -> Chunks:
    """Yield from `attempt`. After a `ModelUnavailable`, yield a `Retry` and start the next attempt from scratch."""
    failures = 0
    while True:
        chunks = attempt()
        try:
            async for chunk in chunks:
                yield chunk
            return
        except ModelUnavailable as error:
            failures += 1
            retry = next_retry(failures, error, retries)
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
