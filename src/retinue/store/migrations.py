"""The tables as this Retinue wants them, whatever an older one left."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import Connection, Engine, func, insert, inspect, select, update
from sqlalchemy.schema import CreateColumn

from ..errors import DataError
from .tables import keys, metadata, runs, versions


def _responses_and_tenants(connection: Connection) -> None:
    """Tables for responses, files and requests; keys got names, scopes, limits and ends, runs the key they are of."""
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
    """A table for secrets. Indexes by which what one tenant has, and an item by its id, is found without looking at
    what others have."""
    metadata.create_all(connection)
    for table in metadata.tables.values():
        for index in table.indexes:
            index.create(connection, checkfirst=True)


MIGRATIONS: Sequence[Callable[[Connection], None]] = (
    metadata.create_all,
    _responses_and_tenants,
    _secrets_and_indexes,
)
"""What leads from each version to the next; the first makes all tables. What is there already is left as it is."""


def is_current(connection: Connection) -> bool:
    """Whether the tables are those of this Retinue already."""
    return inspect(connection).has_table(versions.name) and _version(connection) == len(MIGRATIONS)


def migrate(engine: Engine) -> None:
    """Bring the database to the newest version. Raises `DataError` for one that is not ours or is newer."""
    with engine.begin() as connection:
        present = set(inspect(connection).get_table_names())
        if present and versions.name not in present:
            raise DataError(f"{engine.url.render_as_string()} holds tables of somebody else; give another --db")
        version = _version(connection) if present else 0
        if version > len(MIGRATIONS):
            raise DataError(
                f"{engine.url.render_as_string()} was written by a newer Retinue (its version is {version}, this one "
                f"knows {len(MIGRATIONS)}); use that one"
            )
        for number in range(version, len(MIGRATIONS)):
            MIGRATIONS[number](connection)
            connection.execute(insert(versions).values(version=number + 1))


def _version(connection: Connection) -> int:
    return connection.execute(select(func.max(versions.c.version))).scalar() or 0
