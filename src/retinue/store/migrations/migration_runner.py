"""Runs the migrations that a database lacks, each in a transaction of its own."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from sqlalchemy import Connection, Engine, inspect, text

from ...errors import DataError, StoreConflict, StoreUnavailable
from ..audit_author import system_user
from ..audit_log import OPERATOR, record
from ..db_errors import translate_errors, was_locked_out
from .compatibility import is_compatible

logger = logging.getLogger(__name__)
_NAME = re.compile(r"(?P<number>\d{3})_\w+(\.(?P<dialect>sqlite|postgresql))?\.sql")
_LOCK = 7_373_061_894  # an arbitrary number, unlikely to be used by other applications
_AS_WRITTEN = {"no_parameters": True}  # otherwise drivers look for placeholders, such as a % of LIKE
_FLAGGED = 11  # the migration since which the database says which others are compatible
_BRIEF = 1.0  # seconds for which a migration may hold up what waits behind it
_AGAIN = 0.5  # seconds
_PATIENCE = 120.0  # seconds


@dataclass(frozen=True)
class Migration:
    """Migrates the schema from the version before to version `number`. If it is `compatible`, servers of the version
    before go on meanwhile, and afterwards."""

    number: int
    file: str
    statements: tuple[str, ...]
    compatible: bool = False

    def run(self, connection: Connection) -> None:
        """Run all statements and record the version; the caller commits."""
        for statement in self.statements:
            connection.exec_driver_sql(statement, execution_options=_AS_WRITTEN)
        connection.execute(text("INSERT INTO versions (version) VALUES (:number)"), {"number": self.number})
        if self.number >= _FLAGGED:
            flag = text("UPDATE versions SET compatible = :compatible WHERE version = :number")
            connection.execute(flag, {"number": self.number, "compatible": self.compatible})


@cache
def load_migrations(dialect: str) -> tuple[Migration, ...]:
    """Load all migrations of `dialect` (`"sqlite"` or `"postgresql"`), in order: the last one's number is the version
    of a current schema."""
    found = []
    for file in files(__package__).iterdir():
        name = _NAME.fullmatch(file.name)
        if name and name["dialect"] in (None, dialect):
            found.append(_migration(int(name["number"]), file.name, file.read_text(encoding="utf-8")))
    return tuple(sorted(found, key=lambda one: one.number))


def _migration(number: int, file: str, script: str) -> Migration:
    statements = _statements(script)
    return Migration(number, file, statements, number >= _FLAGGED - 1 and is_compatible(script, statements))


def newest(dialect: str) -> int:
    """Return the version of a current schema."""
    return load_migrations(dialect)[-1].number


def is_current(connection: Connection) -> bool:
    """Whether the schema is at this Retinue's version."""
    return version_of(connection) == newest(connection.dialect.name)


def fits(connection: Connection) -> bool:
    """Whether this Retinue can use the schema as it is: it is current, or newer by compatible migrations only."""
    version, known = version_of(connection), newest(connection.dialect.name)
    return version is not None and _oldest_that_fits(connection, version) <= known <= version


def missing_migrations(connection: Connection) -> tuple[Migration, ...]:
    """Return the migrations that the schema lacks. Raises `DataError` as `migrate` does."""
    version = _check_version(connection)
    return tuple(one for one in load_migrations(connection.dialect.name) if one.number > version)


def migrate(engine: Engine) -> None:
    """Migrate the database to the latest version. Raises `DataError` if it is not Retinue's, or is newer by a migration
    that is not compatible, and `StoreUnavailable` if a migration fails: it has changed nothing then.

    Several processes may call it at once: one migrates, the others wait. Servers that use the database hold a
    compatible migration up no longer than their transactions, and are held up for a second at a time."""
    until = time.monotonic() + _PATIENCE
    first: int | None = None
    while True:
        try:
            version = _migrate_once(engine, first)
        except StoreUnavailable as error:
            if not was_locked_out(error.__cause__) or time.monotonic() > until:
                raise
            time.sleep(_AGAIN)
        else:
            if version is None:
                return
            first = version if first is None else first


def _migrate_once(engine: Engine, first: int | None) -> int | None:
    """Run the next migration in a transaction. Return the version before it, or `None` if there was none. `first` is
    the version before the first of them."""
    with engine.begin() as connection:
        _wait_for_others(connection)
        left, version = missing_migrations(connection), version_of(connection) or 0
        if not left:
            return None
        logger.info("migrating the database to schema version %d", left[0].number)
        try:
            with translate_errors():
                _be_brief(connection, left[0])
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
    connection.exec_driver_sql("SET LOCAL lock_timeout = 0")  # it waits, but for `_be_brief`
    taken = connection.execute(text("SELECT pg_try_advisory_xact_lock(:lock)"), {"lock": _LOCK}).scalar()
    if not taken:
        logger.info("waiting for another process, which migrates the database")
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})


def _be_brief(connection: Connection, migration: Migration) -> None:
    """Have a migration give up soon if it waits for a table, since others wait behind it. One that is alone waits."""
    if connection.dialect.name == "postgresql" and migration.compatible:
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_BRIEF:.0f}s'")


def _check_version(connection: Connection) -> int:
    """Return the schema's version, 0 for an empty database. Raises `DataError` as `migrate` does."""
    tables = inspect(connection).get_table_names()  # before the version: another process may be making both
    version, known = version_of(connection) or 0, newest(connection.dialect.name)
    place = connection.engine.url.render_as_string()
    if tables and "versions" not in tables:
        raise DataError(f"{place} holds tables of another application; give another --db")
    if version > known and _oldest_that_fits(connection, version) > known:
        raise DataError(
            f"{place} was written by a newer Retinue (schema version {version}, this one knows up to {known}); "
            "use the newer Retinue"
        )
    return version


def version_of(connection: Connection) -> int | None:
    """Return the schema's version, `None` if there is no table of versions."""
    if not inspect(connection).has_table("versions"):
        return None
    return connection.execute(text("SELECT max(version) FROM versions")).scalar() or 0


def _oldest_that_fits(connection: Connection, version: int) -> int:
    """Return the oldest version whose servers can use the schema: that of the last migration that is not compatible."""
    if version < _FLAGGED:
        return version
    query = text("SELECT max(version) FROM versions WHERE compatible IS NOT TRUE")
    return connection.execute(query).scalar() or 0


def _statements(script: str) -> tuple[str, ...]:
    """Split a script at its blank lines, and leave out blocks that are only comments."""
    blocks = (block.strip() for block in re.split(r"\n\s*\n", script))
    return tuple(block for block in blocks if any(not line.startswith("--") for line in block.splitlines()))
