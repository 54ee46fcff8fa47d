"""Metrics of this process: its database, the runs that it drives, its event loop and its version; and figures of the
whole database, which are read seldom, beside the event loop, and without waiting for long."""

from __future__ import annotations

import logging
import platform
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, Gauge, Histogram, Info
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from sqlalchemy import Connection

from ... import __version__
from ...errors import StoreLost, StoreUnavailable
from ...limits.quotas import DEFAULT, all_limits, standings_of
from ...runs import Runs
from ...runs.run_metrics import SECONDS
from ...store.clock import CLOCK
from ...store.database import Database
from ...store.run_queries import QueueFigures

T = TypeVar("T")
logger = logging.getLogger(__name__)
FRESH = 3.0  # seconds for which figures count as those of now
STALE = 10.0  # seconds after which they count for nothing
PATIENCE = 0.5  # seconds that a scrape waits for them
MOST_TENANTS = 1_000
"""How many tenants are told of, the first by their names: each is a series of its own."""


def add_process(registry: CollectorRegistry, lag: Callable[[], float]) -> None:
    """Add what there is of every process, also while it starts."""
    ProcessCollector(registry=registry)
    Info("retinue_build", "The version that runs.", registry=registry).info(
        {"version": __version__, "python": platform.python_version()}
    )
    longest = "The longest time within ten seconds for which the event loop was busy with one thing."
    Gauge("retinue_event_loop_lag", longest, unit="seconds", registry=registry).set_function(lag)


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


class FigureWatch(Generic[T]):
    """The figures of a database, as `read` returns them. Whoever asks for them next reads them anew once they are three
    seconds old, one at a time; the others, and those who have waited long enough, get the last ones. `clock` returns
    seconds."""

    def __init__(
        self, database: Database, read: Callable[[Connection], T], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._read_from = read
        self._clock = clock
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._figures: T | None = None
        self._reading: threading.Event | None = None  # set when the reading that is under way is over

    def figures(self, patience: float = PATIENCE) -> T | None:
        """Return the figures; `None` if the database does not answer. Waits at most `patience` seconds."""
        with self._lock:
            reading = None if self._age() < FRESH else self._begin()
        if reading is not None:
            reading.wait(patience)
        return self._figures if self._age() < STALE else None

    def is_up(self, patience: float = PATIENCE) -> bool:
        """Whether the database answers, takes what is written, and is the one that this process opened."""
        try:
            self._database.check()
            self._database.check_writes()
        except StoreUnavailable:
            return False
        return self.figures(patience) is not None

    def _age(self) -> float:
        return self._clock() - self._read_at

    def _begin(self) -> threading.Event:
        if self._reading is None:
            self._reading = threading.Event()
            threading.Thread(target=self._read, args=[self._reading], name="figures", daemon=True).start()
        return self._reading

    def _read(self, over: threading.Event) -> None:
        try:
            figures = self._database.read_here(self._read_from)
            with self._lock:
                self._figures, self._read_at = figures, self._clock()
        except StoreUnavailable as error:
            logger.info("the figures of the database cannot be read: %s", error)
            self._read_at = float("-inf")
        finally:
            with self._lock:
                self._reading = None
            over.set()


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
        is_up = None if runs.dispatcher is None else runs.dispatcher.is_up
        yield _gauge("temporal_up", "Whether Temporal answers, if runs are dispatched by it.", is_up)
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


class QuotaFigure(NamedTuple):
    """A tenant's limit: which (`tokens_month`, `bytes`), what is used of it, and the limit. Money is in the currency
    of the prices."""

    tenant: str
    quota: str
    used: float
    limit: float


def quota_figures(connection: Connection) -> list[QuotaFigure]:
    """Return the limits of the tenants that have a quota of their own. Reads two to four rows by key for each."""
    own = sorted((name, limits) for name, limits in all_limits(connection).items() if name != DEFAULT)
    found: list[QuotaFigure] = []
    for tenant, limits in own[:MOST_TENANTS]:
        for one in standings_of(connection, tenant, limits, CLOCK.now()):
            if one.limit.most is not None:
                name = f"{one.limit.what}_{one.limit.period}".rstrip("_")
                used, most = one.limit.amount(one.used), one.limit.amount(one.limit.most)
                found.append(QuotaFigure(tenant, name, used or 0.0, most or 0.0))
    return found


class QuotaCollector(Collector):
    """Collects `retinue_quota_used` and `retinue_quota_limit`. `read` returns what `quota_figures` does."""

    def __init__(self, read: Callable[[], Sequence[QuotaFigure]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        labels, about = ("tenant", "quota"), "What a tenant has used of a limit of its quota."
        used = GaugeMetricFamily("retinue_quota_used", about, labels=labels)
        limit = GaugeMetricFamily("retinue_quota_limit", "The limit of a tenant's quota.", labels=labels)
        for one in self._read():
            used.add_metric([one.tenant, one.quota], one.used)
            limit.add_metric([one.tenant, one.quota], one.limit)
        yield from (used, limit)
