"""A process that stands still in the middle of a transaction: what others write goes on, whatever it holds.

`make chaos` freezes a server (SIGSTOP) at each of its statements.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, bindparam, event, insert, select, text, update

from fakes.app_server import Serving
from fakes.postgres import Postgres
from fakes.until import until
from retinue.errors import StoreUnavailable
from retinue.store import database as database_module
from retinue.store.database import Database
from retinue.store.engines import session_name
from retinue.store.prepared_statements import Prepared
from retinue.store.processes import end_sessions_of_the_dead, show_life
from retinue.store.tables import processes, threads

pytestmark = pytest.mark.anyio
OWNED: dict[str, Any] = {"tenant": "t", "key": None, "created_at": 1, "body": {}}
_TOUCH = Prepared(update(threads).where(threads.c.id == bindparam("which")).values(created_at=bindparam("now")))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def url(a_postgres: Postgres) -> str:
    return a_postgres.database()


@pytest.fixture
async def two(url: str) -> AsyncIterator[tuple[Database, Database]]:
    """Two servers, which wait for locks for a tenth of a second only."""
    first, second = Database(url, patience=20), Database(url, patience=20)
    for one in (first, second):
        event.listen(one.engine, "connect", lambda connection, _: be_impatient(connection))
        one.engine.dispose()  # those that are open
    await first.write(lambda connection: connection.execute(insert(threads), rows("thread_1", "thread_2")))
    yield first, second
    await first.close_async()
    await second.close_async()


def be_impatient(connection: Any) -> None:
    connection.execute("SET lock_timeout = 100")
    connection.commit()


def rows(*ids: str) -> list[dict[str, Any]]:
    return [{**OWNED, "id": one} for one in ids]


def touch(connection: Connection, *ids: str) -> None:
    _TOUCH.run_many(connection, [{"which": one, "now": 2} for one in ids])


def touch_and_insert(connection: Connection) -> None:
    touch(connection, "thread_1")
    connection.execute(insert(threads), rows("thread_3", "thread_4"))


HOLDING: dict[str, Callable[[Connection], object]] = {
    "one statement": lambda connection: touch(connection, "thread_1"),
    "a statement for several rows": lambda connection: touch(connection, "thread_1", "thread_2"),
    "rows that SQLAlchemy inserts": touch_and_insert,
    "a lock": lambda connection: connection.execute(
        select(threads).where(threads.c.id == "thread_1").with_for_update()
    ),
}


@pytest.mark.parametrize("holding", HOLDING)
async def test_what_a_frozen_transaction_holds_is_free_before_long(
    two: tuple[Database, Database], holding: str
) -> None:
    healthy, frozen = two
    stands, thawed = threading.Event(), threading.Event()

    def stand_still(connection: Connection) -> None:
        connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 300"))
        HOLDING[holding](connection)
        stands.set()
        thawed.wait(20)

    standing = asyncio.ensure_future(frozen.write(stand_still))
    await asyncio.to_thread(stands.wait, 20)
    await asyncio.wait_for(healthy.write(lambda connection: touch(connection, "thread_1")), 10)
    thawed.set()
    with pytest.raises(StoreUnavailable):  # its commit was lost, or that is not known
        await standing
    await frozen.write(lambda connection: touch(connection, "thread_1"))


async def test_one_locked_row_holds_up_no_other_write(url: str, two: tuple[Database, Database]) -> None:
    healthy, _ = two
    with psycopg.connect(url) as holder:
        holder.execute("UPDATE threads SET created_at = 3 WHERE id = 'thread_1'")
        waiting = [healthy.submit(lambda connection: touch(connection, "thread_1")) for _ in range(2)]
        for _ in range(3):
            await asyncio.wait_for(healthy.write(lambda connection: touch(connection, "thread_2")), 10)
        healthy.check_writes()
        assert not any(one.done() for one in waiting)
        holder.rollback()
    await asyncio.gather(*waiting)


async def test_sessions_of_a_process_that_shows_no_life_are_ended(url: str, two: tuple[Database, Database]) -> None:
    healthy, dead = two
    for one in two:
        await one.write(partial(show_life, process=one.process))
    named = psycopg.connect(url, application_name=session_name(dead.process))
    with closing(named), closing(named.cursor()) as cursor:
        cursor.executemany("UPDATE threads SET created_at = %s WHERE id = 'thread_1'", [[4], [5]])
        await healthy.write_apart(end_sessions_of_the_dead)
        cursor.execute("SELECT 1")  # it lives
        long_ago = update(processes).where(processes.c.id == dead.process).values(seen_at=1.0)
        await healthy.write(lambda connection: connection.execute(long_ago))
        await healthy.write_apart(end_sessions_of_the_dead)
        await asyncio.wait_for(healthy.write(lambda connection: touch(connection, "thread_1")), 10)
        with pytest.raises(psycopg.OperationalError):
            cursor.execute("SELECT 1")
    await dead.look()  # it opens others
    await dead.write(lambda connection: touch(connection, "thread_1"))


def test_a_server_whose_writes_are_stuck_is_not_ready(
    a_postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "_STUCK", 0.2)
    url = a_postgres.database()
    with Serving(tmp_path, url=url) as served, psycopg.connect(url) as holder:
        assert served.ask("GET", "/ready").status == 200
        holder.execute("LOCK TABLE threads IN EXCLUSIVE MODE")
        asking = threading.Thread(target=lambda: served.ask("POST", "/v1/threads", {}))
        asking.start()
        until(lambda: served.ask("GET", "/ready").status == 503)
        assert served.ask("GET", "/health").status == 200
        holder.rollback()
        asking.join(30)
        until(lambda: served.ask("GET", "/ready").status == 200)
