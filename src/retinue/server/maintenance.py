"""Periodic maintenance: deletes old data, follows the clock, and learns what other processes left."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial

from sqlalchemy import Connection

from ..errors import RetinueError, StoreUnavailable
from ..store.api_keys import keys_since
from ..store.clock import CLOCK
from ..store.database import Database
from ..store.processes import is_leader
from ..store.run_queries import shift_expiry
from .context import Server
from .retention import Retention

logger = logging.getLogger(__name__)
_NEW = 600  # seconds for which a key is new, also by another machine's clock
_EVERY, _LEARNS = 1.0, 5.0  # seconds


async def run_maintenance(server: Server) -> None:
    """Run all maintenance tasks forever. Of several processes on one database, the leader does what concerns all.
    Exceptions are logged, and affect neither the other tasks nor the next round. Runs are seen to by `runs.due`."""
    news, retention = _News(server), Retention(server)

    async def forget() -> None:
        if await server.database.read(partial(is_leader, process=server.database.process)):
            await retention.delete_old()

    duties: dict[str, Callable[[], Awaitable[None]]] = {
        "adjusting run expiry to the clock": partial(_follow_clock, server.database),
        "learning what other servers left": news.learn,
        "deleting old data": forget,
    }
    said: dict[str, str] = {}
    while True:
        for name, duty in duties.items():
            await _do(name, duty, said)
        await asyncio.sleep(_EVERY)


async def _do(name: str, duty: Callable[[], Awaitable[None]], said: dict[str, str]) -> None:
    """Run a task. An exception is logged, unless it repeats the last one (`said`)."""
    try:
        await duty()
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        if said.get(name) != problem:  # once, not every second
            unknown = not isinstance(error, RetinueError)
            logger.log(logging.ERROR if unknown else logging.WARNING, "%s: %s", name, error, exc_info=unknown)
        said[name] = problem
    else:
        said.pop(name, None)


class _News:
    """What other processes left in a shared database."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._learned = -_LEARNS

    async def learn(self) -> None:
        """Index the files that other servers left, and learn the limits of keys that were created lately: a worker sees
        no request of theirs."""
        server = self._server
        if not server.database.is_shared or time.monotonic() - self._learned < _LEARNS:
            return
        self._learned = time.monotonic()
        server.indexing.wake()
        for key in await server.database.read(partial(keys_since, when=int(time.time()) - _NEW)):
            server.limits.know(key)


async def _follow_clock(database: Database) -> None:
    """Shift the expiry of runs if the system clock was changed, so that no run gains or loses time. On PostgreSQL, the
    database's clock counts instead."""
    by, before = CLOCK.step(), CLOCK.ahead
    if not by or database.is_shared:
        return

    def move(connection: Connection) -> None:
        shift_expiry(connection, by)
        CLOCK.ahead = before + by

    try:
        await database.write(move, alone=True)
    except StoreUnavailable:
        CLOCK.ahead = before
        raise
    logger.warning("the system clock changed by %+d s; run expiry was shifted with it", by)
