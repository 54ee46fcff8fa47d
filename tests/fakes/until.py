"""Waiting for what happens in its own time: a condition and a limit, never a fixed sleep."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
SECONDS = 30.0
_EVERY = 0.005


async def until_async(found: Callable[[], Awaitable[T]], seconds: float = SECONDS) -> T:
    """The first true value that `found` gives. Fails after `seconds`."""
    end = time.monotonic() + seconds
    while not (value := await found()):
        assert time.monotonic() < end, f"did not come true within {seconds:g} s; it is {value!r}"
        await asyncio.sleep(_EVERY)
    return value


def until(found: Callable[[], T], seconds: float = SECONDS) -> T:
    """`until_async`, blocking."""
    end = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < end, f"did not come true within {seconds:g} s; it is {value!r}"
        time.sleep(_EVERY)
    return value
