"""`retinue worker`: a process that drives runs which servers accept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from .agents.deployment import Deployment
from .background import background
from .context import Server
from .process import Serving, dispatch_by_temporal, opened


async def work(deployment: Deployment, how: Serving, ready: Callable[[], None]) -> None:
    """Drive runs until SIGTERM or SIGINT; a second signal ends the process at once. `ready` is called once it does.
    It claims them in the database, and those that Temporal at `how.temporal` tells it of, if any. Raises `UsageError`
    if Temporal cannot be reached, and what `Database` raises."""
    async with opened(deployment, how, worker=True) as (server, watch, stop):
        if watch is not None:
            watch.add(server)

        def begins() -> None:
            if watch is not None:
                watch.begins(stop.is_set)
            ready()

        await _until(stop, server, how, begins)


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
