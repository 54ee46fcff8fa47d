"""A process with `--metrics-port` is serve_metrics: it tells its metrics, whether it lives, and whether it is ready."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, disable_created_metrics
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette

from ..._internal.concurrency import supervise
from ...agent import Agent
from ...run.handoff import Handoff
from ...runs.run_metrics import RunMetrics
from ...store.run_queries import QueueFigures, queue_figures
from ..context import Server
from ..http.connections import listen, url_of
from .metrics_server import MetricsServer, Page
from .process_metrics import FigureWatch, QuotaCollector, StateMetrics, add_process, add_transactions, quota_figures
from .request_metrics import RequestMetrics

DEAD = 60.0  # seconds after which an event loop that is busy with one thing counts as dead
BUSY = 10.0  # seconds after which it takes no runs
EVERY = 0.25  # seconds between two measurements of the event loop
KEPT = 40  # measurements: those of ten seconds
_ANSWERS = 5.0  # seconds for the database to answer a probe


@dataclass(frozen=True, slots=True)
class MetricsPort:
    """Where metrics are served; port 0 picks a free one. `told` is called with the address. `hosts` are names besides
    those of this network."""

    host: str
    port: int
    told: Callable[[str], None]
    hosts: tuple[str, ...] = ()


@asynccontextmanager
async def serve_metrics(port: MetricsPort | None) -> AsyncIterator[ProcessWatch | None]:
    """Serve the metrics of this process while in the block, if there is a `port` for them. Raises `UsageError` if it
    cannot listen there."""
    if port is None:
        yield None
        return
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


class LoopWatch:
    """Measures how late the event loop is: how long whatever runs in it keeps others waiting. It wakes regularly
    (`keep_watch`), and says how late that was. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._late: deque[float] = deque(maxlen=KEPT)
        self._due: float | None = None

    async def keep_watch(self) -> None:
        """Measure until cancelled."""
        while True:
            self._due = self._clock() + EVERY
            await asyncio.sleep(EVERY)
            self._late.append(max(0.0, self._clock() - self._due))

    @property
    def overdue(self) -> float:
        """The seconds for which the loop has been late by now, as seen from another thread."""
        return 0.0 if self._due is None else max(0.0, self._clock() - self._due)

    @property
    def lag(self) -> float:
        """The most seconds by which it was late within ten seconds."""
        return max([self.overdue, *tuple(self._late)])


class ProcessWatch:
    """The metrics of one process, and what its probes are told."""

    def __init__(self, loop: LoopWatch) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # they double the series, and say what `process_start_time_seconds` does
        self.registry = CollectorRegistry()
        self._loop = loop
        self._queue: FigureWatch[QueueFigures] | None = None
        self._stopping: Callable[[], bool] | None = None
        self.pages = {"/metrics": self.metrics, "/health": self.health, "/ready": self.ready}
        add_process(self.registry, lambda: loop.lag)

    def add(self, server: Server, app: Starlette | None = None) -> None:
        """Measure a process that is about to serve `app`, or to drive runs alone. Further metrics are added here, by a
        class that takes the registry."""
        registry, runs = self.registry, server.runs
        self._queue = FigureWatch(server.database, partial(queue_figures, process=server.database.process))
        runs.meter = RunMetrics(registry, operators_tools(server.deployment.agents).__contains__)
        add_transactions(registry, server.database)
        registry.register(StateMetrics(runs, self._queue))
        quotas = FigureWatch(server.database, quota_figures)
        registry.register(QuotaCollector(lambda: quotas.figures() or ()))
        if app is not None:
            app.add_middleware(RequestMetrics(registry).measure)

    def begins(self, stopping: Callable[[], bool]) -> None:
        """Take note that the process is ready until it is `stopping`."""
        self._stopping = stopping

    def metrics(self, accept: str) -> Page:
        """Return the metrics, in one of two formats."""
        encode, content_type = choose_encoder(accept)
        return Page(200, content_type, encode(self.registry))

    def health(self, accept: str = "") -> Page:
        """Return whether the process lives: its event loop turns."""
        if (late := self._loop.overdue) > DEAD:
            return _json(503, {"status": "dead", "problem": f"the event loop is stuck since {late:.0f} s"})
        return _json(200, {"status": "ok"})

    def ready(self, accept: str = "") -> Page:
        """Return whether the process takes requests, or runs."""
        problem = self._problem()
        return _json(503, {"status": "not ready", "problem": problem}) if problem else _json(200, {"status": "ready"})

    def _problem(self) -> str:
        if self._stopping is None or self._queue is None:
            return "the process is starting"
        if self._stopping():
            return "the process is stopping"
        if self._loop.overdue > BUSY:
            return f"the event loop is busy since {self._loop.overdue:.0f} s"
        return "" if self._queue.is_up(_ANSWERS) else "the database does not answer, or is lost"


def operators_tools(agents: Mapping[str, Agent]) -> frozenset[str]:
    """Return the names of all tools of agents, and of the agents that are their members."""
    found: set[str] = set()
    left, seen = list(agents.values()), set[int]()
    while left:
        agent = left.pop()
        if id(agent) in seen:
            continue
        seen.add(id(agent))
        for tool in agent.tools:
            found.add(tool.name)
            member: Any = tool.something.agent if isinstance(tool.something, Handoff) else tool.something
            if isinstance(member, Agent):
                left.append(member)
    return frozenset(found)


def _json(status: int, body: Mapping[str, str]) -> Page:
    return Page(status, "application/json", json.dumps(body).encode())
