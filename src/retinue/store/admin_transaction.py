"""A transaction in a database that a server may have open: for a command beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine

from ..errors import UsageError
from .database_lock import acquire_lock
from .db_errors import translate_errors
from .engines import engine_of
from .migrations import is_current, migrate


@contextmanager
def admin_transaction(url: str, *, new: bool = False) -> Iterator[Connection]:
    """A transaction in the database `url`, committed at the end of the block. The lock of a server is not needed for
    it: that keeps others from driving its runs. Only where the tables are not those of this Retinue it is taken for
    as long as they are made so, and then no server may be there. Raises what `Database` raises, and `UsageError` for a
    file that is not there, unless it may be `new`."""
    engine = engine_of(url)
    try:
        if engine.dialect.name == "sqlite" and not new and not Path(str(engine.url.database)).exists():
            raise UsageError(f"there is no database {engine.url.database}; say which with --db")
        with translate_errors():
            if not _current(engine):
                _make_current(engine)
            with engine.begin() as connection:
                yield connection
    finally:
        engine.dispose()


def _current(engine: Engine) -> bool:
    if engine.dialect.name == "sqlite" and not Path(str(engine.url.database)).exists():
        return False
    with engine.connect() as connection:
        return is_current(connection)


def _make_current(engine: Engine) -> None:
    lock = acquire_lock(engine)
    try:
        migrate(engine)
    finally:
        lock.release()
