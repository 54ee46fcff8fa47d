"""Metrics of this process: its database, the runs that it drives, its event loop and its version."""

from __future__ import annotations

import platform
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Gauge, Histogram, Info
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from ... import __version__
from ...errors import StoreLost, StoreUnavailable
from ...runs import Runs
from ...store.clock import CLOCK
from ...store.database import Database
from ...store.run_queries import QueueFigures
from .figure_watch import FigureWatch
from .loop_watch import LoopWatch
from .run_metrics import SECONDS


def add_process(registry: CollectorRegistry, loop: LoopWatch) -> None:
    """Add what there is of every process, also while it starts."""
    ProcessCollector(registry=registry)
    Info("retinue_build", "The version that runs.", registry=registry).info(
        {"version": __version__, "python": platform.python_version()}
    )
    lag = Gauge(
        "retinue_event_loop_lag",
        "The longest time within ten seconds for which the event loop was busy with one thing.",
        unit="seconds",
        registry=registry,
    )
    lag.set_function(lambda: loop.lag)


def add_transactions(registry: CollectorRegistry, database: Database) -> None:
    """Have the database's transactions measured."""
    took = Histogram(
        "retinue_database_transaction_duration",
        "Transactions that write, by whether they were committed.",
        ("outcome",),
        unit="seconds",
        buckets=SECONDS,
        registry=registry,
    )
    committed, failed = took.labels("committed"), took.labels("failed")

    def timed(seconds: float, is_failed: bool) -> None:
        (failed if is_failed else committed).observe(seconds)

    database.timed = timed


class StateMetrics(Collector):
    """What is the case at the moment of a scrape."""

    def __init__(self, runs: Runs, queue: FigureWatch[QueueFigures]) -> None:
        self._runs = runs
        self._queue = queue

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics. What only the database knows has no value while it does not answer."""
        runs, database = self._runs, self._runs.database
        yield _gauge("runs_driven", "Runs that this process drives.", runs.room.driven)
        yield _gauge("runs_parked", "Runs of this process that wait until the database is back.", runs.parked.number)
        yield _gauge("database_writes_waiting", "Writes that are not yet committed.", database.waiting_writes())
        yield _gauge("database_up", "Whether the database answers.", self._queue.is_up())
        yield _gauge("database_lost", "Whether the database is lost, so that somebody must act.", _is_lost(database))
        is_up = None if runs.dispatches is None else runs.dispatches()
        yield _gauge("temporal_up", "Whether Temporal answers, if runs are dispatched by it.", is_up)
        yield from self._of_database()

    def _of_database(self) -> Iterator[Metric]:
        found = self._queue.figures(0.0)
        oldest = None
        if found is not None:
            oldest = 0.0 if found.since is None else max(0.0, CLOCK.now() - found.since)
        yield _gauge("runs_queued", "Runs that wait for a process.", found and found.queued)
        yield _gauge("runs_queued_oldest_seconds", "How long the first of these has waited.", oldest, "seconds")
        yield _gauge("runs_waiting_for_people", "Runs that wait for a person or client.", found and found.for_people)
        yield _gauge("runs_suspended", "Runs that wait for their agents.", found and found.suspended)
        yield _gauge("processes_alive", "Processes that have the database open.", found and found.alive)
        yield _gauge("leader", "Whether this process leads.", found and found.leads)


def _gauge(name: str, about: str, value: float | None, unit: str = "") -> Metric:
    return GaugeMetricFamily(f"retinue_{name}", about, value if value is None else float(value), unit=unit)


def _is_lost(database: Database) -> bool:
    try:
        database.check()
    except StoreLost:
        return True
    except StoreUnavailable:
        pass
    return False
