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
    with _engine(url, new=new) as engine:
        is_there = _is_there(engine)
        if is_there:
            with engine.connect() as connection:
                is_there = fits(connection)
        if not is_there:
            _make_current(engine)
        with engine.begin() as connection:
            yield connection


@contextmanager
def read_only(url: str) -> Iterator[Connection]:
    """Open the database at `url` to read, each statement a transaction, whatever server has it open.

    Raises `UsageError` if it does not exist, or was made by another version, and `StoreUnavailable`."""
    with _engine(url) as engine, engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("PRAGMA query_only = ON")
        if not fits(connection):
            missing_migrations(connection)  # raises if it is newer, or not ours
            raise UsageError("the database has the tables of an older version; `retinue database migrate` updates it")
        yield connection


@contextmanager
def looked_at(url: str, *, changes: bool = False) -> Iterator[Connection]:
    """Open a transaction in the database at `url`, of whatever version; `changes` commits it. Raises as `read_only`
    does."""
    with _engine(url) as engine, engine.connect() as connection:
        yield connection
        if changes:
            connection.commit()


def migrated(url: str) -> tuple[int, int]:
    """Migrate the database at `url`, which is made if missing. Return its versions before and after. Raises what
    `Database` raises."""
    with _engine(url, new=True) as engine:
        before = 0
        if _is_there(engine):
            with engine.connect() as connection:
                before = version_of(connection) or 0
        _make_current(engine)
        with engine.connect() as connection:
            return before, version_of(connection) or 0


@contextmanager
def _engine(url: str, *, new: bool = False) -> Iterator[Engine]:
    """An engine for the block, on a file that exists, unless a `new` one may be made."""
    engine = engine_of(url)
    try:
        if not new and engine.dialect.name == "sqlite":
            if not _is_there(engine):
                raise UsageError(f"the database {engine.url.database} does not exist; name another with --db")
            only_what_is_there(engine)
        with translate_errors():
            yield engine
    finally:
        engine.dispose()


def _is_there(engine: Engine) -> bool:
    return engine.dialect.name != "sqlite" or Path(str(engine.url.database)).exists()


def _make_current(engine: Engine) -> None:
    lock = acquire_lock(engine)
    try:
        migrate(engine)
    finally:
        lock.release()
