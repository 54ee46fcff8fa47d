"""How many wrong keys come from where. Only they are refused: a key that is right is heard wherever it comes from."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

AT_ONCE = 100  # wrong keys of an address that are answered with 401, and
EVERY = 1.0  # seconds until one more is
HELD = 1.0  # seconds that one too many waits for its answer
_ADDRESSES = 10_000  # that are remembered: those that were heard of last


class KeyThrottle:
    """Counts them, by address, each of which may send `at_once`. `clock` counts seconds."""

    def __init__(self, at_once: int = AT_ONCE, clock: Callable[[], float] = time.monotonic) -> None:
        self._at_once = at_once
        self._clock = clock
        self._free_at: OrderedDict[str, float] = OrderedDict()  # when all that an address has sent is forgotten

    def count(self, address: str) -> float:
        """One more: the seconds until the next may come; 0 if this one may."""
        now = self._clock()
        free_at = max(now, self._free_at.pop(address, now))
        wait = free_at - now - (self._at_once - 1) * EVERY
        self._free_at[address] = free_at if wait > 0 else free_at + EVERY
        if len(self._free_at) > _ADDRESSES:
            self._free_at.popitem(last=False)
        return max(0.0, wait)
