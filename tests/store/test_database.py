"""`Database`, the log, scopes, migrations and locks, on a file and on PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from sqlalchemy import Connection, delete, func, insert, select, text, update

from fakes.kept_runs import new_run
from fakes.postgres import Postgres
from retinue.core.events import Started
from retinue.errors import DataError, StoreConflict, StoreUnavailable, UsageError, ValueRefused
from retinue.server.http.api_errors import api_error_of
from retinue.store.database import Database
from retinue.store.engines import engine_of
from retinue.store.event_log import Change, Entry, Fenced, append_entries, length, read_events
from retinue.store.migrations import BASELINE, load_migrations
from retinue.store.run_queries import COLUMNS, find_run, insert_run, read_runs, update_run
from retinue.store.run_row import RunRow
from retinue.store.tables import messages, metadata, runs, threads, versions
from retinue.store.tenant_view import Page, TenantView

pytestmark = pytest.mark.anyio
NUMBERS = [BASELINE, *(one.number for one in load_migrations("sqlite"))]
NEWEST = NUMBERS[-1]
ROW = new_run(epoch=1)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def database(any_url: str) -> Any:
    database = Database(any_url)
    yield database
    database.close()


def entry(seq: int) -> Entry:
    return Entry(seq, time.time(), Started(f"What {seq}?", "agent", "react", "m", ()))


async def test_what_was_written_is_there_after_a_new_beginning(any_url: str) -> None:
    database = Database(any_url)
    await database.write(partial(insert_run, run=ROW))
    await database.write(partial(append_entries, holder=ROW, entries=[entry(1), entry(2)]))
    await database.close_async()
    database = Database(any_url)
    entries = await database.read(partial(read_events, run_id="run_1"))
    assert [(one.seq, one.event) for one in entries] == [(seq, entry(seq).event) for seq in (1, 2)]
    assert await database.read(partial(length, run_id="run_1")) == 2
    await database.close_async()


async def test_of_pieces_that_are_written_together_only_those_fail_that_must(database: Database) -> None:
    def good(connection: Connection, name: str) -> str:
        connection.execute(insert(threads).values(tenant="t", id=name, created_at=1, body={}))
        return name

    def bad(connection: Connection) -> None:
        good(connection, "half")
        raise ValueError("no")

    pieces: list[asyncio.Future[Any]] = [database.submit(partial(good, name=f"{number}")) for number in range(20)]
    pieces += [database.submit(bad), database.submit(partial(good, name="3")), database.submit(partial(good, name="z"))]
    outcomes = await asyncio.gather(*pieces, return_exceptions=True)
    assert outcomes[:20] == [f"{number}" for number in range(20)]
    assert isinstance(outcomes[20], ValueError)
    assert isinstance(outcomes[21], StoreConflict)
    assert outcomes[22] == "z"
    there = await database.read(lambda connection: list(connection.execute(select(threads.c.id)).scalars()))
    assert sorted(there) == sorted([*(f"{number}" for number in range(20)), "z"])


async def test_whatever_a_piece_of_work_raises_nobody_is_left_waiting(database: Database) -> None:
    errors = (StopIteration, GeneratorExit, ValueError, asyncio.CancelledError)

    def raising(_: Connection, kind: type[BaseException]) -> None:
        raise kind("no")

    for _ in range(2):  # once by the writer's thread, and once where it comes from
        for kind in errors:
            work = partial(raising, kind=kind)
            with pytest.raises(RuntimeError if kind is StopIteration else kind):
                await asyncio.wait_for(database.write(work), 20)
            with pytest.raises(RuntimeError if kind is StopIteration else kind):
                await asyncio.wait_for(database.submit(work), 20)
    assert await database.write(count) == 0


async def test_only_the_last_epoch_appends(database: Database) -> None:
    await database.write(partial(insert_run, run=ROW))
    await database.write(partial(append_entries, holder=ROW, entries=[entry(1)]))
    await database.write(lambda connection: connection.execute(update(runs).values(epoch=2)))

    def change(row: Any) -> Change:
        return Change({"status": "completed"}, [])

    for epoch in (1, 3):
        with pytest.raises(Fenced):
            await database.write(
                partial(append_entries, holder=ROW._replace(epoch=epoch), entries=[entry(2)], change=change)
            )
    with pytest.raises(Fenced):
        await database.write(partial(append_entries, holder=ROW._replace(id="run_2", epoch=2), entries=[entry(1)]))
    row = await database.read(partial(find_run, run_id="run_1"))
    assert row is not None
    assert (row.status, await database.read(partial(length, run_id="run_1"))) == ("queued", 1)
    after = await database.write(
        partial(append_entries, holder=ROW._replace(epoch=2), entries=[entry(2)], change=change)
    )
    assert after is not None
    assert after.status == "completed"


VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_characters="\0")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=50)
@given(st.lists(VALUES, max_size=3), st.booleans(), st.none() | st.integers(0, 2**31 - 1))
async def test_a_row_that_a_step_alters_is_what_sqlalchemy_reads(
    database: Database, waiting: Any, holds: bool, expires_at: int | None
) -> None:
    """What goes past SQLAlchemy on every step converts as it does; half a surrogate pair becomes a question mark."""

    def there(connection: Connection) -> tuple[RunRow, RunRow | None, RunRow]:
        connection.execute(delete(runs))
        insert_run(connection, ROW)
        run = find_run(connection, "run_1")
        assert run is not None
        changed = update_run(connection, run, waiting=waiting, holds=holds, expires_at=expires_at)
        (read_,) = read_runs(connection, select(*(runs.c[name] for name in COLUMNS)))
        return changed, find_run(connection, "run_1", lock=True), read_

    changed, found, read_ = await database.write(there)
    said = json.loads(json.dumps(waiting, ensure_ascii=False).encode("utf-8", "replace"))
    assert found == read_ == changed._replace(waiting=tuple(said))


async def test_what_was_written_and_is_said_again_is_there_once(database: Database) -> None:
    await database.write(partial(insert_run, run=ROW))
    entries = [entry(1), entry(2)]
    await database.write(partial(append_entries, holder=ROW, entries=entries[:1]))
    for _ in range(2):
        await database.write(partial(append_entries, holder=ROW, entries=entries, written=None))
    assert await database.read(partial(length, run_id="run_1")) == 2
    await database.write(lambda connection: connection.execute(update(runs).values(epoch=2)))
    with pytest.raises(Fenced):
        await database.write(partial(append_entries, holder=ROW, entries=entries, written=None))


async def test_one_run_holds_a_thread(database: Database) -> None:
    await database.write(partial(insert_run, run=ROW))
    with pytest.raises(StoreConflict):
        await database.write(partial(insert_run, run=ROW._replace(id="run_2")))
    await database.write(partial(insert_run, run=ROW._replace(id="run_3", holds=False)))
    for number in (4, 5):  # those without a thread hold nothing
        await database.write(partial(insert_run, run=ROW._replace(id=f"run_{number}", thread_id=None)))


async def test_a_value_that_no_database_holds_is_no_outage(database: Database) -> None:
    with pytest.raises(ValueRefused) as refused:
        await database.write(partial(insert_run, run=ROW._replace(created_at=10**30)))
    assert api_error_of(refused.value).status == 400


async def test_a_scope_shows_and_changes_only_what_is_its_own(database: Database) -> None:
    mine, other = TenantView("mine"), TenantView("other")
    values = {"created_at": 1, "body": {"a": 1}}
    await database.write(lambda connection: mine.add(connection, threads, {**values, "id": "thread_1"}))
    await database.write(lambda connection: other.add(connection, threads, {**values, "id": "thread_2"}))

    def work(connection: Connection) -> None:
        assert mine.find(connection, threads, "thread_2") is None
        assert mine.change(connection, threads, "thread_2", {"body": {}}) is None
        assert mine.remove(connection, threads, threads.c.id == "thread_2") == 0
        assert [row.id for row in mine.page(connection, threads, Page())[0]] == ["thread_1"]
        assert [row.id for row in mine.page(connection, threads, Page(after="thread_2"))[0]] == ["thread_1"]
        found = other.find(connection, threads, "thread_2")
        assert found is not None
        assert found.body == {"a": 1}

    await database.write(work)


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_pages_give_all_in_order(database: Database, order: Any) -> None:
    scope = TenantView("t")
    for number in range(10):
        values = {"id": f"thread_{number}", "created_at": 1, "body": {}}
        await database.write(partial(scope.add, table=threads, values=values))
    ids = [f"thread_{number}" for number in range(10)]
    wanted = ids if order == "asc" else ids[::-1]

    async def page(**given: Any) -> tuple[list[str], bool]:
        rows, more = await database.read(
            lambda connection: scope.page(connection, threads, Page(limit=3, order=order, **given))
        )
        return [row.id for row in rows], more

    seen, more = await page()
    while more:
        new, more = await page(after=seen[-1])
        assert await page(before=new[-1], after=seen[-1]) == (new[:-1], False)
        seen += new
    assert seen == wanted
    assert await page(before=wanted[5]) == (wanted[2:5], True)
    assert await page(after="thread_unknown") == (wanted[:3], True)


def test_a_second_server_on_a_file_is_refused_until_the_first_lets_go(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    first = Database(url)
    with pytest.raises(UsageError, match=r"another server has .* open; stop it, or give this server another --db"):
        Database(url)
    first.close()
    Database(url).close()


def test_a_database_of_somebody_else_is_left_alone(any_url: str) -> None:
    engine = engine_of(any_url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE precious (a INTEGER)"))
    with pytest.raises(DataError, match="holds tables of another application; give another --db"):
        Database(any_url)
    with engine.begin() as connection:
        assert connection.execute(text("SELECT count(*) FROM precious")).scalar() == 0
    engine.dispose()


def test_a_database_of_a_newer_retinue_is_left_alone(any_url: str) -> None:
    Database(any_url).close()
    engine = engine_of(any_url)
    with engine.begin() as connection:
        connection.execute(insert(versions).values(version=NEWEST + 1))
    engine.dispose()
    with pytest.raises(DataError, match="was written by a newer Retinue"):
        Database(any_url)


def test_the_tables_are_made_once(any_url: str) -> None:
    for _ in range(2):
        database = Database(any_url)
        with database.engine.begin() as connection:
            there = list(connection.execute(select(versions.c.version)).scalars())
            assert there == NUMBERS
            for table in metadata.sorted_tables:
                connection.execute(select(table).limit(1)).all()
        database.close()


@pytest.mark.parametrize("url", ["mysql://a/b", "sqlite://", "sqlite:///:memory:", "nonsense", "sqlite+x"])
def test_what_is_no_database_for_runs_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="sqlite:///FILE"):
        Database(url)


def test_a_password_is_not_shown() -> None:
    with pytest.raises(StoreUnavailable) as caught:
        Database("postgresql://me:very-secret@127.0.0.1:1/none")
    assert "very-secret" not in str(caught.value)


async def test_a_lost_connection_is_waited_for_if_nothing_was_committed_on_it(a_postgres: Postgres) -> None:
    database = Database(a_postgres.database())
    end = text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()")
    tries = []

    def lost_once(connection: Connection) -> Any:
        tries.append(1)
        if len(tries) == 1:
            connection.execute(end)
        return TenantView("t").add(connection, threads, THREAD)

    assert (await database.write(lost_once)).id == "thread_1"
    assert len(tries) == 2
    await database.close_async()


THREAD = {"id": "thread_1", "created_at": 1, "body": {"text": "ä\n🙂"}}


async def test_a_file_that_is_locked_for_a_while_is_waited_for(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    database, other = Database(url), engine_of(url)
    with other.begin():
        writing = database.submit(lambda connection: TenantView("t").add(connection, threads, THREAD))
        await asyncio.sleep(0)
        assert not writing.done()
    assert (await writing).body == THREAD["body"]
    other.dispose()
    await database.close_async()


async def test_what_waits_for_a_lock_holds_up_neither_readers_nor_the_loop_and_then_says_so(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    database, other = Database(url, patience=0.3), engine_of(url)
    await database.write(count)
    with other.begin():
        writing = [database.submit(count), *(database.submit(count) for _ in range(20))]
        for _ in range(5):
            assert await database.read(count) == 0
            assert not any(one.done() for one in writing)
        outcomes = await asyncio.gather(*writing, return_exceptions=True)
    assert [str(one) for one in outcomes] == ["the database: database is locked"] * 21
    assert await database.write(count) == 0
    other.dispose()
    await database.close_async()


def count(connection: Connection) -> int:
    return connection.execute(select(func.count()).select_from(messages)).scalar() or 0
