"""Background work that continues during a conversation."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future

from .._internal.processes import in_forked_child
from .._internal.sync_bridge import start_in_background
from ..errors import RetinueError

logger = logging.getLogger(__name__)


class Background:
    """Runs `work` while it is `due`, one call at a time, on the process's background loop, so it outlives the caller's
    loop.

    An error is logged and stops it until the next nudge.
    """

    def __init__(self, name: str, due: Callable[[], bool], work: Callable[[], Awaitable[None]]) -> None:
        self._name = name
        self._due = due
        self._work = work
        self._begin_idle()
        in_forked_child(self._begin_idle)

    def _begin_idle(self) -> None:
        """Note that no work runs: a forked child's is done by its parent."""
        self._lock = threading.Lock()
        self._running: Future[None] | None = None

    def nudge(self) -> None:
        """Start if there is something to do, without waiting."""
        with self._lock:
            if self._running is None and self._due():
                self._running = start_in_background(self._run())

    async def settled_async(self) -> None:
        """Wait until there is nothing left to do, or it failed."""
        self.nudge()
        if (running := self._running) is not None:
            await asyncio.shield(asyncio.wrap_future(running))

    async def _run(self) -> None:
        try:
            while self._goes_on():
                await self._work()
        except BaseException as error:
            with self._lock:
                self._running = None
            if not isinstance(error, Exception):
                raise
            unknown = not isinstance(error, RetinueError)
            logger.warning("%s was not brought up to date: %s", self._name, error, exc_info=unknown)

    def _goes_on(self) -> bool:
        with self._lock:
            if not self._due():
                self._running = None
            return self._running is not None
