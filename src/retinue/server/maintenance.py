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
from ..store.audit_chain import has_unsealed, seal
from ..store.clock import CLOCK
from ..store.database import Database
from ..store.processes import is_leader
from ..store.run_files import delete_unused_files
from ..store.run_queries import (
    delete_old_runs,
    delete_silent,
    shift_expiry,
    silent_threads,
)
from ..store.usage_recount import fold_parts
from .context import Options, Server
from .http.idempotency import sweep
from .indexing.queue import expire

logger = logging.getLogger(__name__)
_NEW = 600  # seconds for which a key is new, also by another machine's clock
_EVERY, _LEARNS, _FORGETS = 1.0, 5.0, 600.0  # seconds
_AT_ONCE = 25  # old runs, or threads, that are deleted in one transaction
_PAUSE = 0.05  # seconds for others after each
_SPELL = 0.5  # seconds of each round for old runs


async def run_maintenance(server: Server) -> None:
    """Run all maintenance tasks forever. Of several processes on one database, the leader does what concerns all.
    Exceptions are logged, and affect neither the other tasks nor the next round. Runs are seen to by `runs.due`."""
    now_and_then = _Seldom(server)
    duties: dict[str, Callable[[], Awaitable[None]]] = {
        "adjusting run expiry to the clock": partial(_follow_clock, server.database),
        "learning what other servers left": now_and_then.learn,
        "deleting old data": now_and_then.forget,
        "sealing the audit log": partial(_seal, server.database),
    }
    said: dict[str, str] = {}
    while True:
        for name, duty in duties.items():
            await _do(name, duty, said)
        await asyncio.sleep(_EVERY)


async def _leads(database: Database) -> bool:
    return await database.read(partial(is_leader, process=database.process))


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


async def _seal(database: Database) -> None:
    """Seal the audit log's entries of a shared database: SQLite's one writer seals what it writes."""
    if database.is_shared and await _leads(database) and await database.read(has_unsealed):
        await database.write(seal)


class _Seldom:
    """Tasks that need not run every second."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._done = -_FORGETS
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

    async def forget(self) -> None:
        """Delete expired runs, idempotency keys and files, if it is time."""
        database, options = self._server.database, self._server.options
        kept = (options.retention, options.chat_retention, options.thread_retention)
        often = min(seconds or _FORGETS for seconds in (*kept, _FORGETS))
        if time.monotonic() - self._done < often or not await _leads(database):
            return
        await database.write(sweep)
        await database.write(delete_unused_files)
        await database.write(fold_parts)
        until = time.monotonic() + _SPELL
        while await database.write(partial(_forget, options=options)):
            if time.monotonic() > until:
                return  # the next round goes on; other duties come first
            await asyncio.sleep(_PAUSE)
        if options.thread_retention:
            await self._forget_threads(int(time.time()) - options.thread_retention)
        self._server.indexing.wake(*await database.write(expire))
        self._done = time.monotonic()

    async def _forget_threads(self, before: int) -> None:
        """Delete the threads and conversations without news since `before`, which are found beside the writer."""
        database = self._server.database
        while ids := await database.read(partial(silent_threads, before=before, most=_AT_ONCE)):
            if not await database.write(partial(delete_silent, before=before, ids=ids)):
                return
            await asyncio.sleep(_PAUSE)


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


def _forget(connection: Connection, options: Options) -> int:
    """Delete a batch of runs that ended long ago, with their logs. Return how many. Messages on threads remain."""
    now = int(time.time())
    before, unstored = (now - kept if kept else None for kept in (options.retention, options.chat_retention))
    return delete_old_runs(connection, before, unstored, _AT_ONCE)
