"""Throttles wrong API keys by address. Valid keys are accepted from any address."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

AT_ONCE = 100  # wrong keys per address that get 401 at once
EVERY = 1.0  # seconds until one more does
HELD = 1.0  # seconds before an excess request is answered
_ADDRESSES = 10_000  # remembered, least recently seen dropped first


class KeyThrottle:
    """Counts wrong keys by address; each address may send `at_once`. `clock` returns seconds."""

    def __init__(self, at_once: int = AT_ONCE, clock: Callable[[], float] = time.monotonic) -> None:
        self._at_once = at_once
        self._clock = clock
        self._free_at: OrderedDict[str, float] = OrderedDict()  # when all of an address's keys will have expired

    def count(self, address: str) -> float:
        """Count one more. Return the seconds until the next is accepted; 0 if this one is."""
        now = self._clock()
        free_at = max(now, self._free_at.pop(address, now))
        wait = free_at - now - (self._at_once - 1) * EVERY
        self._free_at[address] = free_at if wait > 0 else free_at + EVERY
        if len(self._free_at) > _ADDRESSES:
            self._free_at.popitem(last=False)
        return max(0.0, wait)
