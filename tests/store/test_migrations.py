"""The baseline and migrations: what they make of a new database and of an older one, on a file and on PostgreSQL."""

from __future__ import annotations

import gzip
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, PrimaryKeyConstraint, UniqueConstraint, inspect, select, text

from fakes.postgres import Postgres
from fakes.until import until
from recorded.test_databases import FOLDERS, load
from retinue.errors import DataError, StoreUnavailable
from retinue.store import migrations, tables
from retinue.store.audit_log import AuditFilter, entries
from retinue.store.database import Database
from retinue.store.engines import engine_of
from retinue.store.migrations import BASELINE, is_current, load_migrations, migrate, missing_migrations, newest

DIALECTS = ("sqlite", "postgresql")
NUMBERS = [BASELINE, *(one.number for one in load_migrations("sqlite"))]
FURTHER = {
    f"{NUMBERS[-1] + 1:03}_further.sql": "-- a comment; of no effect\n\nCREATE TABLE further (a INTEGER NOT NULL);\n\n"
    "INSERT INTO keys (hash, tenant, created_at) VALUES (';%s :a ? $1 100%', '%(a)s', 1);",
    f"{NUMBERS[-1] + 2:03}_last.sql": "ALTER TABLE further ADD COLUMN b INTEGER;",
}


@pytest.fixture
def engine(any_url: str) -> Iterator[Engine]:
    engine = engine_of(any_url)
    yield engine
    engine.dispose()


def known_versions(engine: Engine) -> list[tuple[int, bool]]:
    columns = tables.versions.c
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(select(*columns).order_by(columns.version))]


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


def schema_of_tables(engine: Engine) -> dict[str, Any]:
    with engine.connect() as connection, connection.begin() as transaction:
        tables.metadata.create_all(connection)
        wanted = schema(connection)
        transaction.rollback()
    engine.dispose()
    return wanted


def test_a_new_database_has_the_tables_and_nothing_else(engine: Engine) -> None:
    wanted = schema_of_tables(engine)
    migrate(engine)
    with engine.connect() as connection:
        assert is_current(connection)
        made = schema(connection)
    assert set(made) == set(wanted) == set(tables.metadata.tables)
    for name in wanted:
        assert made[name] == wanted[name], name
    assert [version for version, _ in known_versions(engine)] == NUMBERS


def test_what_refers_to_a_row_is_indexed_and_goes_with_it() -> None:
    for table in tables.metadata.tables.values():
        unique = [one for one in table.constraints if isinstance(one, UniqueConstraint | PrimaryKeyConstraint)]
        indexes = {next(iter(one.columns)).name for one in (*table.indexes, *unique)}
        for key in table.foreign_keys:
            assert key.ondelete == "CASCADE", key
            assert key.parent.name in indexes, key


def test_an_older_database_gets_what_it_lacks(engine: Engine, release: Callable[..., None]) -> None:
    """Each statement goes to the database as it is written: no driver takes a part of a literal for a parameter."""
    migrate(engine)
    release(FURTHER)
    with engine.connect() as connection:
        assert [one.file for one in missing_migrations(connection)] == list(FURTHER)
    migrate(engine)
    with engine.connect() as connection:
        assert is_current(connection)
        row = connection.execute(text("SELECT hash, tenant FROM keys")).one()
        assert tuple(row) == (";%s :a ? $1 100%", "%(a)s")
        assert {one["name"] for one in inspect(connection).get_columns("further")} == {"a", "b"}
        assert [row.target for row in entries(connection, AuditFilter(), 9)] == [list(FURTHER)[-1]]
    assert known_versions(engine)[-2:] == [(NUMBERS[-1] + 1, False), (NUMBERS[-1] + 2, True)]


def test_a_new_database_of_a_later_version_has_no_migration_to_run(
    engine: Engine, release: Callable[..., None]
) -> None:
    release(FURTHER)  # whose tables would have what these make
    migrate(engine)
    assert known_versions(engine)[-2:] == [(NUMBERS[-1] + 1, False), (NUMBERS[-1] + 2, True)]
    with engine.connect() as connection:
        assert not missing_migrations(connection)
        assert not inspect(connection).has_table("further")


def test_a_migration_that_fails_changes_nothing_and_says_which_it_was(
    engine: Engine, release: Callable[..., None]
) -> None:
    migrate(engine)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE further (c INTEGER)"))
    release(FURTHER)
    with engine.connect() as connection:
        was = schema(connection)
    for _ in range(2):
        with pytest.raises(
            StoreUnavailable, match=r'further"? already exists \(in migration \d+_further\.sql, which was undone\)$'
        ):
            migrate(engine)
        with engine.connect() as connection:
            assert schema(connection) == was
    assert [version for version, _ in known_versions(engine)] == NUMBERS
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE further"))
    migrate(engine)
    with engine.connect() as connection:
        assert is_current(connection)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.parent.name)
def test_a_recorded_database_gets_the_tables_of_today(
    any_url: str, engine: Engine, tmp_path: Path, folder: Path
) -> None:
    wanted = schema_of_tables(engine)
    shutil.copy(folder / "tables.sql", tmp_path)
    (tmp_path / "runs.db").write_bytes(gzip.decompress((folder / "runs.db.gz").read_bytes()))
    if engine.dialect.name == "postgresql":
        load(tmp_path, any_url)
    migrate(engine)
    with engine.connect() as connection:
        assert schema(connection) == wanted


@pytest.mark.parametrize("version", [1, 13])
def test_a_database_from_before_the_baseline_is_refused(any_url: str, engine: Engine, version: int) -> None:
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE versions (version INTEGER NOT NULL PRIMARY KEY)"))
        connection.execute(text(f"INSERT INTO versions (version) VALUES ({version})"))
    with pytest.raises(DataError, match=rf"made before the first release of Retinue \(schema version {version}\)"):
        Database(any_url)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_migration_has_its_number_and_whole_statements(dialect: str) -> None:
    found = load_migrations(dialect)
    assert [one.number for one in found] == list(range(BASELINE + 1, newest(dialect) + 1))
    for one in found:
        assert one.statements, one.file
        for statement in one.statements:
            triggers = dialect == "postgresql" and statement.startswith("CREATE TRIGGER")  # SQLite's end with END
            whole = statement.endswith(";") if triggers else sqlite3.complete_statement(statement)
            assert whole, f"{one.file}: {statement}"
    loaded = {one.file for one in (*load_migrations("sqlite"), *load_migrations("postgresql"))}
    assert loaded == {one.name for one in Path(migrations.__file__).parent.glob("*.sql")}


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
    assert sum(one.count("migrating the database") for one in said) == 1
    assert all("waiting for another process" in one for one in said[1:])
