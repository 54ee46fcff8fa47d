"""Whoever watches a server or worker asks here: for its metrics, whether it lives, and whether it is ready."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from starlette.applications import Starlette

from ...agent import Agent
from ...run.handoff import Handoff
from ...store.run_queries import QueueFigures, queue_figures
from ..context import Server
from .figure_watch import FigureWatch
from .loop_watch import LoopWatch
from .metrics_server import Page
from .process_metrics import StateMetrics, add_process, add_transactions
from .quota_metrics import QuotaCollector, quota_figures
from .request_metrics import MeasuredRequests, RequestMetrics
from .run_metrics import RunMetrics
from .series import Series

DEAD = 60.0  # seconds after which an event loop that is busy with one thing counts as dead
BUSY = 10.0  # seconds after which it takes no runs
_ANSWERS = 5.0  # seconds for the database to answer a probe
_OPENMETRICS = "application/openmetrics-text"


class ProcessWatch:
    """The metrics of one process, and what its probes are told."""

    def __init__(self, loop: LoopWatch) -> None:
        self.registry = CollectorRegistry()
        self._loop = loop
        self._queue: FigureWatch[QueueFigures] | None = None
        self._stopping: Callable[[], bool] | None = None
        self.pages = {"/metrics": self.metrics, "/health": self.health, "/ready": self.ready}
        add_process(self.registry, loop)

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
            app.add_middleware(MeasuredRequests, metrics=RequestMetrics(registry))

    def begins(self, stopping: Callable[[], bool]) -> None:
        """Take note that the process is ready until it is `stopping`."""
        self._stopping = stopping

    def metrics(self, accept: str) -> Page:
        """Return the metrics, in one of two formats."""
        found = Series(self.registry)
        if _OPENMETRICS in accept:
            encode: Callable[[Series], bytes] = openmetrics.generate_latest  # which has no types
            return Page(200, openmetrics.CONTENT_TYPE_LATEST, encode(found))
        return Page(200, CONTENT_TYPE_PLAIN_0_0_4, generate_latest(found))

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
