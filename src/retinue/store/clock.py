"""The clock that the ends of runs are kept by: Unix seconds, as clients see them, but setting the system's clock does
not move it. Who sees that the two differ moves what is kept, and then this one (see `server.keeping`)."""

from __future__ import annotations

import time

_DIFFERS = 2.0  # seconds; less is no matter


class Clock:
    """It goes on evenly, `ahead` seconds before the system's time since it was started."""

    def __init__(self) -> None:
        self.ahead = time.time() - time.monotonic()

    def now(self) -> float:
        """Unix seconds."""
        return self.ahead + time.monotonic()

    def step(self) -> int:
        """The seconds by which the system's clock was set; 0 if it was not, or by next to nothing."""
        by = time.time() - self.now()
        return round(by) if abs(by) >= _DIFFERS else 0


CLOCK = Clock()
"""The process's."""
