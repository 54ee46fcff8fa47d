"""SQLAlchemy engines, configured so that every commit is durable; transactions, errors and advisory locks on them."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DataError, IntegrityError, SQLAlchemyError

from .._internal.redaction import register_url_secrets
from ..errors import StoreConflict, StoreUnavailable, UsageError, ValueRefused

_BUSY = 30_000  # milliseconds to wait for another process's transaction
_IDLE = 5_000  # milliseconds that a transaction may wait for its process, whose locks others wait for
_LOCKED = 2_000  # milliseconds that a statement of a server waits for a lock, before it is repeated
_PRAGMAS = (
    "page_size = 1024",  # of new files: a commit writes whole pages, and a step of a run is smaller than one
    f"busy_timeout = {_BUSY}",
    "journal_mode = WAL",
    "synchronous = FULL",
    "foreign_keys = ON",
    "wal_autocheckpoint = 2000",  # pages; growing the file costs more per sync than overwriting it
    "cache_size = -500",  # kB per connection, of which there are ten; the system caches repeated reads as well
)

_ROLLED_BACK = ("40001", "40P01")  # SQLSTATE: could not serialize, deadlock
_LOCKED_OUT = "55P03"  # SQLSTATE: a lock was not to be had in time
COUNTING, CLAIMING = 7_373_061_895, 7_373_061_896
"""Arbitrary numbers: of who counts rows against a limit and adds one, and of who claims runs within limits."""
_POOLED = "pooled"  # key of a connection's `info`: what sets the limits of one transaction
_REACHED = {  # of a PostgreSQL that is gone without a word; in seconds, but for tcp_user_timeout
    "connect_timeout": 5,
    "tcp_user_timeout": 30_000,
    "keepalives_idle": 15,  # also of a session that only listens
    "keepalives_interval": 5,
    "keepalives_count": 3,
}

_encode = json.JSONEncoder(ensure_ascii=False).encode


def database_url(db: str) -> str:
    """Return the URL of a database given as a file or a URL."""
    return db if "://" in db else URL.create("sqlite", database=str(Path(db))).render_as_string(hide_password=False)


def engine_of(url: str, process: str = "") -> Engine:
    """Create an engine for `url`. On PostgreSQL, sessions are named after the server's `process`, by which others end
    those of a frozen one; a command has none, and waits for locks as long as it must. Raises `UsageError` if the
    database is neither SQLite nor PostgreSQL."""
    register_url_secrets(url)
    try:
        parsed = make_url(url)
    except ArgumentError:
        parsed = None
    if parsed is None or parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise UsageError(
            f"unsupported database {url.split('@')[-1]!r}: expected sqlite:///FILE or postgresql://USER@HOST/NAME"
        )
    options: dict[str, Any] = {"json_serializer": json_text, "pool_pre_ping": True, "hide_parameters": True}
    if parsed.get_backend_name() == "postgresql":
        try:
            return _postgresql(parsed, process, options)
        except ImportError as error:
            raise UsageError("PostgreSQL needs the extra 'postgres': pip install 'retinue[postgres]'") from error
    if parsed.database in (None, "", ":memory:"):
        raise UsageError("an in-memory database cannot hold a server's runs; give a file: sqlite:///FILE")
    options |= {"pool_pre_ping": False, "paramstyle": "named", "connect_args": {"check_same_thread": False}}
    engine = create_engine(parsed, **options)
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def json_text(value: Any) -> str:
    """Return `value` as JSON text. Lone surrogates, which no database accepts, become question marks."""
    return _encode(value).encode("utf-8", "replace").decode()


def _postgresql(url: URL, process: str, options: Mapping[str, Any]) -> Engine:
    """Return an engine that holds up no other server: PostgreSQL ends a transaction whose process is frozen between two
    statements, and no statement waits long for a lock."""
    named = {"application_name": session_name(process)} if process else {}
    engine = create_engine(url.set(drivername="postgresql+psycopg"), connect_args={**_REACHED, **named}, **options)

    limits = {"idle_in_transaction_session_timeout": _IDLE} | ({"lock_timeout": _LOCKED} if process else {})

    def limit(connection: Any, record: Any) -> None:
        values = ", ".join(f"set_config('{name}', '{most}', false)" for name, most in limits.items())
        backend, *_ = connection.execute(f"SELECT pg_backend_pid(), {values}").fetchone()
        if backend != connection.info.backend_pid:  # a pooler answers, which may give each transaction another session
            connection.prepare_threshold = None
            record.info[_POOLED] = ", ".join(f"set_config('{name}', '{most}', true)" for name, most in limits.items())
        connection.commit()

    event.listen(engine, "connect", limit)
    event.listen(engine, "do_executemany", _execute_one_by_one)
    return engine


def session_name(process: str) -> str:
    """Return the `application_name` of a server's sessions."""
    return f"retinue {process}"


def _execute_one_by_one(cursor: Any, statement: str, rows: Sequence[Any], _context: Any) -> bool:
    """Execute a statement for each row: the driver would send all of them at once, and PostgreSQL does not count the
    time for which it waits for the rest as idle."""
    for row in rows:
        cursor.execute(statement, row)
    return True


def _prepare(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # we begin transactions ourselves
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    driver: Any = connection.connection.dbapi_connection
    if connection.get_execution_options().get("isolation_level") != "AUTOCOMMIT" and not driver.in_transaction:
        driver.execute("BEGIN IMMEDIATE")


def begin(connection: Connection) -> None:
    """Begin a transaction. On SQLite the driver does it: this happens in every step, and SQLAlchemy takes ten times as
    long. What SQLAlchemy executes joins the driver's transaction."""
    if connection.dialect.name == "sqlite":
        driver: Any = connection.connection.dbapi_connection
        driver.execute("BEGIN IMMEDIATE")
    else:
        connection.begin()
        if values := connection.info.get(_POOLED):
            connection.exec_driver_sql(f"SELECT {values}")


def is_pooled(connection: Connection) -> bool:
    """Whether a pooler is between this process and PostgreSQL, so that what belongs to a session may be lost."""
    return _POOLED in connection.info


def commit(connection: Connection) -> None:
    """Commit what `begin` began."""
    if connection.in_transaction():
        connection.commit()
    else:
        connection.connection.commit()


def roll_back(connection: Connection) -> None:
    """Roll back what `begin` began."""
    if connection.in_transaction():
        connection.rollback()
    else:
        connection.connection.rollback()


def only_what_is_there(engine: Engine) -> None:
    """Make a SQLite engine open only the file that exists now, and never create another in its place."""
    path = quote(os.path.realpath(str(engine.url.database)))

    def connecting(_dialect: Any, _record: Any, arguments: list[Any], options: dict[str, Any]) -> None:
        arguments[0] = f"file:{path}?mode=rw"
        options["uri"] = True

    event.listen(engine, "do_connect", connecting)


def begin_at_once(connection: Connection) -> Connection:
    """Make transactions on `connection` begin at once or fail: SQLite raises while another process writes."""
    if connection.dialect.name == "sqlite":
        driver: Any = connection.connection.dbapi_connection
        driver.execute("PRAGMA busy_timeout = 0")
    return connection


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise errors of SQLAlchemy and SQLite as `StoreConflict` if a constraint is violated, as `ValueRefused` if it is
    about a value, and otherwise as `StoreUnavailable`."""
    try:
        yield
    except (IntegrityError, sqlite3.IntegrityError) as error:
        raise StoreConflict(_first_line(error)) from error
    except (DataError, OverflowError) as error:  # SQLite's driver raises the latter
        raise ValueRefused(_first_line(error)) from error
    except (SQLAlchemyError, sqlite3.Error) as error:
        raise StoreUnavailable(_first_line(error)) from error


def may_be_repeated(error: BaseException | None) -> bool:
    """Whether PostgreSQL rolled back the transaction in favour of another one, or would not wait for its locks, so that
    it may simply be repeated."""
    return _state(error) in _ROLLED_BACK or was_locked_out(error)


def was_locked_out(error: BaseException | None) -> bool:
    """Whether PostgreSQL gave up to wait for a lock, as it was told to."""
    return _state(error) == _LOCKED_OUT


def _state(error: BaseException | None) -> str | None:
    driver_error = getattr(getattr(error, "__cause__", None), "orig", None)
    return getattr(driver_error, "sqlstate", None)


def _first_line(error: Exception) -> str:
    said = str(getattr(error, "orig", None) or error).splitlines()
    return f"the database: {said[0] if said else type(error).__name__}"


def lock_until_end(connection: Connection, number: int) -> None:
    """Take the advisory lock: other transactions that call this with the same number wait until this one ends. SQLite
    has one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})
