"""Two processes that write to one PostgreSQL database: conflicts, deadlocks, and the lock that they share."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

import psycopg
import pytest
from sqlalchemy import Connection, func, select, text, update

from fakes.at_once import at_once
from fakes.postgres import Postgres
from fakes.until import until
from retinue.errors import StoreConflict, StoreUnavailable, UsageError
from retinue.server.files.stores import store_of
from retinue.store.api_keys import server_secret
from retinue.store.database import Database
from retinue.store.tables import secrets, threads, vector_stores
from retinue.store.tenant_view import TenantView

pytestmark = pytest.mark.anyio
TENANT = TenantView("t")
OURS = 7_373_061_893  # the lock that servers share, and that servers before version 0.8 have alone


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def url(a_postgres: Postgres) -> str:
    return a_postgres.database()


@pytest.fixture
async def two(url: str) -> AsyncIterator[tuple[Database, Database]]:
    first, second = Database(url), Database(url)
    yield first, second
    await first.close_async()
    await second.close_async()


def add_thread(connection: Connection, id_: str, key: str | None = None) -> None:
    TENANT.insert(connection, threads, {"id": id_, "key": key, "created_at": 1, "body": {}})


def named(connection: Connection, key: str, new: str, tries: list[str]) -> str:
    """The id of the thread of this key, which is made if there is none."""
    tries.append(new)
    found = connection.execute(select(threads.c.id).where(threads.c.key == key)).scalar()
    if found is None:
        add_thread(connection, new, key)
    return found or new


async def test_who_is_second_finds_what_the_first_made(url: str, two: tuple[Database, Database]) -> None:
    tries: list[str] = []
    loop = asyncio.get_running_loop()

    def work(database: Database, new: str) -> str:
        writing = database.write(partial(named, key="k", new=new, tries=tries))
        return asyncio.run_coroutine_threadsafe(writing, loop).result()

    works = [partial(work, database, f"thread_{number}") for number, database in enumerate(two)]
    found = await asyncio.to_thread(at_once, url, "threads", works)
    assert len(set(found)) == 1
    assert len(tries) == 3


@pytest.mark.parametrize("way", ["write", "submit"])
async def test_a_conflict_that_stays_one_is_said(any_url: str, way: str) -> None:
    database = Database(any_url)
    await database.write(partial(add_thread, id_="thread_1"))
    tries = []

    def again(connection: Connection) -> None:
        tries.append(1)
        add_thread(connection, "thread_1")

    writing = [getattr(database, way)(work) for work in (again, partial(add_thread, id_="thread_2"))]
    outcomes = await asyncio.gather(*writing, return_exceptions=True)
    assert isinstance(outcomes[0], StoreConflict)
    assert not isinstance(outcomes[0], StoreUnavailable)
    assert outcomes[1] is None
    assert 1 < len(tries) < 7
    await database.close_async()


async def test_of_two_that_wait_for_each_other_both_are_done(two: tuple[Database, Database]) -> None:
    for id_ in ("thread_1", "thread_2"):
        await two[0].write(partial(add_thread, id_=id_))
    both_began = threading.Barrier(2)
    tries: list[str] = []

    def work(connection: Connection, ids: tuple[str, str]) -> None:
        tries.append(ids[0])
        for id_ in ids:
            row = TENANT.find(connection, threads, id_, lock=True)
            assert row is not None
            number = row.body.get("number", 0) + 1
            connection.execute(update(threads).where(threads.c.id == id_).values(body={"number": number}))
            if tries.count(ids[0]) == 1 and id_ == ids[0]:
                both_began.wait(30)

    ids = ("thread_1", "thread_2")
    await asyncio.gather(two[0].write(partial(work, ids=ids)), two[1].write(partial(work, ids=ids[::-1])))
    bodies = await two[0].read(lambda connection: list(connection.execute(select(threads.c.body)).scalars()))
    assert bodies == [{"number": 2}, {"number": 2}]
    assert len(tries) == 3


async def test_two_that_make_a_secret_have_the_same(url: str, two: tuple[Database, Database]) -> None:
    loop = asyncio.get_running_loop()

    def work(database: Database) -> bytes:
        writing = database.write(partial(server_secret, name="s", make=True))
        return asyncio.run_coroutine_threadsafe(writing, loop).result()

    found = await asyncio.to_thread(at_once, url, "secrets", [partial(work, one) for one in two])
    assert found[0] == found[1]
    assert await two[0].read(lambda connection: connection.execute(select(func.count(secrets.c.name))).scalar()) == 1


@pytest.mark.parametrize("new", [True, False])
def test_a_server_of_before_is_not_joined(url: str, new: bool) -> None:
    if not new:
        Database(url).close()
    with psycopg.connect(url, autocommit=True) as before:
        before.execute(f"SELECT pg_advisory_lock({OURS})")
        with pytest.raises(UsageError, match=r"another server, of another version, has this database open; stop it"):
            Database(url, patience=0.1)
    Database(url).close()


def test_a_server_of_before_does_not_join(url: str) -> None:
    with closing(Database(url)), psycopg.connect(url, autocommit=True) as before:
        assert before.execute(f"SELECT pg_try_advisory_lock({OURS})").fetchone() == (False,)


async def test_a_transaction_of_a_frozen_process_is_ended(two: tuple[Database, Database]) -> None:
    def limit(connection: Connection) -> object:
        return connection.exec_driver_sql("SHOW idle_in_transaction_session_timeout").scalar()

    assert [await two[0].write(limit), await two[0].read(limit)] == ["5s", "5s"]


def test_many_that_begin_at_once_find_one_schema(url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        opened = list(pool.map(Database, [url] * 4))
    for database in opened:
        database.close()


async def test_the_lock_is_taken_again_or_the_database_is_not_there(url: str, two: tuple[Database, Database]) -> None:
    with psycopg.connect(url, autocommit=True) as beside:
        for _ in range(2):
            beside.execute(f"SELECT pg_terminate_backend(pid) FROM {_LOCKS}")
            for database in two:
                await database.look()
            assert beside.execute(f"SELECT count(*) FROM {_LOCKS}").fetchone() == (2,)
        beside.execute(f"SELECT pg_terminate_backend(pid) FROM {_LOCKS}")
        beside.execute(f"SELECT pg_advisory_lock({OURS})")
        with pytest.raises(StoreUnavailable, match="of another version of Retinue now"):
            await two[0].look()
        with pytest.raises(StoreUnavailable, match="of another version of Retinue now"):
            two[0].check()
        beside.execute(f"SELECT pg_advisory_unlock({OURS})")
        await two[0].look()
        two[0].check()


_LOCKS = (
    "pg_locks WHERE locktype = 'advisory' AND granted AND mode = 'ShareLock' "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


async def test_a_search_undoes_no_change_of_its_store(two: tuple[Database, Database]) -> None:
    first, second = two
    body = {"name": "old", "last_active_at": 1, "expires_after": None}
    row = {"id": "vs_1", "created_at": 1, "expires_at": None, "body": body}
    await first.write(lambda connection: TENANT.insert(connection, vector_stores, row))
    both_began = threading.Barrier(2)

    def rename(connection: Connection) -> None:
        found = store_of(connection, TENANT, "vs_1", lock=True)
        TENANT.change(connection, vector_stores, "vs_1", {"body": {**found.body, "name": "new"}})
        both_began.wait(30)
        until(lambda: connection.execute(text(WAITS)).scalar())

    def search(connection: Connection) -> None:
        both_began.wait(30)
        store_of(connection, TENANT, "vs_1", used=True)

    await asyncio.gather(first.write(rename), second.write(search))
    found = await first.read(lambda connection: TENANT.find(connection, vector_stores, "vs_1"))
    assert found is not None
    assert found.body["name"] == "new"
    assert found.body["last_active_at"] > 1


WAITS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
