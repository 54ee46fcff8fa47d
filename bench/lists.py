"""A server on a SQLite file with many finished runs: its start, its lists, and how long others wait while it deletes.

`BENCH_RUNS` says how many runs; each has three events.
"""

from __future__ import annotations

import json
import os
import sqlite3
import statistics
import time
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, insert

from bench.serving import KEY, Server, served
from retinue.core.events import Event, Finished, Replied, Started
from retinue.core.serialization import dump
from retinue.core.values import Reply, Usage
from retinue.store.database import Database
from retinue.store.run_queries import COLUMNS
from retinue.store.run_row import RunRow, column_values
from retinue.store.tables import events, run_metadata, runs

RUNS = int(os.environ.get("BENCH_RUNS", "200000"))
_AT_ONCE, _TIMES, _BEGAN = 5_000, 9, 1_700_000_000
_MIDDLE = _BEGAN + RUNS // 2
LISTS = {
    "`GET /v1/runs`": "",
    "a page in the middle": f"after=run_{RUNS // 2}",
    "of an agent": "model=worker",
    "with a status": "status=failed",
    "of a kind": "kind=response",
    "of a kind that there is not": "kind=a2a",
    "by `metadata` that half of them have": "metadata[parity]=even",
    "by `metadata` that three have": "metadata[rare]=yes",
    "by both": "metadata[parity]=even&metadata[rare]=yes",
    "before a time": f"created_before={_MIDDLE}",
    "after a time": f"created_after={_MIDDLE}",
    "`q`: a word of each question": "q=harbour",
    "`q`: a word of no question": "q=nowhere",
    "`figures`": "figures=true&limit=100",
}


def measure() -> str:
    """A table of each list, in milliseconds; the start; and writes while all runs are deleted."""
    with served(2, fill=_fill) as server:
        _get(server, "/runs")
        lines = [f"| {name} | {_shown(_times(server, query))} |\n" for name, query in LISTS.items()]
        start = server.start
    with served(2, "--retention", "1", fill=_fill) as server:
        before = _left(server)
        waits, began = [], time.perf_counter()
        while time.perf_counter() - began < 20:
            at = time.perf_counter()
            _get(server, "/threads", {})
            waits.append((time.perf_counter() - at) * 1000)
            time.sleep(0.02)
        rate = (before - _left(server)) / (time.perf_counter() - began)
    waits.sort()
    return (
        f"{RUNS:,} finished runs with three events each; the server started in {start:.1f} s.\n\n"
        "| list of 20 | ms, median (worst) |\n|---|---|\n" + "".join(lines) + "\n"
        f"While `--retention` deleted {rate:,.0f} of them a second, a new thread took "
        f"{statistics.median(waits):.0f} ms (p99 {waits[int(len(waits) * 0.99)]:.0f} ms, worst {waits[-1]:.0f} ms).\n"
    )


def _times(server: Server, query: str) -> list[float]:
    found = []
    for _ in range(_TIMES):
        began = time.perf_counter()
        _get(server, f"/runs?{query}")
        found.append((time.perf_counter() - began) * 1000)
    return found


def _shown(times: list[float]) -> str:
    return f"{statistics.median(times):.0f} ({max(times):.0f})"


def _get(server: Server, path: str, body: Any = None) -> None:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(server.url + path, data, headers), timeout=60) as answer:
        answer.read()


def _left(server: Server) -> int:
    with closing(sqlite3.connect(server.db)) as connection:
        return int(connection.execute("SELECT count(*) FROM runs").fetchone()[0])


def _fill(db: Path) -> None:
    database = Database(f"sqlite:///{db}")
    for start in range(0, RUNS, _AT_ONCE):
        with database.engine.begin() as connection:
            _insert(connection, range(start, min(RUNS, start + _AT_ONCE)))
    database.close()


def _insert(connection: Connection, numbers: range) -> None:
    rows = [column_values({name: getattr(_run(one), name) for name in COLUMNS}) for one in numbers]
    connection.execute(insert(runs), [{"number": one + 1} | row for one, row in zip(numbers, rows, strict=True)])
    marks = [
        {"run_id": f"run_{one}", "tenant": "default", "number": one + 1, "name": name, "value": value}
        for one in numbers
        for name, value in _run(one).metadata.items()
    ]
    connection.execute(insert(run_metadata), marks)
    logs = [
        {"run_id": f"run_{one}", "seq": seq, "epoch": 1, "at": float(_BEGAN + one), "kind": kind, "payload": payload}
        for one in numbers
        for seq, (kind, payload) in enumerate(map(dump, _log(one)), 1)
    ]
    connection.execute(insert(events), logs)


def _run(number: int) -> RunRow:
    metadata = {"parity": "odd" if number % 2 else "even"} | ({"rare": "yes"} if number in (0, 2, RUNS // 2) else {})
    return RunRow(
        f"run_{number}",
        "default",
        None,
        _BEGAN + number,
        "failed" if number % 50 == 0 else "completed",
        False,
        None,
        1,
        {"model": "worker", "input": f"Note the harbour {number}."},
        kind="response" if number % 3 == 0 else "chat",
        agent="worker",
        started_at=_BEGAN + number,
        ended_at=_BEGAN + number,
        prompt_tokens=100,
        completion_tokens=20,
        metadata=metadata,
        stored=True,
    )


def _log(number: int) -> list[Event]:
    reply = Reply(
        f"It is noted: {number}. " + "And here is a sentence of some length. " * 5, usage=Usage(100, 20, cost=0.001)
    )
    question = f"Please note the harbour {number}, and all that was said of it, in a sentence or two."
    return [
        Started(question, "worker", "tool_calling", "scripted", ()),
        Replied(1, reply),
        Finished("It is noted.", {}),
    ]
