"""Periodic maintenance: expires late runs, starts queued runs, and deletes old ones."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import count
from typing import NamedTuple, TypeVar

from sqlalchemy import Connection

from ..errors import RetinueError, StoreConflict, StoreUnavailable
from ..runs import OutsideChanges
from ..runs.cancellation import cancel_run, discard_run, fail_run
from ..store.api_keys import keys_since
from ..store.clock import CLOCK
from ..store.database import Database
from ..store.processes import is_leader
from ..store.run_queries import (
    continued_runs,
    find_run,
    left_callers,
    next_waiting_run,
    runs_past_expiry,
    shift_expiry,
    threads_waited_for,
)
from ..store.run_row import UNREADABLE, RunRow
from .context import Server
from .http.api_errors import ApiError
from .retention import Retention
from .run_session import admit_waiting_run

T = TypeVar("T")
logger = logging.getLogger(__name__)
_NEW = 600  # seconds for which a key is new, also by another machine's clock
_EVERY, _LEARNS = 1.0, 5.0  # seconds
_THOROUGH = 4  # one of so many looks at what is due


async def run_maintenance(server: Server) -> None:
    """Run all maintenance tasks forever: expire runs, start runs whose thread is free, and occasionally delete old
    ones. Of several processes on one database, the leader does what concerns all. Exceptions are logged, and affect
    neither the other tasks nor the next round."""
    now_and_then, retention = _Seldom(server), Retention(server)
    outside = OutsideChanges(server.runs)
    own: dict[str, Callable[[], Awaitable[None]]] = {
        "heeding commands": outside.heed,
        "adjusting run expiry to the clock": partial(_follow_clock, server.database),
        "learning what other servers left": now_and_then.learn,
    }
    said: dict[str, str] = {}

    rounds = count()

    async def lead() -> None:
        database = server.database
        thorough = next(rounds) % _THOROUGH == 0
        look = partial(_due, process=database.process, shared=database.is_shared, thorough=thorough)
        due = await database.read(look)
        if due is None:
            return
        shared: dict[str, Callable[[], Awaitable[None]]] = {
            "expiring runs": partial(_end_late, server, due.late),
            "starting queued runs": partial(_begin_waiting, server, due.waited_for),
            "continuing runs that nobody drives": partial(_continue_runs, server, due.left),
            "deleting old data": retention.delete_old,
        }
        for name, duty in shared.items():
            await _do(name, duty, said)

    while True:
        for name, duty in own.items():
            await _do(name, duty, said)
        await _do("finding out what is due", lead, said)
        await asyncio.sleep(_EVERY)


class _Due(NamedTuple):
    """What a leader has to do: runs that are late, threads that runs wait for, and runs that nobody drives."""

    late: Sequence[str]
    waited_for: Sequence[str]
    left: Sequence[str]


def _due(connection: Connection, process: str, *, shared: bool, thorough: bool) -> _Due | None:
    """Return what `process` has to do for all that share the database, `None` if another one leads. Only a `thorough`
    look sees what may wait for some seconds."""
    if not is_leader(connection, process):
        return None
    return _Due(
        runs_past_expiry(connection, int(CLOCK.now())),
        threads_waited_for(connection),
        # if the database is shared, peers have the former
        [*([] if shared else continued_runs(connection)), *(left_callers(connection) if thorough else ())],
    )


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


async def _end_late(server: Server, late: Sequence[str]) -> None:
    for run_id in late:
        server.halted(await _of_run(server, run_id, partial(_expire, run_id=run_id)))


async def _begin_waiting(server: Server, waited_for: Sequence[str]) -> None:
    for thread_id in waited_for:
        await begin_next(server, thread_id)


async def _continue_runs(server: Server, left: Sequence[str]) -> None:
    for run_id in left:
        if run_id not in server.runs.here:
            server.runs.dispatch(run_id)


async def begin_next(server: Server, thread_id: str) -> None:
    """Start the run that waits for a thread, if the thread is free. If it cannot be started, it fails, and the next is
    tried."""
    while (run_id := await server.database.read(partial(next_waiting_run, thread_id=thread_id))) is not None:
        begun = await _of_run(server, run_id, partial(admit_waiting_run, run_id=run_id, options=server.options))
        if begun is True:
            server.runs.dispatch(run_id)
        if not isinstance(begun, RunRow):
            return
        server.halted(begun)


async def _of_run(server: Server, run_id: str, work: Callable[[Connection], T]) -> T | RunRow | None:
    """Return what `work`, which concerns one run, returns. If it raises, that run fails, without affecting others. If
    another server changes the run meanwhile, return `None`; the next round sees what is left to do."""
    try:
        return await server.database.write(work)
    except StoreConflict:
        return None
    except StoreUnavailable:
        raise
    except Exception as error:
        known = isinstance(error, ApiError | RetinueError)
        problem = str(error) if known else f"the stored data of this run cannot be read ({type(error).__name__})"
        logger.warning("the run %s failed: %s", run_id, problem, exc_info=not known)
        code = "invalid_prompt" if isinstance(error, ApiError) else "server_error"
        return await server.database.write(partial(_fail, run_id=run_id, problem=problem, code=code))


def _fail(connection: Connection, run_id: str, problem: str, code: str) -> RunRow | None:
    try:
        run = find_run(connection, run_id, lock=True)
    except UNREADABLE:  # even the row is unreadable
        discard_run(connection, run_id, problem)
        return None
    return fail_run(connection, run, problem, code) if run is not None and run.active else None


class _Seldom:
    """Tasks that need not run every second."""

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


def _expire(connection: Connection, run_id: str) -> RunRow | None:
    run = find_run(connection, run_id, lock=True)
    late = run is not None and run.holds and run.expires_at is not None and run.expires_at <= int(CLOCK.now())
    return cancel_run(connection, run, "expired") if run is not None and late else None
