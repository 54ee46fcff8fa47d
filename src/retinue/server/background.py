"""What a process does beside requests: it keeps its runs, maintains the database, and hands its runs over when it
stops."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from .._internal.concurrency import supervise
from ..errors import UsageError
from ..runs import Peers
from ..runs.dispatcher import Recoverer
from ..runs.notifier import SharedNotifier
from .context import Server
from .database_watch import watch
from .maintenance import run_maintenance

if TYPE_CHECKING:
    from ..dispatch.temporal_dispatcher import TemporalDispatcher

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@asynccontextmanager
async def background(server: Server, grace: float, recovery: Recoverer | None = None) -> AsyncIterator[None]:
    """Do it while in the block. At its end, runs get `grace` seconds to finish, and the rest is parked. `recovery` has
    the runs driven that other processes left; by default, this process drives them."""
    peers = Peers(server.runs, recovery)
    await peers.join()
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
        await server.runs.close(grace)
        await server.indexing.close()
        await peers.leave()


@asynccontextmanager
async def only_shown(server: Server) -> AsyncIterator[None]:
    """Leave what is stored as it is while in the block. News of other processes' runs arrive."""
    notifier = server.runs.notifier
    listening = notifier.keep_listening if isinstance(notifier, SharedNotifier) else None
    tasks = [asyncio.create_task(supervise("notifications of other servers", listening))] if listening else []
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.runs.close(0.0)
        await server.indexing.close()


async def dispatch_by_temporal(server: Server, address: str) -> TemporalDispatcher:
    """Have the server's runs dispatched by Temporal at `HOST:PORT`, in a queue of the servers and workers that share
    its database. Raises `UsageError` if it cannot be reached, or without the extra."""
    try:
        from ..dispatch.temporal_dispatcher import TemporalDispatcher, connect
    except ModuleNotFoundError as error:
        raise UsageError("Temporal needs the extra 'temporal': pip install 'retinue[temporal]'") from error
    dispatcher = TemporalDispatcher(await connect(address), f"retinue-{await server.id.get()}")
    server.runs.dispatch = dispatcher.dispatch
    server.runs.dispatches = lambda: dispatcher.is_up
    server.runs.beside("watching Temporal", dispatcher.watch)
    return dispatcher


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
