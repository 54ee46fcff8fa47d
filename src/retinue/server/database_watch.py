"""Checks every second that the database is there and locked by this server only."""

from __future__ import annotations

import asyncio
import logging

from ..errors import StoreLost, StoreUnavailable
from ..runs import Runs, recover_runs
from ..store.database import Database

logger = logging.getLogger(__name__)
_EVERY = 1.0  # seconds


async def watch(database: Database, runs: Runs) -> None:
    """Log each problem once, and its end once. If another server may have had the database meanwhile, recover its
    runs."""
    problem, retaken = "", 0
    while True:
        try:
            now = await database.look()
        except StoreUnavailable as error:
            if str(error) != problem:
                logger.log(logging.ERROR if isinstance(error, StoreLost) else logging.WARNING, "not ready: %s", error)
            problem = str(error)
        else:
            if problem:
                logger.warning("ready again: the database is available")
            if now != retaken:
                logger.warning("the database lock was lost with its connection, and has been retaken")
                await recover_runs(runs)
            problem, retaken = "", now
        await asyncio.sleep(_EVERY)
