"""The runs of this process that wait until the database is available again."""

from __future__ import annotations

import asyncio
import logging

from ..errors import StoreUnavailable

logger = logging.getLogger(__name__)
_BACK_OFF = (0.1, 0.5, 2.0, 5.0)  # seconds between retries while the database is unavailable


class ParkedRuns:
    """Counts the runs that wait (`number`)."""

    def __init__(self) -> None:
        self.number = 0

    async def wait(self, run_id: str, error: StoreUnavailable, tries: int) -> None:
        """Wait before a run's work is tried again, which failed `tries` times before."""
        seconds = _BACK_OFF[min(tries, len(_BACK_OFF) - 1)]
        logger.warning("the run %s is parked for %.1f s: %s", run_id, seconds, error)
        self.number += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self.number -= 1
