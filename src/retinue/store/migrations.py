"""Migrations of the schema from older versions of Retinue."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import Connection, Engine, func, insert, inspect, select, update
from sqlalchemy.schema import CreateColumn

from ..errors import DataError
from .tables import keys, metadata, runs, versions


def _responses_and_tenants(connection: Connection) -> None:
    """Add tables for responses, files and requests; names, scopes, limits and expiry of keys; and the key of a run."""
    metadata.create_all(connection)
    for table in (keys, runs):
        there = {column["name"] for column in inspect(connection).get_columns(table.name)}
        for column in table.columns:
            if column.name not in there:
                definition = CreateColumn(column).compile(dialect=connection.dialect)
                connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {definition}")
        for index in table.indexes:
            index.create(connection, checkfirst=True)
    connection.execute(update(keys).where(keys.c.id.is_(None)).values(id="key_" + func.substr(keys.c.hash, 1, 24)))


def _secrets_and_indexes(connection: Connection) -> None:
    """Add a table for secrets, and indexes that find a tenant's rows, or an item by id, without scanning other
    tenants'."""
    metadata.create_all(connection)
    for table in metadata.tables.values():
        for index in table.indexes:
            index.create(connection, checkfirst=True)


MIGRATIONS: Sequence[Callable[[Connection], None]] = (
    metadata.create_all,
    _responses_and_tenants,
    _secrets_and_indexes,
)
"""Each migrates from one version to the next; the first creates all tables. Existing tables are left unchanged."""


def is_current(connection: Connection) -> bool:
    """Whether the schema is at this Retinue's version."""
    return inspect(connection).has_table(versions.name) and _version(connection) == len(MIGRATIONS)


def migrate(engine: Engine) -> None:
    """Migrate the database to the latest version. Raises `DataError` if it is not Retinue's, or is newer."""
    with engine.begin() as connection:
        present = set(inspect(connection).get_table_names())
        if present and versions.name not in present:
            raise DataError(f"{engine.url.render_as_string()} holds tables of another application; give another --db")
        version = _version(connection) if present else 0
        if version > len(MIGRATIONS):
            raise DataError(
                f"{engine.url.render_as_string()} was written by a newer Retinue (schema version {version}, this one "
                f"knows up to {len(MIGRATIONS)}); use the newer Retinue"
            )
        for number in range(version, len(MIGRATIONS)):
            MIGRATIONS[number](connection)
            connection.execute(insert(versions).values(version=number + 1))


def _version(connection: Connection) -> int:
    return connection.execute(select(func.max(versions.c.version))).scalar() or 0
