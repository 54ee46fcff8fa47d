"""The tables as this Retinue wants them, whatever an older one left."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import Connection, Engine, func, insert, inspect, select

from ..errors import DataError
from .tables import metadata, versions

MIGRATIONS: Sequence[Callable[[Connection], None]] = (metadata.create_all,)
"""What leads from each version to the next; the first makes all tables. One that was released is never changed."""


def migrate(engine: Engine) -> None:
    """Bring the database to the newest version. Raises `DataError` for one that is not ours or is newer."""
    with engine.begin() as connection:
        present = set(inspect(connection).get_table_names())
        if present and versions.name not in present:
            raise DataError(f"{engine.url.render_as_string()} holds tables of somebody else; give another --db")
        version = 0
        if present:
            version = connection.execute(select(func.max(versions.c.version))).scalar() or 0
        if version > len(MIGRATIONS):
            raise DataError(
                f"{engine.url.render_as_string()} was written by a newer Retinue (its version is {version}, this one "
                f"knows {len(MIGRATIONS)}); use that one"
            )
        for number in range(version, len(MIGRATIONS)):
            MIGRATIONS[number](connection)
            connection.execute(insert(versions).values(version=number + 1))
