"""PostgreSQL's notifications: short texts to every process that listens at the moment. Nobody keeps them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import Connection, Engine, text

from .._internal.concurrency import run_in_thread
from ..errors import StoreUnavailable
from .engines import translate_errors

_CHANNEL = "retinue"
_NOTIFY = text("SELECT pg_notify(:channel, :said)")


def notify(connection: Connection, said: Sequence[str]) -> None:
    """Send texts, each of fewer than 8,000 bytes, to every process that listens, this one among them."""
    connection.execute(_NOTIFY, [{"channel": _CHANNEL, "said": one} for one in said])


@asynccontextmanager
async def listening(engine: Engine, heard: Callable[[str], None]) -> AsyncIterator[asyncio.Future[None]]:
    """Have `heard` called in the event loop with each text that arrives, while the block is entered. What is yielded
    raises `StoreUnavailable` once the connection is lost. Raises that, too, if there is none."""
    loop = asyncio.get_running_loop()
    lost: asyncio.Future[None] = loop.create_future()
    left = threading.Event()
    connecting = asyncio.ensure_future(run_in_thread(_connect, engine, left))
    try:
        connection = await asyncio.shield(connecting)
    except asyncio.CancelledError:
        left.set()  # for the thread, since the loop may end before it does
        connecting.add_done_callback(_close)
        raise
    socket = connection.fileno()

    def take() -> None:
        try:
            connection.pgconn.consume_input()
            while (one := connection.pgconn.notifies()) is not None:
                heard(one.extra.decode())
        except Exception as error:  # the driver's errors: the connection is of no more use
            loop.remove_reader(socket)
            if not lost.done():
                lost.set_exception(StoreUnavailable(f"PostgreSQL's notifications: {error}"))

    loop.add_reader(socket, take)
    try:
        yield lost
    finally:
        loop.remove_reader(socket)
        lost.cancel()
        connection.close()


def _connect(engine: Engine, left: threading.Event) -> Any:
    """Return a connection of the driver that listens, and that the pool does not know; it is closed if whoever waits
    for it has `left`."""
    with translate_errors():
        pooled = engine.raw_connection()
        connection: Any = pooled.driver_connection
        pooled.detach()
        connection.autocommit = True
        connection.execute(f"LISTEN {_CHANNEL}")
        if left.is_set():
            connection.close()
        return connection


def _close(connecting: asyncio.Future[Any]) -> None:
    """Close a connection for which nobody waits any more."""
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().close()
