"""The figures that docs/metrics.md names: each is a constant of the source, and holds at it and beyond it."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import Connection, insert, join, literal, null, select, true

from fakes.app_server import Serving, with_run
from fakes.until import until
from retinue.limits.quotas import Limit, set_limits
from retinue.runs import run_metrics
from retinue.runs.run_metrics import MOST_MODELS, OTHER, RunMetrics
from retinue.server.http.connections import listen
from retinue.server.metrics import (
    process_metrics as figure_watch,
    process_metrics as quota_metrics,
    process_watch,
    process_watch as loop_watch,
)
from retinue.server.metrics.metrics_server import AT_ONCE, MetricsServer, Page
from retinue.server.metrics.process_metrics import (
    FRESH,
    MOST_TENANTS,
    PATIENCE,
    STALE,
    FigureWatch,
    StateMetrics,
    quota_figures,
)
from retinue.server.metrics.process_watch import BUSY, DEAD, EVERY, LoopWatch, ProcessWatch
from retinue.store import run_queries
from retinue.store.tables import quotas, runs

PAGE = re.sub(r"\s+", " ", (Path(__file__).parents[2] / "docs/metrics.md").read_text())


@dataclass
class Clock:
    """A clock that tests turn."""

    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("sentence", "constant", "value"),
    [
        ("503 once its event loop has been stuck for a minute", process_watch.DEAD, 60),
        ("while its event loop has been busy with one thing for ten seconds", process_watch.BUSY, 10),
        ("every three seconds at most", figure_watch.FRESH, 3),
        ("by no scrape that would wait for more than half a second", figure_watch.PATIENCE, 0.5),
        ("These have no value once they are ten seconds old", figure_watch.STALE, 10),
        ("At most 100,000 active runs are looked at", run_queries.MOST_COUNTED, 100_000),
        ("Models beyond the first 100 are `other`", run_metrics.MOST_MODELS, 100),
        ("at most 1,000 tenants", quota_metrics.MOST_TENANTS, 1_000),
        ("the longest time within ten seconds", loop_watch.KEPT * loop_watch.EVERY, 10),
    ],
)
def test_the_page_says_the_figures_of_the_source(sentence: str, constant: float, value: float) -> None:
    assert sentence in PAGE
    assert constant == value


# ── the event loop ───────────────────────────────────────────────────────────────────────────────


async def stuck(watch: LoopWatch, clock: Clock, seconds: float) -> None:
    """Have the event loop be late by so many seconds by the clock, as seen from another thread."""
    task = asyncio.create_task(watch.keep_watch())
    await asyncio.sleep(0)
    clock.now += EVERY + seconds
    task.cancel()


@pytest.mark.parametrize(("seconds", "health", "ready"), [(BUSY, 200, 200), (BUSY + 1, 200, 503), (DEAD, 200, 503)])
def test_a_busy_event_loop_takes_no_runs_and_counts_as_alive(
    served: Serving, seconds: float, health: int, ready: int
) -> None:
    clock = Clock()
    loop = LoopWatch(clock)
    watch = watching(served, loop)
    asyncio.run(stuck(loop, clock, seconds))
    assert (watch.health().status, watch.ready().status) == (health, ready)
    clock.now += DEAD
    dead = watch.health()
    assert (dead.status, json.loads(dead.body)["status"]) == (503, "dead")
    assert f"the event loop is stuck since {seconds + DEAD:.0f} s" in dead.body.decode()
    assert f"the event loop is busy since {seconds + DEAD:.0f} s" in watch.ready().body.decode()


def test_the_lag_is_the_longest_of_the_last_measurements() -> None:
    ticks = iter([0.0, EVERY + 3.0, 10.0])  # due, awake, and due again

    async def measured() -> float:
        woken = asyncio.Event()

        def clock() -> float:
            now = next(ticks, None)
            if now is None or now == 10.0:
                woken.set()
            return 10.0 if now is None else now

        loop = LoopWatch(clock)
        task = asyncio.create_task(loop.keep_watch())
        await woken.wait()
        task.cancel()
        return loop.lag

    assert asyncio.run(measured()) == pytest.approx(3.0)


# ── readiness ────────────────────────────────────────────────────────────────────────────────────


def watching(served: Serving, loop: LoopWatch | None = None) -> ProcessWatch:
    watch = ProcessWatch(loop or LoopWatch())
    watch.add(served.app.state.server)
    watch.begins(lambda: False)
    return watch


def problem(watch: ProcessWatch) -> tuple[int, str]:
    page = watch.ready()
    return page.status, json.loads(page.body).get("problem", "")


def test_a_process_is_ready_between_its_start_and_its_end(served: Serving) -> None:
    watch, stopping = ProcessWatch(LoopWatch()), threading.Event()
    assert problem(watch) == (503, "the process is starting")
    watch.add(served.app.state.server)
    assert problem(watch) == (503, "the process is starting")
    watch.begins(stopping.is_set)
    assert problem(watch) == (200, "")
    stopping.set()
    assert problem(watch) == (503, "the process is stopping")
    assert watch.health().status == 200


def test_a_lost_database_is_told_and_its_figures_have_no_value(tmp_path: Path) -> None:
    with Serving(tmp_path) as served:
        watch = watching(served)
        assert problem(watch) == (200, "")
        assert samples(watch, "retinue_database_up", "retinue_database_lost", "retinue_runs_queued") == [1, 0, 0]
        (tmp_path / "retinue.db").unlink()
        assert problem(watch) == (503, "the database does not answer, or is lost")
        assert samples(watch, "retinue_database_up", "retinue_database_lost") == [0, 1]
        assert watch.health().status == 200


def test_figures_of_a_database_that_does_not_answer_have_no_value(tmp_path: Path) -> None:
    clock = Clock()
    with Serving(tmp_path) as served:
        read = partial(run_queries.queue_figures, process=served.database.process)
        registry, queue = CollectorRegistry(), FigureWatch(served.database, read, clock)
        registry.register(StateMetrics(served.runs, queue))
        names = ["runs_queued", "runs_queued_oldest_seconds", "runs_waiting_for_people", "runs_suspended", "leader"]
        names = [f"retinue_{name}" for name in (*names, "processes_alive")]
        assert queue.figures(30) is not None
        assert None not in [registry.get_sample_value(name) for name in names]
        (tmp_path / "retinue.db").unlink()

        def are_unknown() -> bool:
            clock.now += STALE  # what was under way may still have read the file
            return [registry.get_sample_value(name) for name in names] == [None] * len(names)

        until(are_unknown)
        until(lambda: registry.get_sample_value("retinue_database_up") == 0)


def samples(watch: ProcessWatch, *names: str) -> list[float | None]:
    return [watch.registry.get_sample_value(name) for name in names]


# ── figures of the database ──────────────────────────────────────────────────────────────────────


class Readings:
    """Figures that count how often they were read, and that can be held up."""

    def __init__(self) -> None:
        self.number = 0
        self.free = threading.Event()
        self.free.set()

    def __call__(self, connection: Connection) -> int:
        self.free.wait(30)
        self.number += 1
        return self.number


@pytest.fixture
def readings() -> Iterator[Readings]:
    found = Readings()
    yield found
    found.free.set()


def test_figures_are_read_anew_after_three_seconds(served: Serving, readings: Readings) -> None:
    clock = Clock()
    watch = FigureWatch(served.database, readings, clock)
    assert [watch.figures(30) for _ in range(5)] == [1] * 5
    clock.now += FRESH - 0.1
    assert watch.figures(30) == 1
    clock.now += 0.1
    assert [watch.figures(30) for _ in range(5)] == [2] * 5
    assert readings.number == 2


def test_no_scrape_waits_for_a_database_that_is_slow_and_old_figures_count_for_nothing(
    served: Serving, readings: Readings
) -> None:
    clock = Clock()
    watch = FigureWatch(served.database, readings, clock)
    assert watch.figures(30) == 1
    readings.free.clear()
    clock.now += STALE - 0.1
    assert watch.figures() == 1  # returns though nobody lets the reading end
    assert watch.figures(0.0) == 1
    clock.now += 0.1
    assert watch.figures(0.0) is None
    readings.free.set()
    assert watch.figures(30) == 2
    assert readings.number == 2  # one at a time
    assert PATIENCE < FRESH < STALE


@pytest.mark.full
def test_a_queue_is_counted_up_to_a_limit(tmp_path: Path) -> None:
    with Serving(tmp_path) as served:
        with_run(served, "queued")
        read = partial(run_queries.queue_figures, process=served.database.process)
        number = run_queries.MOST_COUNTED + 5
        with served.database.engine.begin() as connection:
            connection.execute(copies_of_the_run(number))
        found = served.database.read_here(read)
        assert found.queued == run_queries.MOST_COUNTED
        with served.database.engine.begin() as connection:
            connection.execute(runs.update().values(status="requires_action"))
        assert served.database.read_here(read).for_people == run_queries.MOST_COUNTED


def copies_of_the_run(number: int) -> Any:
    """The statement that makes so many more of the one run that there is."""
    at = select(literal(1).label("at")).cte("numbers", recursive=True)
    at = at.union_all(select(at.c.at + 1).where(at.c.at < number))
    other: dict[str, Any] = {"id": literal("run_copy_").concat(at.c.at), "thread_id": null()}
    columns = [column for column in runs.c if column.name != "number"]
    values = [other.get(column.name, column) for column in columns]
    copies = select(*values).select_from(join(runs, at, true()))
    return insert(runs).from_select([column.name for column in columns], copies)


def test_tenants_with_a_quota_are_told_of_up_to_a_limit(tmp_path: Path) -> None:
    with Serving(tmp_path) as served, served.database.engine.begin() as connection:
        limit = Limit("runs", "day", 10)
        set_limits(connection, "tenant-00000", [limit])
        row = connection.execute(select(quotas)).mappings().one()
        more = [{**row, "tenant": f"tenant-{number:05}"} for number in range(1, MOST_TENANTS + 3)]
        connection.execute(insert(quotas), more)
        found = quota_figures(connection)
        assert [one.tenant for one in found] == [f"tenant-{number:05}" for number in range(MOST_TENANTS)]
        assert {(one.quota, one.limit) for one in found} == {("runs_day", 10)}


def test_models_beyond_the_most_are_other() -> None:
    registry = CollectorRegistry()
    metrics = RunMetrics(registry, lambda tool: False)
    for number in range(MOST_MODELS + 3):
        metrics.failed(f"model-{number}", "failed")
    metrics.failed("model-0", "failed")
    labels = {"outcome": "failed"}

    def failed(model: str) -> float | None:
        return registry.get_sample_value("retinue_model_requests_total", {**labels, "model": model})

    assert (failed("model-0"), failed(f"model-{MOST_MODELS - 1}"), failed(OTHER)) == (2, 1, 3)
    assert failed(f"model-{MOST_MODELS}") is None


def test_scrapes_beyond_the_most_at_once_end_the_oldest(served: Serving) -> None:
    listening = listen("127.0.0.1", 0)
    server = MetricsServer(listening, {"/metrics": lambda accept: Page(200, "text/plain", b"here")})
    address = listening.getsockname()[:2]
    server.start()
    silent = [socket.create_connection(address) for _ in range(AT_ONCE + 2)]
    try:
        with urllib.request.urlopen(f"http://{address[0]}:{address[1]}/metrics", timeout=30) as answer:
            assert answer.read() == b"here"
        silent[0].settimeout(30)
        until(lambda: silent[0].recv(1) == b"")
    finally:
        for one in silent:
            one.close()
        server.close()
