"""What a process does beside requests: it keeps its runs, maintains and watches the database, and hands its runs over
when it stops."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

from sqlalchemy import Connection

from .._internal.concurrency import supervise
from ..errors import StoreLost, StoreUnavailable, UsageError
from ..runs import DueRuns, Runs
from ..runs.due import DriveMode
from ..store.database import Database
from ..store.processes import DEAD_AFTER
from .context import Options, Server
from .http.api_errors import ApiError
from .maintenance import run_maintenance
from .run_session import admit_waiting_run

logger = logging.getLogger(__name__)
_EVERY = 2.0  # seconds between two looks at the database
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@asynccontextmanager
async def background(server: Server, grace: float, mode: DriveMode = "yes") -> AsyncIterator[None]:
    """Do it while in the block. At its end, runs get `grace` seconds to finish, and the rest is parked. `mode` says
    whether this process drives runs."""
    due = DueRuns(server.runs, partial(admit_run, options=server.options), mode)
    await due.join()
    server.indexing.wake()
    duties: dict[str, Callable[[], Awaitable[None]]] = {
        "maintenance of runs": partial(run_maintenance, server),
        "watching the database": partial(watch, server.database),
    }
    tasks = [asyncio.create_task(supervise(name, work), name=name) for name, work in duties.items()]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await due.begin_stop()
        await server.runs.close(grace)
        await server.indexing.close()
        await due.leave()


@asynccontextmanager
async def only_shown(server: Server) -> AsyncIterator[None]:
    """Leave what is stored as it is while in the block. News of other processes' runs arrive."""
    server.runs.drives = False
    tasks = []
    if server.database.notifies:
        listening = supervise("notifications of other servers", server.runs.notifier.keep_listening)
        tasks.append(asyncio.create_task(listening))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.runs.close(0.0)
        await server.indexing.close()


def admit_run(connection: Connection, run_id: str, options: Options) -> bool:
    """Let a run that waits have its thread. Return whether it was still waiting. Raises `UsageError` if its messages
    can no longer be added."""
    try:
        return admit_waiting_run(connection, run_id, options)
    except ApiError as error:
        raise UsageError(str(error)) from error


def stop_on_signals(stop: asyncio.Event) -> None:
    """Set `stop` upon SIGTERM or SIGINT; a second signal ends the process."""
    loop = asyncio.get_running_loop()

    def stopped() -> None:
        stop.set()
        for one in _SIGNALS:
            loop.remove_signal_handler(one)
            signal.signal(one, signal.SIG_DFL)  # the log survives that

    for one in _SIGNALS:
        loop.add_signal_handler(one, stopped)


def begin_anew_when_frozen(runs: Runs) -> None:
    """Have this process begin anew if it was stopped (SIGSTOP) and goes on (SIGCONT) after others took it for dead:
    its runs are theirs, and a call that it was about to make must not be made any more."""

    def went_on(*_: object) -> None:
        if time.monotonic() - runs.alive_at > DEAD_AFTER:
            os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])

    signal.signal(signal.SIGCONT, went_on)


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
