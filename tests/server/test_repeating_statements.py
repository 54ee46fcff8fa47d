"""What servers and workers ask of the database all the time, without being asked: an index finds it, however many runs
have ended.

The statements are recorded while a process is idle, so that none is forgotten.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, Integer, String, Table, cast, event, insert, literal, select, text

from fakes.app_server import Serving
from fakes.kept_runs import new_run
from fakes.until import until
from retinue.server.context import Options
from retinue.store.database import Database
from retinue.store.due import Due, Reason, driven_runs, lock_free
from retinue.store.engines import engine_of
from retinue.store.processes import dead_processes, has_workers
from retinue.store.run_queries import COLUMNS, marks_of, queue_figures
from retinue.store.run_row import column_values
from retinue.store.tables import (
    events,
    files,
    images,
    messages,
    requests,
    run_images,
    runs,
    submissions,
    threads,
    vector_store_batches,
    vector_store_files,
    vector_stores,
)

OWNED = {"tenant": "t", "id": "x", "created_at": 2**31}
ROWS: dict[Table, dict[str, Any]] = {
    runs: column_values(
        {
            name: getattr(new_run("x", status="completed", holds=False, thread_id=None, expires_at=1, epoch=1), name)
            for name in COLUMNS
        }
    ),
    events: {"run_id": "x", "seq": 1, "epoch": 1, "at": 1.0, "kind": "started", "payload": "{}"},
    submissions: {
        "run_id": "x",
        "tenant": "t",
        "number": 1,
        "at": 1,
        "mark": "",
        "told": 0,
        "decisions": {},
        "answered": [],
    }
    | {"usage": {}},
    threads: {**OWNED, "body": {}},
    messages: {**OWNED, "thread_id": "x", "run_id": "x", "body": {}},
    files: {**OWNED, "body": {}},
    vector_stores: {**OWNED, "body": {}},
    vector_store_batches: {**OWNED, "vector_store_id": "x", "body": {}},
    vector_store_files: {**OWNED, "vector_store_id": "x", "file_id": "x", "status": "completed", "usage_bytes": 1}
    | {"body": {}},
    requests: {"tenant": "t", "key": "x", "route": "x", "created_at": 2**31, "body_hash": "x"},
    images: {"tenant": "t", "id": "x", "created_at": 2**31, "media_type": "x", "bytes": 1, "content": b"x"},
    run_images: {"tenant": "t", "run_id": "x", "image_id": "x"},
}
LARGE = {table.name for table in ROWS}
AT_START = "SELECT DISTINCT vector_store_files.vector_store_id \nFROM vector_store_files"
PARTIAL = {"runs_due", "runs_not_stored", "one_run_at_a_time"}  # indexes on a few of the rows, which may be read whole


def fill(engine: Engine, many: int) -> None:
    """Many rows of each table, of runs that have ended and what belongs to them; the runs of the last hours."""
    numbers = text("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :many) SELECT i FROM n")
    given = numbers.bindparams(many=many).columns(i=Integer).subquery("given")
    now = int(time.time())
    with engine.begin() as connection:
        for table, row in ROWS.items():
            values = {name: value for name, value in row.items() if value is not None}
            columns: dict[str, Any] = {}
            for name, value in values.items():
                kind = table.c[name].type
                columns[name] = literal("x").concat(cast(given.c.i, String)) if value == "x" else literal(value, kind)
            if "created_at" in columns:
                columns["created_at"] = literal(now) - given.c.i % 3_000
            connection.execute(insert(table).from_select(list(columns), select(*columns.values())))
    if engine.dialect.name == "postgresql":  # which does so by itself
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("ANALYZE"))


@contextmanager
def recorded(dialect: str) -> Iterator[list[tuple[str, Any]]]:
    """The statements of connections that are made in the block, with their values."""
    made: list[tuple[str, Any]] = []

    def connected(connection: Any, *_: Any) -> None:  # SQLite: also what bypasses SQLAlchemy
        connection.set_trace_callback(lambda statement: made.append((statement, ())))

    def executed(_connection: Any, _cursor: Any, statement: str, values: Any, *_: Any) -> None:
        made.append((statement, values))

    name, hear = ("connect", connected) if dialect == "sqlite" else ("before_cursor_execute", executed)
    event.listen(Engine, name, hear)
    try:
        yield made
    finally:
        event.remove(Engine, name, hear)


@pytest.mark.parametrize("many", [2_000, pytest.param(50_000, marks=pytest.mark.full)])
def test_an_index_finds_whatever_is_asked_all_the_time(any_url: str, many: int, tmp_path: Path) -> None:
    with closing(Database(any_url)) as database:
        fill(database.engine, many)
        dialect = database.engine.dialect.name
    with recorded(dialect) as made, Serving(tmp_path, options=Options(retention=10**6), url=any_url) as served:
        duties = ["DELETE FROM requests", "DELETE FROM files", "runs.expires_at <="]  # the last of each round
        duties += ["pg_terminate_backend"] if dialect == "postgresql" else []
        until(lambda: all(any(one in statement for statement, _ in made) for one in duties))
        served.in_loop(be_asked(served))
        begun = len(made)
        until(lambda: any("runs.expires_at <=" in statement for statement, _ in made[begun:]))  # a whole round
    asked = {re.sub(r"\d+", "", one): (one, values) for one, values in made if one != AT_START and reads(one)}
    engine = engine_of(any_url)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        if dialect == "postgresql" and many < 100_000:  # the planner reads so few rows whole, though it need not
            connection.execute(text("SET enable_seqscan = off"))
        found = {name: scans(connection, *one) for name, one in asked.items()}
    engine.dispose()
    assert len(asked) >= 15
    assert {name: tables for name, tables in found.items() if tables} == {}


async def be_asked(served: Serving) -> None:
    """Ask what other processes ask all the time: those with limits, metrics, and readers."""
    database = served.database
    works: list[Callable[[Connection], object]] = [
        partial(queue_figures, process="x"),
        partial(marks_of, run_ids=["x1", "x2"]),
        driven_runs,
        partial(has_workers, process="x"),
        partial(lock_free, wanted=[Due(Reason.DRIVE, "x1"), Due(Reason.DRIVE, "x2")], process="x"),
        partial(dead_processes, process="x"),
    ]
    for work in works:
        await database.read(work)


def reads(statement: str) -> bool:
    """Whether a statement looks for rows of a large table; what a database is opened with does so once."""
    return bool(re.match("SELECT|UPDATE|DELETE|WITH", statement)) and any(
        re.search(rf"\b{name}\b", statement) for name in LARGE
    )


def scans(connection: Connection, statement: str, values: Any) -> list[str]:
    """The large tables that a statement reads whole."""
    if connection.dialect.name == "sqlite":
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}").all()
        steps = [re.match(r"SCAN (\w+?)(?:_\d+)?(?: USING (?:COVERING )?INDEX (\w+))?$", row.detail) for row in plan]
        return [one[0] for one in steps if one and one[1] in LARGE and one[2] not in PARTIAL]
    found = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", values).scalar_one()
    return list(scanned(found[0]["Plan"]))


def scanned(node: dict[str, Any]) -> Iterator[str]:
    """The large tables that are read whole below a node of PostgreSQL's plan."""
    whole = node["Node Type"] == "Seq Scan" or ("Index" in node["Node Type"] and "Index Cond" not in node)
    if whole and node.get("Relation Name", "") in LARGE and node.get("Index Name") not in PARTIAL:
        yield f"{node['Node Type']} {node['Relation Name']} {node.get('Index Name', '')}"
    for below in node.get("Plans", ()):
        yield from scanned(below)
