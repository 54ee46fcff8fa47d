"""The clock for expiry times: Unix seconds, unaffected by changes to the system clock. When the two differ,
`server.maintenance` moves the stored times, and then this clock. Servers that share a database follow its clock instead
(`runs.due`): one whose system clock is set would end the runs of others.
"""

from __future__ import annotations

import time

_DIFFERS = 2.0  # seconds; smaller differences are ignored


class Clock:
    """A monotonic clock, offset by `ahead` seconds to the system time at its start."""

    def __init__(self) -> None:
        self.ahead = time.time() - time.monotonic()

    def now(self) -> float:
        """Return the time in Unix seconds."""
        return self.ahead + time.monotonic()

    def step(self) -> int:
        """Return by how many seconds the system clock was changed; 0 if negligibly."""
        by = time.time() - self.now()
        return round(by) if abs(by) >= _DIFFERS else 0

    def follow(self, time: float) -> float:
        """Move to the time of another clock, in Unix seconds, if it differs. Return by how many seconds."""
        by = time - self.now()
        if abs(by) < _DIFFERS:
            return 0.0
        self.ahead += by
        return by


CLOCK = Clock()
"""The process's clock."""
