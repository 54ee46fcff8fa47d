"""Transactions and reads for command-line tools, in a database that a server may have open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine

from ..errors import UsageError
from .database_lock import acquire_lock
from .engines import engine_of, only_what_is_there, translate_errors
from .migrations import fits, migrate, missing_migrations, version_of


@contextmanager
def admin_transaction(url: str, *, new: bool = False) -> Iterator[Connection]:
    """Open a transaction in the database at `url`, and commit it at the end of the block.

    The server's lock is not needed, because it only prevents others from driving runs. It is taken only while tables
    are migrated, as a server takes it. Raises what `Database` raises, and `UsageError` if the file does
    not exist, unless `new` allows creating it."""
    engine = engine_of(url)
    try:
        if engine.dialect.name == "sqlite" and not new:
            _check_there(engine)
        with translate_errors():
            if not _current(engine):
                _make_current(engine)
            with engine.begin() as connection:
                yield connection
    finally:
        engine.dispose()


@contextmanager
def read_only(url: str) -> Iterator[Connection]:
    """Open the database at `url` to read, each statement a transaction, whatever server has it open.

    Raises `UsageError` if it does not exist, or was made by another version, and `StoreUnavailable`."""
    engine = engine_of(url)
    try:
        if engine.dialect.name == "sqlite":
            _check_there(engine)
            only_what_is_there(engine)
        with translate_errors(), engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            if engine.dialect.name == "sqlite":
                connection.exec_driver_sql("PRAGMA query_only = ON")
            if not fits(connection):
                raise UsageError(_unfit(connection))
            yield connection
    finally:
        engine.dispose()


@contextmanager
def looked_at(url: str, *, changes: bool = False) -> Iterator[Connection]:
    """Open a transaction in the database at `url`, of whatever version; `changes` commits it. Raises as `read_only`
    does."""
    engine = engine_of(url)
    try:
        if engine.dialect.name == "sqlite":
            _check_there(engine)
            only_what_is_there(engine)
        with translate_errors(), engine.connect() as connection:
            yield connection
            if changes:
                connection.commit()
    finally:
        engine.dispose()


def migrated(url: str) -> tuple[int, int]:
    """Migrate the database at `url`, which is made if missing. Return its versions before and after. Raises what
    `Database` raises."""
    engine = engine_of(url)
    try:
        before = 0
        if engine.dialect.name != "sqlite" or Path(str(engine.url.database)).exists():
            with translate_errors(), engine.connect() as connection:
                before = version_of(connection) or 0
        _make_current(engine)
        with translate_errors(), engine.connect() as connection:
            return before, version_of(connection) or 0
    finally:
        engine.dispose()


def _check_there(engine: Engine) -> None:
    if not Path(str(engine.url.database)).exists():
        raise UsageError(f"the database {engine.url.database} does not exist; name another with --db")


def _current(engine: Engine) -> bool:
    if engine.dialect.name == "sqlite" and not Path(str(engine.url.database)).exists():
        return False
    with engine.connect() as connection:
        return fits(connection)


def _unfit(connection: Connection) -> str:
    missing_migrations(connection)  # raises if it is newer, or not ours
    return "the database has the tables of an older version; `retinue database migrate` updates it"


def _make_current(engine: Engine) -> None:
    lock = acquire_lock(engine)
    try:
        migrate(engine)
    finally:
        lock.release()
