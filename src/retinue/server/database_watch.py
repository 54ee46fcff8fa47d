"""Checks every two seconds that the database is there."""

from __future__ import annotations

import asyncio
import logging

from ..errors import StoreLost, StoreUnavailable
from ..store.database import Database

logger = logging.getLogger(__name__)
_EVERY = 2.0  # seconds


async def watch(database: Database) -> None:
    """Log each problem once, and its end once."""
    problem = ""
    while True:
        try:
            await database.look()
        except StoreUnavailable as error:
            if str(error) != problem:
                logger.log(logging.ERROR if isinstance(error, StoreLost) else logging.WARNING, "not ready: %s", error)
            problem = str(error)
        else:
            if problem:
                logger.warning("ready again: the database is available")
            problem = ""
        await asyncio.sleep(_EVERY)
