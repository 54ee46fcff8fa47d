"""Runs the migrations that a database lacks, each in a transaction of its own."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from sqlalchemy import Connection, Engine, inspect, text

from ...errors import DataError, StoreConflict, StoreUnavailable
from ..audit_author import system_user
from ..audit_log import OPERATOR, record
from ..db_errors import translate_errors

logger = logging.getLogger(__name__)
_NAME = re.compile(r"(?P<number>\d{3})_\w+(\.(?P<dialect>sqlite|postgresql))?\.sql")
_LOCK = 7_373_061_894  # an arbitrary number, unlikely to be used by other applications
_AS_WRITTEN = {"no_parameters": True}  # otherwise drivers look for placeholders, such as a % of LIKE


@dataclass(frozen=True)
class Migration:
    """Migrates the schema from version `number - 1` to version `number`."""

    number: int
    file: str
    statements: tuple[str, ...]

    def run(self, connection: Connection) -> None:
        """Run all statements and record the version; the caller commits."""
        for statement in self.statements:
            connection.exec_driver_sql(statement, execution_options=_AS_WRITTEN)
        connection.execute(text("INSERT INTO versions (version) VALUES (:number)"), {"number": self.number})


@cache
def load_migrations(dialect: str) -> tuple[Migration, ...]:
    """Load all migrations of `dialect` (`"sqlite"` or `"postgresql"`), in order: the last one's number is the version
    of a current schema."""
    found = []
    for file in files(__package__).iterdir():
        name = _NAME.fullmatch(file.name)
        if name and name["dialect"] in (None, dialect):
            found.append(Migration(int(name["number"]), file.name, _statements(file.read_text(encoding="utf-8"))))
    return tuple(sorted(found, key=lambda one: one.number))


def is_current(connection: Connection) -> bool:
    """Whether the schema is at this Retinue's version."""
    return _version(connection) == len(load_migrations(connection.dialect.name))


def migrate(engine: Engine) -> None:
    """Migrate the database to the latest version. Raises `DataError` if it is not Retinue's, or is newer, and
    `StoreUnavailable` if a migration fails: it has changed nothing then.

    Several processes may call it at once: one migrates, the others wait."""
    first: int | None = None
    while (version := _migrate_once(engine, first)) is not None:
        first = version if first is None else first


def _migrate_once(engine: Engine, first: int | None) -> int | None:
    """Run the next migration in a transaction. Return the version before it, or `None` if there was none. `first` is
    the version before the first of them."""
    with engine.begin() as connection:
        _wait_for_others(connection)
        version = _check_version(connection)
        left = load_migrations(connection.dialect.name)[version:]
        if not left:
            return None
        logger.info("migrating the database from schema version %d to %d", version, left[0].number)
        try:
            with translate_errors():
                left[0].run(connection)
                _record(connection, version if first is None else first, left)
        except (StoreConflict, StoreUnavailable) as error:
            raise StoreUnavailable(f"{error} (in migration {left[0].file}, which was undone)") from error
    return version


def _record(connection: Connection, version: int, left: Sequence[Migration]) -> None:
    """Write into the audit log that a database was migrated, with the last migration: its tables are those of today."""
    if version and len(left) == 1:
        detail = {"version": left[0].number}
        record(connection, system_user(), OPERATOR, "database.migrated", left[0].file, detail)


def _wait_for_others(connection: Connection) -> None:
    """Hold others' migrations up until the transaction ends. SQLite needs nothing: a transaction locks its file."""
    if connection.dialect.name != "postgresql":
        return
    taken = connection.execute(text("SELECT pg_try_advisory_xact_lock(:lock)"), {"lock": _LOCK}).scalar()
    if not taken:
        logger.info("waiting for another process, which migrates the database")
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})


def _check_version(connection: Connection) -> int:
    """Return the schema's version, 0 for an empty database. Raises `DataError` as `migrate` does."""
    version, newest = _version(connection), len(load_migrations(connection.dialect.name))
    place = connection.engine.url.render_as_string()
    if version is None and inspect(connection).get_table_names():
        raise DataError(f"{place} holds tables of another application; give another --db")
    if version is not None and version > newest:
        raise DataError(
            f"{place} was written by a newer Retinue (schema version {version}, this one knows up to {newest}); "
            "use the newer Retinue"
        )
    return version or 0


def _version(connection: Connection) -> int | None:
    """Return the schema's version, `None` if there is no table of versions."""
    if not inspect(connection).has_table("versions"):
        return None
    return connection.execute(text("SELECT max(version) FROM versions")).scalar() or 0


def _statements(script: str) -> tuple[str, ...]:
    """Split a script at its blank lines, and leave out blocks that are only comments."""
    blocks = (block.strip() for block in re.split(r"\n\s*\n", script))
    return tuple(block for block in blocks if any(not line.startswith("--") for line in block.splitlines()))
