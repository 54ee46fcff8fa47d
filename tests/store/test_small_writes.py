"""Small writes and reads, which the event loop does itself where the database is a file."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, select

from fakes.kept_runs import new_run
from fakes.postgres import Postgres
from fakes.until import until_async
from retinue.errors import StoreUnavailable
from retinue.store.database import Database
from retinue.store.run_queries import find_run, insert_run
from retinue.store.tables import runs

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def database(any_url: str) -> AsyncIterator[Database]:
    database = Database(any_url)
    await database.write(lambda connection: None)  # the writer has connected
    yield database
    await database.close_async()


@pytest.fixture
async def on_file(tmp_path: Path) -> AsyncIterator[Database]:
    database = Database(f"sqlite:///{tmp_path}/runs.db", patience=0.2)
    await database.write(lambda connection: None)
    yield database
    await database.close_async()


def insert(number: int) -> partial[None]:
    return partial(insert_run, run=new_run(f"run_{number}"))


async def kept(database: Database) -> list[str]:
    query = select(runs.c.id).order_by(runs.c.number)
    return await database.read(lambda connection: list(connection.execute(query).scalars()))


def thread_of(connection: Connection) -> str:
    return threading.current_thread().name


async def test_all_are_written_in_the_order_in_which_they_were_given(database: Database) -> None:
    writes = [database.submit(insert(1)), database.submit(insert(2))]
    await asyncio.sleep(0)  # those are being written
    writes += [database.submit(insert(3)), asyncio.ensure_future(database.write(insert(4), small=True))]
    await asyncio.sleep(0)
    writes.append(asyncio.ensure_future(database.write(insert(5))))
    await asyncio.sleep(0)
    writes += [database.submit(insert(6), large=True), database.submit(insert(7))]
    await asyncio.gather(*writes)
    assert await kept(database) == [f"run_{number}" for number in range(1, 8)]


async def test_of_those_that_are_written_together_only_the_faulty_fail(database: Database) -> None:
    def refuse(connection: Connection) -> None:
        insert_run(connection, new_run("run_9"))
        raise LookupError("no")

    writes = [database.submit(insert(1)), database.submit(refuse), database.submit(insert(2))]
    writes += [asyncio.ensure_future(database.write(work, small=True)) for work in (insert(3), refuse, insert(4))]
    found = await asyncio.gather(*writes, return_exceptions=True)
    assert [type(one).__name__ for one in found] == ["NoneType", "LookupError", "NoneType"] * 2
    assert await kept(database) == ["run_1", "run_2", "run_3", "run_4"]


async def test_a_lone_write_has_its_turn_and_says_what_became_of_it(database: Database) -> None:
    def refuse(connection: Connection) -> None:
        raise LookupError("no")

    await database.submit(insert(1), lone=True)
    writes = [database.submit(insert(2)), database.submit(insert(3), lone=True)]  # what waits is first
    writes += [database.submit(refuse, lone=True), database.submit(insert(4), large=True)]
    writes += [database.submit(insert(5), lone=True)]  # a thread is at it
    found = await asyncio.gather(*writes, return_exceptions=True)
    assert [type(one).__name__ for one in found] == ["NoneType", "NoneType", "LookupError", "NoneType", "NoneType"]
    assert await kept(database) == [f"run_{number}" for number in range(1, 6)]


async def test_a_fast_disk_has_a_lone_write_at_once(on_file: Database) -> None:
    numbers = iter(range(1, 100))

    async def is_done() -> bool:
        return on_file.submit(insert(next(numbers)), lone=True).done()

    assert await until_async(is_done)


async def test_the_loop_executes_small_writes_and_a_thread_those_after_one_that_was_not(on_file: Database) -> None:
    def slow(connection: Connection) -> str:
        time.sleep(0.02)
        return thread_of(connection)

    async def threads_of(*works: Callable[[Connection], str]) -> list[str]:
        return await asyncio.gather(*map(on_file.submit, works))

    async def after_a_slow_one() -> list[str]:
        here = threading.current_thread().name
        there = await threads_of(slow, thread_of)
        return await threads_of(thread_of, thread_of) if there == [here, here] else []

    assert await until_async(after_a_slow_one) == ["retinue-store"] * 2


async def test_what_is_submitted_before_the_end_is_written(any_url: str) -> None:
    database = Database(any_url)
    await database.write(insert(1))
    pending = [database.submit(insert(2)), database.submit(insert(3))]
    await asyncio.sleep(0)  # being written
    pending.append(database.submit(insert(4)))
    await database.close_async()
    await asyncio.gather(*pending)
    database = Database(any_url)
    assert await kept(database) == ["run_1", "run_2", "run_3", "run_4"]
    await database.close_async()


async def test_while_another_process_writes_small_writes_wait_and_then_say_so(on_file: Database) -> None:
    other = sqlite3.connect(str(on_file.engine.url.database), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    refused = await asyncio.gather(*(on_file.submit(insert(one)) for one in (1, 2)), return_exceptions=True)
    assert [type(one) for one in refused] == [StoreUnavailable] * 2
    waiting = [on_file.submit(insert(one)) for one in (3, 4)]
    await asyncio.sleep(0)
    other.execute("COMMIT")
    other.close()
    await asyncio.gather(*waiting)
    assert await kept(on_file) == ["run_3", "run_4"]


async def test_a_small_read_sees_what_was_written_and_one_that_the_file_refuses_waits_in_a_thread(
    on_file: Database,
) -> None:
    await on_file.write(insert(1))
    assert await on_file.read(partial(find_run, run_id="run_1"), small=True) is not None
    here = threading.current_thread().name

    def refused_here(connection: Connection) -> str:
        if thread_of(connection) == here:
            raise sqlite3.OperationalError("database is locked")
        return thread_of(connection)

    assert await on_file.read(refused_here, small=True) != here

    async def read_here() -> bool:
        return await on_file.read(thread_of, small=True) == here

    await until_async(read_here)


async def test_whoever_waits_for_a_lock_does_so_after_a_small_read_that_failed(on_file: Database) -> None:
    def fail(connection: Connection) -> None:
        connection.exec_driver_sql("SELECT nothing")

    with pytest.raises(StoreUnavailable):
        await on_file.read(fail, small=True)
    engine = on_file.engine.execution_options(isolation_level="AUTOCOMMIT")
    connections = [engine.connect() for _ in range(4)]
    assert all(one.exec_driver_sql("PRAGMA busy_timeout").scalar() for one in connections)
    for one in connections:
        one.close()


async def test_after_a_read_that_took_long_the_loop_reads_nothing_for_a_while(on_file: Database) -> None:
    here, began = threading.current_thread().name, time.monotonic()
    await on_file.read(lambda connection: time.sleep(0.01), small=True)
    assert await on_file.read(thread_of, small=True) != here or time.monotonic() > began + 1


async def test_a_read_that_outlives_its_database_leaves_no_connection_open(a_postgres: Postgres) -> None:
    database = Database(a_postgres.database())
    begun, goes_on = threading.Event(), threading.Event()
    held: list[Any] = []

    def read(connection: Connection) -> None:
        held.append(connection.connection.dbapi_connection)
        begun.set()
        goes_on.wait(30)

    reading = asyncio.create_task(database.read(read))
    await asyncio.to_thread(begun.wait, 30)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    await database.close_async()
    goes_on.set()

    async def is_closed() -> bool:
        return bool(held[0].closed)

    await until_async(is_closed)
