"""Serving on loopback from a thread, so that blocking code and other processes can talk to it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Self

from aiohttp import web


class Loopback:
    """`app` on a random port of 127.0.0.1, on a thread with an event loop of its own.

    Handlers that hang wait for `closing`.
    """

    def __init__(self, app: web.Application) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="loopback", daemon=True)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        self.closing = asyncio.Event()
        self.url = ""

    def start(self) -> None:
        """Listen."""
        self._thread.start()
        self.url = self._done(self._listen())

    def stop(self) -> None:
        """Let go of every connection and end."""
        self._done(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def connections(self) -> int:
        """How many are open at this moment."""
        served = self._runner.server.connections if self._runner.server else ()
        return sum(one.transport is not None for one in served)  # of one whose handler hangs, it is closed

    def _done(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=20)

    async def _listen(self) -> str:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0]
        return f"http://{host}:{port}"

    async def _close(self) -> None:
        self.closing.set()
        await self._runner.cleanup()
        await self._loop.shutdown_asyncgens()


class Served:
    """A stand-in: it listens as long as `with` lasts, at `url`, and does what its `app` says."""

    def __init__(self, app: web.Application) -> None:
        self._loopback = Loopback(app)

    @property
    def url(self) -> str:
        """Its address."""
        return self._loopback.url

    def __enter__(self) -> Self:
        self._loopback.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loopback.stop()
