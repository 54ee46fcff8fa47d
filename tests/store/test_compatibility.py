"""Servers of several versions on one database: which migrations an older server may go on beside, and which not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing

import psycopg
import pytest
from sqlalchemy import Engine, text

from fakes.locks import waits_for_lock
from fakes.postgres import Postgres
from fakes.until import until
from retinue.errors import DataError, StoreUnavailable, UsageError
from retinue.store.admin_transaction import admin_transaction, read_only
from retinue.store.database import Database
from retinue.store.engines import engine_of
from retinue.store.migrations import fits, is_compatible, is_current, load_migrations, migrate, newest

NEWEST = newest("sqlite")
ADDED = {f"{NEWEST + 1:03}_next.sql": "CREATE TABLE further (a INTEGER);"}
CHANGED = {f"{NEWEST + 1:03}_next.sql": "ALTER TABLE keys RENAME COLUMN prefix TO beginning;"}
Release = Callable[[Mapping[str, str]], None]


@pytest.fixture
def engine(any_url: str) -> Iterator[Engine]:
    Database(any_url).close()
    engine = engine_of(any_url)
    yield engine
    engine.dispose()


def do(engine: Engine, *statements: str) -> None:
    with engine.begin() as connection:
        for one in statements:
            connection.execute(text(one))


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE a (\n    b INTEGER NOT NULL,\n    PRIMARY KEY (b)\n);",
        "-- why\nCREATE INDEX a_of_b ON a (b);",
        "ALTER TABLE runs ADD COLUMN a VARCHAR(64);",
        "ALTER TABLE runs ADD COLUMN a INTEGER DEFAULT 1 NOT NULL;",
    ],
)
def test_what_is_compatible_is_compatible(statement: str) -> None:
    assert is_compatible(statement, (statement,))


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE UNIQUE INDEX a_of_b ON a (b);",
        "CREATE TABLE a (b VARCHAR(64) REFERENCES runs (id));",
        "ALTER TABLE runs ADD COLUMN a INTEGER NOT NULL;",
        "ALTER TABLE runs ADD COLUMN a INTEGER UNIQUE;",
        "ALTER TABLE runs ADD COLUMN a INTEGER CHECK (a > 0);",
        "ALTER TABLE runs RENAME COLUMN a TO b;",
        "ALTER TABLE runs DROP COLUMN a;",
        "ALTER TABLE runs ALTER COLUMN a TYPE TEXT;",
        "DROP INDEX a_of_b;",
        "DROP TABLE a;",
        "UPDATE runs SET status = 'x';",
        "INSERT INTO storage_used (tenant, what, bytes) VALUES ('t', 'x', 1);",
        "CREATE TRIGGER a BEFORE INSERT ON runs BEGIN DELETE FROM runs; END;",
        "CREATE INDEX a_of_b ON a (b); DROP TABLE a;",
    ],
)
def test_what_changes_or_takes_away_is_not(statement: str) -> None:
    added = "CREATE INDEX a_of_b ON a (b);"
    assert not is_compatible(statement, (added, statement))


def test_a_migration_may_say_otherwise() -> None:
    added, row = "CREATE INDEX a_of_b ON a (b);", "INSERT INTO a (b) SELECT 1;"
    assert not is_compatible(f"-- Not beside older servers: they cannot read its logs.\n\n{added}", (added,))
    assert is_compatible(f"-- Beside older servers: they do not read it.\n\n{row}", (row,))
    assert not is_compatible(f"-- Beside older servers:\n\n{row}", (row,))


def test_a_migration_is_as_compatible_on_either_kind_of_database() -> None:
    first, second = ({one.number: one.compatible for one in load_migrations(of)} for of in ("sqlite", "postgresql"))
    assert first == second


@pytest.mark.parametrize(
    ("statement", "compatible"), [("CREATE TABLE further (a INTEGER);", True), ("DROP TABLE requests;", False)]
)
def test_a_migrated_database_says_whether_older_servers_may_have_it_open(
    engine: Engine, release: Release, statement: str, compatible: bool
) -> None:
    release({f"{NEWEST + 1:03}_next.sql": statement})
    migrate(engine)
    release({})
    with engine.connect() as connection:
        flag = connection.scalar(text("SELECT compatible FROM versions WHERE version = :one"), {"one": NEWEST + 1})
        assert (bool(flag), fits(connection)) == (compatible, compatible)


def test_a_database_that_a_newer_server_added_to_is_opened(engine: Engine, any_url: str) -> None:
    do(engine, f"INSERT INTO versions (version, compatible) VALUES ({NEWEST + 1}, TRUE)")
    with closing(Database(any_url)), admin_transaction(any_url), read_only(any_url):
        pass
    do(engine, f"INSERT INTO versions (version, compatible) VALUES ({NEWEST + 2}, TRUE)")
    Database(any_url).close()


@pytest.mark.parametrize("flag", ["NULL", "FALSE"])
def test_a_database_that_a_newer_server_changed_is_not(engine: Engine, any_url: str, flag: str) -> None:
    do(
        engine,
        f"INSERT INTO versions (version, compatible) VALUES ({NEWEST + 1}, {flag})",
        f"INSERT INTO versions (version, compatible) VALUES ({NEWEST + 2}, TRUE)",
    )
    wanted = rf"was written by a newer Retinue \(schema version {NEWEST + 2}, this one knows up to {NEWEST}\)"
    for opening in (Database, lambda url: read_only(url).__enter__(), lambda url: admin_transaction(url).__enter__()):
        with pytest.raises(DataError, match=wanted):
            opening(any_url)


def test_a_server_migrates_beside_older_ones(a_postgres: Postgres, release: Release) -> None:
    url = a_postgres.database()
    with closing(Database(url)) as older:
        release(ADDED)
        with closing(Database(url)) as newer, newer.engine.connect() as connection:
            assert is_current(connection)
        older.check()


def test_a_migration_that_changes_something_names_itself_and_what_to_do(a_postgres: Postgres, release: Release) -> None:
    url = a_postgres.database()
    with closing(Database(url)):
        release(CHANGED)
        wanted = r"stop it, .* \(migration \d+_next.sql cannot run beside older servers and workers: stop all of them\)"
        with pytest.raises(UsageError, match=wanted):
            Database(url, patience=0.1)


def test_a_migration_beside_others_waits_for_their_transactions_and_holds_nobody_up_for_long(
    a_postgres: Postgres, release: Release
) -> None:
    url = a_postgres.database()
    with closing(Database(url)) as older, psycopg.connect(url, autocommit=True) as reading:
        release({f"{NEWEST + 1:03}_next.sql": "ALTER TABLE versions ADD COLUMN further INTEGER;"})
        reading.execute("BEGIN")
        reading.execute("SELECT * FROM versions")  # as a backup does with each table
        newer: list[Database] = []
        beginning = threading.Thread(target=lambda: newer.append(Database(url)))
        beginning.start()
        assert until(lambda: waits_for_lock(older.engine))
        do(older.engine, "INSERT INTO versions (version) VALUES (1) ON CONFLICT DO NOTHING")  # waits behind it
        assert not newer
        reading.execute("ROLLBACK")
        beginning.join(30)
        with closing(newer[0]), newer[0].engine.connect() as connection:
            assert is_current(connection)


@pytest.mark.anyio
async def test_an_older_server_takes_its_lock_again_beside_newer_ones(a_postgres: Postgres) -> None:
    url = a_postgres.database()
    ended = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock'"
    with closing(Database(url)) as older, psycopg.connect(url, autocommit=True) as beside:
        beside.execute(f"INSERT INTO versions (version, compatible) VALUES ({NEWEST + 1}, TRUE)")
        beside.execute(f"{ended} AND database = (SELECT oid FROM pg_database WHERE datname = current_database())")
        await older.look()
        beside.execute(f"INSERT INTO versions (version) VALUES ({NEWEST + 2})")
        beside.execute(f"{ended} AND database = (SELECT oid FROM pg_database WHERE datname = current_database())")
        with pytest.raises(StoreUnavailable, match="of another version of Retinue now; restart the server"):
            await older.look()
