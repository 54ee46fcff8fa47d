"""Migrations: what they make of a new database and of those of former versions, on a file and on PostgreSQL."""

from __future__ import annotations

import hashlib
import sqlite3
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, MetaData, Table, inspect, select, text

from fakes.postgres import Postgres
from fakes.until import until
from retinue.errors import StoreUnavailable
from retinue.store import migrations, tables
from retinue.store.api_keys import create_key
from retinue.store.database import Database
from retinue.store.engines import engine_of
from retinue.store.migrations import Migration, is_current, load_migrations, migrate

DIALECTS = ("sqlite", "postgresql")
NUMBERS = [one.number for one in load_migrations("sqlite")]
NEWEST = NUMBERS[-1]
RELEASED = {
    "001_runs.postgresql.sql": "7ff98092a4842385",
    "001_runs.sqlite.sql": "502e86eb8c035b14",
    "002_responses_and_files.postgresql.sql": "511ba4231997e0b7",
    "002_responses_and_files.sqlite.sql": "b9d74875640873bd",
    "003_secrets_and_indexes.postgresql.sql": "360d9ad3e8b7818e",
    "003_secrets_and_indexes.sqlite.sql": "d95f7012f6be95af",
    "004_typed_runs.postgresql.sql": "30dc0105b3204e1a",
    "004_typed_runs.sqlite.sql": "b75327fbb069ec2e",
    "005_processes.sql": "48c7692ec42da120",
    "006_images_memories_and_tools.postgresql.sql": "b4b3fa0553c3213b",
    "006_images_memories_and_tools.sqlite.sql": "2593f1df95aa1fe9",
    "007_storage_used.sql": "384e17efaa0339b7",
    "008_events_in_order.postgresql.sql": "1da8fe272194b964",
    "008_events_in_order.sqlite.sql": "753537793f815d0a",
    "009_forks.sql": "cb94139be91491d6",
}
AWKWARD = "a';\n\n-- 100 % :of %s $1 \"ä🙂\\"
OWNED = {"tenant": "t", "created_at": 1_700_000_000, "body": {"text": AWKWARD}}
REQUEST = {"kind": "chat", "model": "m", "messages": [{"role": "user", "content": AWKWARD}]}
RUN = {"tenant": "t", "created_at": 1_700_000_000, "epoch": 3, "request": REQUEST, "state": {}}
FIRST: Mapping[str, list[dict[str, Any]]] = {
    "assistants": [{**OWNED, "number": 7, "id": "asst_1"}],
    "threads": [{**OWNED, "number": 7, "id": "thread_1", "key": AWKWARD}, {**OWNED, "number": 9, "id": "thread_2"}],
    "messages": [{**OWNED, "number": 7, "id": "msg_1", "thread_id": "thread_1", "run_id": "run_1"}],
    "runs": [
        {**RUN, "number": 7, "id": "run_1", "thread_id": "thread_1", "status": "completed", "holds": False},
        {**RUN, "number": 8, "id": "run_2", "thread_id": "thread_1", "status": "queued", "holds": True},
    ],
    "events": [
        {"run_id": "run_1", "seq": seq, "epoch": 3, "at": 1_700_000_000.123456, "kind": "delta", "payload": AWKWARD}
        for seq in (1, 2)
    ],
    "keys": [{"hash": "0123456789abcdef" * 4, "tenant": "t", "created_at": 1}],
}
SECOND: Mapping[str, list[dict[str, Any]]] = {
    "conversations": [{**OWNED, "number": 7, "id": "conv_1"}],
    "items": [{**OWNED, "number": 7, "id": "i_1", "conversation_id": "conv_1", "item_id": "msg_1", "run_id": "run_1"}],
    "files": [{**OWNED, "number": 7, "id": "file_1", "expires_at": 1_800_000_000}],
    "contents": [{"tenant": "t", "id": "file_1", "content": bytes(range(256))}],
    "vector_stores": [{**OWNED, "number": 7, "id": "vs_1", "expires_at": None}],
    "vector_store_batches": [{**OWNED, "number": 7, "id": "vsb_1", "vector_store_id": "vs_1"}],
    "vector_store_files": [
        {**OWNED, "number": 7, "id": "vsf_1", "vector_store_id": "vs_1", "file_id": "file_1", "status": "completed"}
        | {"usage_bytes": 12}
    ],
    "requests": [
        {"tenant": "t", "key": AWKWARD, "route": "/v1", "created_at": 1, "body_hash": "0", "response": {"a": AWKWARD}}
    ],
}
IMAGE = {"created_at": 1, "media_type": "image/png", "content": bytes(range(256))}
MEMORY = {"created_at": 1, "agent": AWKWARD, "part": 0, "kind": "conversation", "updated_at": 1, "body": AWKWARD}
SIXTH: Mapping[str, list[dict[str, Any]]] = {
    "images": [
        {**IMAGE, "tenant": "t", "id": "1", "bytes": 2_000_000_000},
        {**IMAGE, "tenant": "t", "id": "2", "bytes": 2_000_000_000},
        {**IMAGE, "tenant": "u", "id": "1", "bytes": 3},
    ],
    "memories": [
        {**MEMORY, "number": 1, "tenant": "t", "id": "mem_1", "owner": "user:a", "bytes": 5},
        {**MEMORY, "number": 2, "tenant": "t", "id": "mem_2", "owner": AWKWARD, "bytes": 6},
    ],
}
ROWS = {1: FIRST, 2: {**FIRST, **SECOND}}
Rows = dict[str, list[dict[str, Any]]]


@pytest.fixture
def engine(any_url: str) -> Any:
    engine = engine_of(any_url)
    yield engine
    engine.dispose()


def make(engine: Engine, version: int, rows: Mapping[str, list[dict[str, Any]]] | None = None) -> None:
    """Make a database of a former version, with rows."""
    for migration in load_migrations(engine.dialect.name)[:version]:
        with engine.begin() as connection:
            migration.run(connection)
    there = reflected(engine)
    with engine.begin() as connection:
        for name, some in (rows or {}).items():
            for row in some:
                connection.execute(there[name].insert().values(row))


def reflected(engine: Engine) -> Mapping[str, Table]:
    metadata = MetaData()
    metadata.reflect(engine)
    return metadata.tables


def stored(engine: Engine, names: Mapping[str, Any]) -> Rows:
    there = reflected(engine)
    with engine.connect() as connection:
        return {
            name: [
                dict(row._mapping) for row in connection.execute(select(there[name]).order_by(*there[name].primary_key))
            ]
            for name in names
        }


def schema(connection: Connection) -> dict[str, Any]:
    return {name: described(connection, name) for name in inspect(connection).get_table_names()}


def described(connection: Connection, name: str) -> dict[str, Any]:
    """All that the database says of a table."""
    looking, dialect = inspect(connection), connection.dialect
    return {
        "columns": {
            column["name"]: (column["type"].compile(dialect), column["nullable"], column["default"])
            for column in looking.get_columns(name)
        },
        "indexes": {
            index["name"]: (index["column_names"], index["unique"], str(where(dialect.name, index)))
            for index in looking.get_indexes(name)
            if "duplicates_constraint" not in index
        },
        "primary key": looking.get_pk_constraint(name)["constrained_columns"],
        "foreign keys": looking.get_foreign_keys(name),
        "checks": looking.get_check_constraints(name),
        **(of_sqlite if dialect.name == "sqlite" else of_postgresql)(connection, name),
    }


def where(dialect: str, index: Mapping[str, Any]) -> Any:
    return index.get("dialect_options", {}).get(f"{dialect}_where")


def of_postgresql(connection: Connection, name: str) -> dict[str, Any]:
    return {"unique": sorted(one["column_names"] for one in inspect(connection).get_unique_constraints(name))}


def of_sqlite(connection: Connection, name: str) -> dict[str, Any]:
    """What SQLAlchemy does not tell of a file, or not whatever a constraint's spelling is."""
    unique = text(
        "SELECT (SELECT group_concat(name) FROM pragma_index_info(of.name)) FROM pragma_index_list(:name) AS of "
        "WHERE origin = 'u' ORDER BY 1"
    )
    rowid = text("SELECT wr FROM pragma_table_list WHERE name = :name")
    return {
        "unique": connection.execute(unique, {"name": name}).scalars().all(),
        "without rowid": connection.execute(rowid, {"name": name}).scalar_one(),
    }


def test_the_schema_after_all_migrations_is_that_of_the_tables(engine: Engine) -> None:
    with engine.connect() as connection, connection.begin() as transaction:
        tables.metadata.create_all(connection)
        wanted = schema(connection)
        transaction.rollback()
    migrate(engine)
    with engine.connect() as connection:
        assert is_current(connection)
        made = schema(connection)
    assert set(made) == set(wanted) == set(tables.metadata.tables)
    for name in wanted:
        assert made[name] == wanted[name], name


@pytest.mark.parametrize("version", sorted(ROWS))
def test_a_database_of_a_former_version_keeps_its_rows(engine: Engine, version: int) -> None:
    make(engine, version, ROWS[version])
    before = stored(engine, ROWS[version])
    migrate(engine)
    after = stored(engine, ROWS[version])
    for name, rows in before.items():
        kept = [
            {column: row[column] for column in old if column in row} for old, row in zip(rows, after[name], strict=True)
        ]
        assert kept == [{column: old[column] for column in old if column in kept[0]} for old in rows], name
    assert [row["id"] for row in after["keys"]] == ["key_0123456789abcdef01234567" if version == 1 else None]
    assert after["runs"][0]["request"] == REQUEST


def test_what_tenants_keep_is_counted_when_a_database_of_a_former_version_is_opened(engine: Engine) -> None:
    make(engine, 6, SIXTH)
    before = stored(engine, SIXTH)
    migrate(engine)
    assert stored(engine, SIXTH) == before
    assert stored(engine, {"storage_used": ()})["storage_used"] == [
        {"tenant": "t", "what": "images", "bytes": 4_000_000_000},
        {"tenant": "t", "what": "memories", "bytes": 11},
        {"tenant": "u", "what": "images", "bytes": 3},
    ]


@pytest.mark.parametrize("version", range(NEWEST))
def test_a_migrated_database_has_the_schema_of_a_new_one(any_url: str, engine: Engine, version: int) -> None:
    make(engine, version, ROWS.get(version))
    database = Database(any_url)
    with database.engine.begin() as connection:
        create_key(connection)
    database.close()
    with engine.connect() as connection:
        made = schema(connection)
        versions = connection.execute(text("SELECT version FROM versions ORDER BY version")).scalars().all()
        numbers = [connection.execute(text(NEW_THREAD), {"id": f"new_{one}"}).scalar_one() for one in range(2)]
    assert versions == NUMBERS
    assert set(made) == set(tables.metadata.tables)
    assert len(set(numbers)) == 2


NEW_THREAD = "INSERT INTO threads (tenant, id, created_at, body) VALUES ('t', :id, 1, '{}') RETURNING number"


def test_a_migration_that_fails_changes_nothing_and_says_which_it_was(engine: Engine) -> None:
    make(engine, 1, FIRST)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE requests (a INTEGER)"))
    before = stored(engine, FIRST)
    with engine.connect() as connection:
        was = schema(connection)
    wanted = r'requests"? already exists \(in migration 002_responses_and_files\.\w+\.sql, which was undone\)$'
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=wanted):
            migrate(engine)
        with engine.connect() as connection:
            assert schema(connection) == was
            assert connection.execute(text("SELECT version FROM versions")).scalars().all() == [1]
    assert stored(engine, FIRST) == before
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE requests"))
    migrate(engine)
    with engine.connect() as connection:
        assert is_current(connection)


def test_statements_go_to_the_database_as_they_are_written(engine: Engine) -> None:
    """No driver takes a part of a literal for a parameter."""
    make(engine, 1)
    written = "-- a comment\nINSERT INTO keys (hash, tenant, created_at) VALUES (';%s :a ? $1 100%', '%(a)s', 1);"
    with engine.begin() as connection:
        Migration(2, "002.sql", (written,)).run(connection)
    with engine.connect() as connection:
        row = connection.execute(text("SELECT hash, tenant FROM keys")).one()
        assert tuple(row) == (";%s :a ? $1 100%", "%(a)s")
        assert connection.execute(text("SELECT max(version) FROM versions")).scalar() == 2


@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_migration_has_its_number_and_whole_statements(dialect: str) -> None:
    found = load_migrations(dialect)
    assert [one.number for one in found] == list(range(1, NEWEST + 1))
    for one in found:
        assert one.statements, one.file
        for statement in one.statements:
            triggers = dialect == "postgresql" and statement.startswith("CREATE TRIGGER")  # SQLite's end with END
            whole = statement.endswith(";") if triggers else sqlite3.complete_statement(statement)
            assert whole, f"{one.file}: {statement}"
    loaded = {one.file for one in (*load_migrations("sqlite"), *load_migrations("postgresql"))}
    assert loaded == {one.name for one in files(migrations).iterdir() if one.name.endswith(".sql")}


def test_a_migration_that_was_released_is_never_changed() -> None:
    found = {name: hashlib.sha256((files(migrations) / name).read_bytes()).hexdigest()[:16] for name in RELEASED}
    assert found == RELEASED


PROGRAM = """
import logging, sys
from retinue.store.engines import engine_of
from retinue.store.migrations import migrate
logging.basicConfig(level="INFO", stream=sys.stdout, format="%(message)s")
migrate(engine_of(sys.argv[1]))
"""
WAITING = text(
    "SELECT wait_event FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' ORDER BY 1"
)


def test_of_processes_that_open_a_new_database_at_once_one_migrates_and_all_go_on(a_postgres: Postgres) -> None:
    url = a_postgres.database()
    engine = engine_of(url)
    command = [sys.executable, "-c", PROGRAM, url]
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as watching:

        def waiting_for() -> Sequence[str]:
            return watching.execute(WAITING).scalars().all()

        with engine.connect() as holding:  # which the first process waits for while it migrates
            holding.execute(text("SET idle_in_transaction_session_timeout = 0"))
            holding.execute(text("CREATE TABLE versions (a INTEGER)"))
            first = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            until(lambda: waiting_for() == ["transactionid"])
            others = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
            until(lambda: waiting_for() == ["advisory", "advisory", "transactionid"])
            holding.rollback()
        said = [one.communicate(timeout=60)[0] for one in (first, *others)]
        assert [one.returncode for one in (first, *others)] == [0, 0, 0]
        assert is_current(watching)
        versions = watching.execute(text("SELECT version FROM versions ORDER BY version")).scalars().all()
    engine.dispose()
    assert versions == NUMBERS
    assert sum(one.count("migrating the database") for one in said) == len(NUMBERS)
    assert all("waiting for another process" in one for one in said[1:])
