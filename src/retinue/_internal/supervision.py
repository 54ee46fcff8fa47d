"""Supervised background tasks: a crash is logged, and the task restarts."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence

logger = logging.getLogger(__name__)
BACK_OFF = (0.1, 0.5, 2.0, 5.0, 30.0)  # seconds before each restart
_WELL = 60.0  # seconds without a crash after which the back-off is reset


async def supervise(name: str, work: Callable[[], Awaitable[None]], back_off: Sequence[float] = BACK_OFF) -> None:
    """Run `work` until it returns, restarting it after crashes with growing back-off.

    Each crash is logged as an error under `name`. Only cancelling this task ends it: a `CancelledError` raised by
    `work` itself counts as a crash.
    """
    deaths = 0
    while True:
        began = time.monotonic()
        try:
            await work()
            return
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling()):
                raise
            deaths = 1 if time.monotonic() - began > _WELL else deaths + 1
            wait = back_off[min(deaths, len(back_off)) - 1]
            said = f"{type(error).__name__}: {error}"
            logger.error("%s died and begins again in %.1f s: %s", name, wait, said, exc_info=error)
        await asyncio.sleep(wait)
