"""SQLAlchemy engines, configured so that every commit is durable."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from .._internal.redaction import register_url_secrets
from ..errors import UsageError

_BUSY = 30_000  # milliseconds to wait for another process's transaction
_IDLE = 20_000  # milliseconds
_PRAGMAS = (
    "page_size = 1024",  # of new files: a commit writes whole pages, and a step of a run is smaller than one
    f"busy_timeout = {_BUSY}",
    "journal_mode = WAL",
    "synchronous = FULL",
    "foreign_keys = ON",
    "wal_autocheckpoint = 2000",  # pages; growing the file costs more per sync than overwriting it
    "cache_size = -500",  # kB per connection, of which there are ten; the system caches repeated reads as well
)

_REACHED = {"connect_timeout": 5, "tcp_user_timeout": 30_000}  # seconds; milliseconds: for an unresponsive PostgreSQL

_encode = json.JSONEncoder(ensure_ascii=False).encode


def engine_of(url: str) -> Engine:
    """Create an engine for `url`. Raises `UsageError` if it is neither SQLite nor PostgreSQL."""
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
            engine = create_engine(parsed.set(drivername="postgresql+psycopg"), connect_args=_REACHED, **options)
            event.listen(engine, "connect", _limit_idle)
            return engine
        except ImportError as error:
            raise UsageError("PostgreSQL needs the extra 'postgres': pip install 'retinue[postgres]'") from error
    if parsed.database in (None, "", ":memory:"):
        raise UsageError("an in-memory database cannot hold a server's runs; give a file: sqlite:///FILE")
    options |= {"pool_pre_ping": False, "paramstyle": "named", "connect_args": {"check_same_thread": False}}
    engine = create_engine(parsed, **options)
    event.listen(engine, "do_connect", _create_private)
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def json_text(value: Any) -> str:
    """Return `value` as JSON text. Lone surrogates, which no database accepts, become question marks."""
    return _encode(value).encode("utf-8", "replace").decode()


def _limit_idle(connection: Any, _record: Any) -> None:
    """Have PostgreSQL end a transaction of a frozen process, whose locks would stop all other servers."""
    connection.execute(f"SET idle_in_transaction_session_timeout = {_IDLE}")
    connection.commit()


def _create_private(_dialect: Any, _record: Any, arguments: list[Any], options: dict[str, Any]) -> None:
    """Create the file of a SQLite database, if there is none, for its owner alone: it holds what tenants say. The log
    beside it gets the same mode."""
    if not options.get("uri"):  # else `only_what_is_there`
        with suppress(FileExistsError, FileNotFoundError):  # SQLite says what is wrong with a folder
            os.close(os.open(arguments[0], os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


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

    event.listen(engine, "do_connect", connecting, insert=True)


def begin_at_once(connection: Connection) -> Connection:
    """Make transactions on `connection` begin at once or fail: SQLite raises while another process writes."""
    if connection.dialect.name == "sqlite":
        driver: Any = connection.connection.dbapi_connection
        driver.execute("PRAGMA busy_timeout = 0")
    return connection
