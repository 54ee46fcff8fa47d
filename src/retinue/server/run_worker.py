"""The worker process: it drives runs that servers accept, and listens to nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..limits.rate import KeyLimits
from ..store.api_keys import all_keys
from ..store.database import Database
from .agents.deployment import Deployment
from .background import background, stop_on_signals
from .context import Server
from .log_output import set_up, workers_logged
from .metrics.metrics_port import watched
from .process import Serving, assembled, dispatch_by_temporal

if TYPE_CHECKING:
    from .metrics.process_watch import ProcessWatch


async def work(deployment: Deployment, how: Serving, ready: Callable[[], None]) -> None:
    """Drive runs until SIGTERM or SIGINT; a second signal ends the process at once. `ready` is called once it does.
    It claims them in the database, and those that Temporal at `how.temporal` tells it of, if any. Raises `UsageError`
    if Temporal cannot be reached, and what `Database` raises."""
    set_up(how.logging)
    with workers_logged():
        async with watched(how.metrics) as watch:
            await _open(deployment, how, ready, watch)


async def _open(deployment: Deployment, how: Serving, ready: Callable[[], None], watch: ProcessWatch | None) -> None:
    database = Database(how.database, worker=True)
    try:
        limits = KeyLimits(how.bounds)
        for key in await database.read(all_keys):
            limits.know(key)
        stop = asyncio.Event()
        stop_on_signals(stop)
        server = assembled(deployment, database, how, limits)
        if watch is not None:
            watch.add(server)

        def begins() -> None:
            if watch is not None:
                watch.begins(stop.is_set)
            ready()

        await _until(stop, server, how, begins)
    finally:
        await database.close_async()


async def _until(stop: asyncio.Event, server: Server, how: Serving, ready: Callable[[], None]) -> None:
    if not how.temporal:
        async with background(server, how.grace):
            ready()
            await stop.wait()
        return
    dispatcher = await dispatch_by_temporal(server, how.temporal)
    from ..dispatch.temporal import working

    async with background(server, how.grace), working(server.runs, dispatcher) as ended:
        ready()
        waiting = {asyncio.create_task(stop.wait()), asyncio.create_task(ended())}
        done, left = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in left:
            task.cancel()
    await dispatcher.close()
    for task in done:
        task.result()
