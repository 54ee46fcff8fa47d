"""The schema's version: an empty database gets the baseline, an older one the numbered migrations that it lacks.

The baseline is the schema that `schema` makes, with all migrations so far. A migration is `NNN_name.sql` here, or a
pair `NNN_name.sqlite.sql` and `NNN_name.postgresql.sql` if the dialects differ; `tables` changes with it. Blank lines
separate its statements. One that was released is never changed.

Servers of the version before may go on beside a migration that only adds: tables, columns that nobody has to fill, and
indexes that forbid nothing. A line of its file may say otherwise: `-- Beside older servers: WHY`, where only rows are
added that older ones do not look at, or `-- Not beside older servers: WHY`, where servers write something since then
that an older one cannot read.
"""

from __future__ import annotations

import logging
import re
import time
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from sqlalchemy import Connection, Engine, insert, inspect, select, text

from ...errors import DataError, StoreConflict, StoreUnavailable
from ..audit_log import OPERATOR, record, system_user
from ..engines import translate_errors, was_locked_out
from ..schema import schema_statements
from ..tables import versions

logger = logging.getLogger(__name__)
BASELINE = 20
"""The version of the first schema. Smaller ones are those of databases from before it."""
_NAME = re.compile(r"(?P<number>\d{3})_\w+(\.(?P<dialect>sqlite|postgresql))?\.sql")
_LOCK = 7_373_061_894  # an arbitrary number, unlikely to be used by other applications
_AS_WRITTEN = {"no_parameters": True}  # otherwise drivers look for placeholders, such as a % of LIKE
_BRIEF = 1.0  # seconds for which a migration may hold up what waits behind it
_AGAIN = 0.5  # seconds
_PATIENCE = 120.0  # seconds
_MARK = re.compile(r"^-- (?P<not>Not b|B)eside older servers: \S", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*$", re.MULTILINE)
_ADDS = re.compile(
    r"CREATE TABLE \w+ \([^;]*\)( WITHOUT ROWID)?;|CREATE INDEX [^;]*;|"
    r"ALTER TABLE \w+ ADD COLUMN \w+ [\w() ]+( DEFAULT \S+)?( NOT NULL)?;",
    re.IGNORECASE,
)
_FORBIDS = re.compile(r"\b(REFERENCES|CHECK|TRIGGER|GENERATED)\b", re.IGNORECASE)
_MUST_BE_FILLED = re.compile(r"ADD COLUMN (?!.*\bDEFAULT\b).*\bNOT NULL\b|ADD COLUMN .*\bUNIQUE\b", re.IGNORECASE)


@dataclass(frozen=True)
class Migration:
    """Migrates the schema to version `number`. If it is `compatible`, servers of the version before go on meanwhile,
    and afterwards."""

    number: int
    file: str
    statements: tuple[str, ...]
    compatible: bool = False

    def run(self, connection: Connection) -> None:
        """Run all statements and record the version; the caller commits. The baseline has what later ones make."""
        for statement in self.statements:
            connection.exec_driver_sql(statement, execution_options=_AS_WRITTEN)
        made = load_migrations(connection.dialect.name) if self.number == BASELINE else ()
        rows = [{"version": one.number, "compatible": one.compatible} for one in (self, *made)]
        connection.execute(insert(versions), rows)


@cache
def load_migrations(dialect: str) -> tuple[Migration, ...]:
    """Load the migrations after the baseline of `dialect` (`"sqlite"` or `"postgresql"`), in order."""
    found = []
    for file in files(__package__).iterdir():
        name = _NAME.fullmatch(file.name)
        if name and name["dialect"] in (None, dialect):
            script = file.read_text(encoding="utf-8")
            blocks = (block.strip() for block in re.split(r"\n\s*\n", script))
            statements = tuple(one for one in blocks if _COMMENT.sub("", one).strip())
            compatible = is_compatible(script, statements)
            found.append(Migration(int(name["number"]), file.name, statements, compatible))
    return tuple(sorted(found, key=lambda one: one.number))


def is_compatible(script: str, statements: tuple[str, ...]) -> bool:
    """Return whether servers of the version before may go on beside a migration, the `script` with these
    statements."""
    if said := _MARK.search(script):
        return said["not"] == "B"
    plain = [" ".join(_COMMENT.sub("", one).split()) for one in statements]
    return all(_ADDS.fullmatch(one) and not _FORBIDS.search(one) and not _MUST_BE_FILLED.search(one) for one in plain)


def newest(dialect: str) -> int:
    """Return the version of a current schema."""
    return max((one.number for one in load_migrations(dialect)), default=BASELINE)


def version_of(connection: Connection) -> int | None:
    """Return the schema's version, `None` if there is no table of versions."""
    if not inspect(connection).has_table("versions"):
        return None
    return connection.execute(text("SELECT max(version) FROM versions")).scalar() or 0


def is_current(connection: Connection) -> bool:
    """Whether the schema is at this Retinue's version."""
    return version_of(connection) == newest(connection.dialect.name)


def fits(connection: Connection) -> bool:
    """Whether this Retinue can use the schema as it is: it is current, or newer by compatible migrations only."""
    version, known = version_of(connection) or 0, newest(connection.dialect.name)
    return version >= BASELINE and _oldest_that_fits(connection) <= known <= version


def missing_migrations(connection: Connection) -> tuple[Migration, ...]:
    """Return the migrations that the schema lacks: of an empty database, the baseline. Raises `DataError` as `migrate`
    does."""
    dialect = connection.dialect.name
    tables = inspect(connection).get_table_names()  # before the version: another process may be making both
    version, known = version_of(connection) or 0, newest(dialect)
    place = connection.engine.url.render_as_string()
    if tables and "versions" not in tables:
        raise DataError(f"{place} holds tables of another application; give another --db")
    if 0 < version < BASELINE:
        raise DataError(
            f"{place} was made before the first release of Retinue (schema version {version}); give another --db"
        )
    if version > known and _oldest_that_fits(connection) > known:
        raise DataError(
            f"{place} was written by a newer Retinue (schema version {version}, this one knows up to {known}); "
            "use the newer Retinue"
        )
    if not version:
        return (Migration(BASELINE, "baseline", schema_statements(dialect)),)
    return tuple(one for one in load_migrations(dialect) if one.number > version)


def _oldest_that_fits(connection: Connection) -> int:
    """Return the oldest version whose servers can use the schema: that of the last migration that is not compatible."""
    query = select(versions.c.version).where(versions.c.compatible.is_not(True)).order_by(versions.c.version.desc())
    return connection.execute(query.limit(1)).scalar() or 0


def migrate(engine: Engine) -> None:
    """Migrate the database to the latest version. Raises `DataError` if it is not Retinue's, is from before the
    baseline, or is newer by a migration that is not compatible, and `StoreUnavailable` if a migration fails: it has
    changed nothing then.

    Several processes may call it at once: one migrates, the others wait. Servers that use the database hold a
    compatible migration up no longer than their transactions, and are held up for a second at a time."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            if not _migrate_once(engine):
                return
        except StoreUnavailable as error:
            if not was_locked_out(error.__cause__) or time.monotonic() > until:
                raise
            time.sleep(_AGAIN)


def _migrate_once(engine: Engine) -> bool:
    """Run the next migration in a transaction of its own. Return whether there was one."""
    with engine.begin() as connection:
        _wait_for_others(connection)
        left = missing_migrations(connection)
        if not left:
            return False
        logger.info("migrating the database to schema version %d", left[0].number)
        try:
            with translate_errors():
                if connection.dialect.name == "postgresql" and left[0].compatible:  # others wait behind it
                    connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_BRIEF:.0f}s'")
                left[0].run(connection)
                if len(left) == 1 and left[0].number > BASELINE:  # the audit log's table is today's
                    detail = {"version": left[0].number}
                    record(connection, system_user(), OPERATOR, "database.migrated", left[0].file, detail)
        except (StoreConflict, StoreUnavailable) as error:
            raise StoreUnavailable(f"{error} (in migration {left[0].file}, which was undone)") from error
    return True


def _wait_for_others(connection: Connection) -> None:
    """Hold others' migrations up until the transaction ends. SQLite needs nothing: a transaction locks its file."""
    if connection.dialect.name != "postgresql":
        return
    connection.exec_driver_sql("SET LOCAL lock_timeout = 0")  # it waits, unless a compatible migration is to be brief
    taken = connection.execute(text("SELECT pg_try_advisory_xact_lock(:lock)"), {"lock": _LOCK}).scalar()
    if not taken:
        logger.info("waiting for another process, which migrates the database")
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
