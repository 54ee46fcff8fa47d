"""What goes on by itself: runs whose time is up, those that wait for their thread, those that are to be forgotten."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial

from sqlalchemy import Connection, delete, false, func, select, update

from ..errors import RetinueError, StoreUnavailable
from ..runs.halting import halt
from ..store.clock import CLOCK
from ..store.database import Database
from ..store.rows import ACTIVE, RunRow
from ..store.tables import events, runs
from .assistants.starting import promote
from .context import Server
from .files.indexing import expire
from .middleware.repeating import sweep

_LOG = logging.getLogger("retinue.server")
_EVERY, _FORGETS = 1.0, 600.0  # seconds
_CHATS = 86_400  # seconds that a chat completion, which nobody asked to store, is kept
_AT_ONCE = 500


async def keep(server: Server) -> None:
    """End runs whose time is up, begin those whose thread is free, and now and then forget old ones, for ever."""
    forgot = -_FORGETS
    while True:
        try:
            await _follow_clock(server.database)
            for run in await server.database.read(_late):
                server.halted(await server.database.write(partial(_expire, run_id=run.id)))
            for thread_id in await server.database.read(_waiting):
                await begin_next(server, thread_id)
            if time.monotonic() - forgot >= min(_FORGETS, server.options.retention or _FORGETS):
                await server.database.write(sweep)
                while await server.database.write(partial(_forget, retention=server.options.retention)):
                    pass  # a few at a time: others write, too
                server.indexing.wake(*await server.database.write(expire))
                forgot = time.monotonic()
        except RetinueError as error:  # whatever is wrong with one run, the others are kept
            _LOG.warning("%s", error)
        await asyncio.sleep(_EVERY)


async def begin_next(server: Server, thread_id: str) -> None:
    """Begin the run that waits for a thread, if it is free."""
    run_id = await server.database.write(partial(promote, thread_id=thread_id, options=server.options))
    if run_id is not None:
        server.runs.start(run_id)


async def _follow_clock(database: Database) -> None:
    """If the system's clock was set, set the ends of runs with it: none has more or less time for that."""
    by, before = CLOCK.step(), CLOCK.ahead
    if not by:
        return

    def move(connection: Connection) -> None:
        moved = update(runs).where(runs.c.expires_at.is_not(None))
        connection.execute(moved.values(expires_at=runs.c.expires_at + by))
        CLOCK.ahead = before + by

    try:
        await database.write(move, alone=True)
    except StoreUnavailable:
        CLOCK.ahead = before
        raise
    _LOG.warning("the system's clock was set by %+d s, and the ends of the runs with it", by)


def _late(connection: Connection) -> list[RunRow]:
    query = select(runs).where(runs.c.holds, runs.c.expires_at <= int(CLOCK.now()))
    return [RunRow.of(row) for row in connection.execute(query)]


def _expire(connection: Connection, run_id: str) -> RunRow | None:
    row = connection.execute(select(runs).where(runs.c.id == run_id, runs.c.holds)).first()
    return None if row is None else halt(connection, RunRow.of(row), "expired")


def _forget(connection: Connection, retention: int) -> int:
    """Delete some of the runs that ended long ago, and their logs; how many. What was said on threads stays."""
    now = int(time.time())
    stored = func.coalesce(runs.c.request["store"].as_boolean(), false())
    old = runs.c.thread_id.is_(None) & (runs.c.created_at < now - _CHATS) & stored.is_(False)
    if retention:
        old |= runs.c.created_at < now - retention
    query = select(runs.c.id).where(runs.c.status.not_in(ACTIVE), old).limit(_AT_ONCE)
    found = list(connection.execute(query).scalars())
    if found:
        connection.execute(delete(events).where(events.c.run_id.in_(found)))
        connection.execute(delete(runs).where(runs.c.id.in_(found)))
    return len(found)


def _waiting(connection: Connection) -> list[str]:
    """The threads for which runs wait that do not hold them."""
    query = select(runs.c.thread_id).where(runs.c.status == "queued", runs.c.holds.is_(False)).distinct()
    return [thread for thread in connection.execute(query).scalars() if thread is not None]
