"""The other servers of a PostgreSQL database: this one shows them that it is alive, heeds what they ask of its runs,
and goes on with the runs of those that have ended."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import count

from sqlalchemy import Connection

from .._internal.concurrency import supervise
from ..errors import StoreUnavailable
from ..store.clock import CLOCK
from ..store.processes import EVERY, database_time, end_sessions_of_the_dead, enter, forget_ended, leave, show_life
from .dispatcher import Recoverer
from .driver import Runs
from .notifier import SharedNotifier
from .recovery import Recovery

logger = logging.getLogger(__name__)
_HEEDS, _RECOVERS = 0.5, 1.0  # seconds
_CLOCK = 5  # one of so many looks at other servers reads the clock, too


class Peers:
    """This process of `runs` among those that have the database open. On SQLite it is the only one. `recovery` has the
    runs driven that others left; by default, this process does so."""

    def __init__(self, runs: Runs, recovery: Recoverer | None = None) -> None:
        self._runs = runs
        self._process = runs.database.process
        self._recovery: Recoverer = recovery or Recovery(runs)
        self._tasks: list[asyncio.Task[None]] = []

    async def join(self) -> None:
        """Enter this process, drive what others left, and watch them in the background. Call it before runs are
        started."""
        dead = await self._runs.traces.find_dead()
        await self._runs.database.write(partial(enter, process=self._process))
        self._send_of(dead)
        await self._follow_clock()
        await self._recovery.recover()
        if isinstance(self._runs.notifier, SharedNotifier):
            works = {
                "signs of life": self._live,
                "the watch of other servers": self._heed,
                "notifications of other servers": self._runs.notifier.keep_listening,
            }
            for name, work in works.items():
                self._tasks.append(asyncio.create_task(supervise(name, work), name=name))

    async def leave(self) -> None:
        """Have others take over at once. Call it when no run is driven any more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(StoreUnavailable):
            await self._runs.database.write(partial(leave, process=self._process))

    async def _live(self) -> None:
        while True:
            with suppress(StoreUnavailable):  # which is said elsewhere
                await self._runs.database.write_apart(partial(show_life, process=self._process))
            await asyncio.sleep(EVERY)

    async def _heed(self) -> None:
        recovered = time.monotonic()
        rounds = count()
        while True:
            await asyncio.sleep(_HEEDS)
            try:
                if self._runs.here:
                    await self._runs.interrupt_cancelled()
                if time.monotonic() - recovered >= _RECOVERS:
                    self._send_of(await self._runs.traces.find_dead())
                    await self._runs.database.write_apart(_clear_up)
                    if next(rounds) % _CLOCK == 0:
                        await self._follow_clock()
                    await self._recovery.recover()
                    recovered = time.monotonic()
            except StoreUnavailable as error:
                logger.info("other servers cannot be heeded at the moment: %s", error)

    def _send_of(self, dead: Sequence[str]) -> None:
        if dead:
            self._runs.beside("spans of processes that have died", partial(self._runs.traces.send_of, dead))

    async def _follow_clock(self) -> None:
        """Let the time of runs be the database's: all servers have to agree on when a run is late."""
        if self._runs.database.is_shared:
            self._follow(await self._runs.database.read(database_time))

    def _follow(self, now: float) -> None:
        if by := CLOCK.follow(now):
            logger.warning(
                "the clock of this server differs from the database's by %+.0f s, which counts for runs", -by
            )


def _clear_up(connection: Connection) -> None:
    """See to what dead processes left."""
    end_sessions_of_the_dead(connection)
    forget_ended(connection)
