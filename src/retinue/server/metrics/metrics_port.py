"""The port of a process at which its metrics are served, if it has one. Without one, nothing of this is imported."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..._internal.concurrency import supervise
from ..http.connections import listen, url_of

if TYPE_CHECKING:
    from .process_watch import ProcessWatch


@dataclass(frozen=True, slots=True)
class MetricsPort:
    """Where metrics are served; port 0 picks a free one. `told` is called with the address. `hosts` are names besides
    those of this network."""

    host: str
    port: int
    told: Callable[[str], None]
    hosts: tuple[str, ...] = ()


@asynccontextmanager
async def watched(port: MetricsPort | None) -> AsyncIterator[ProcessWatch | None]:
    """Serve the metrics of this process while in the block, if there is a `port` for them. Raises `UsageError` if it
    cannot listen there."""
    if port is None:
        yield None
        return
    from .loop_watch import LoopWatch
    from .metrics_server import MetricsServer
    from .process_watch import ProcessWatch

    listening = listen(port.host, port.port, "--metrics-port")
    loop = LoopWatch()
    watch = ProcessWatch(loop)
    server = MetricsServer(listening, watch.pages, (port.host, *port.hosts))
    measuring = asyncio.create_task(supervise("measuring the event loop", loop.keep_watch), name="event loop lag")
    server.start()
    try:
        port.told(f"{url_of(port.host, listening)}/metrics")
        yield watch
    finally:
        measuring.cancel()
        with suppress(asyncio.CancelledError):
            await measuring
        server.close()
