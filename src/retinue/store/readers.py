"""Reads from a database, on connections that are kept: to check one out of a pool costs more than a small read."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from .db_errors import translate_errors

T = TypeVar("T")
_OF_DATABASES = (SQLAlchemyError, sqlite3.Error)
_QUICK = 0.002  # seconds that a read may block the event loop
_RESTS = 1.0  # seconds without reads on the event loop after one that took longer


class Readers:
    """Reads, each statement a transaction, in any thread. With `waits=False`, a read fails while another process has
    SQLite's file locked, and must leave no result open, whatever it raises. A connection to PostgreSQL is checked each
    time, and not kept."""

    def __init__(self, engine: Engine, *, waits: bool = True) -> None:
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._keeps = engine.dialect.name == "sqlite"
        self._waits = waits
        self._idle: list[Connection] = []
        self._rests_until = 0.0
        self._closed = False
        self._returning = threading.Lock()  # so that no connection goes back to a pool that is given up

    def read(self, work: Callable[[Connection], T]) -> T:
        """Return what `work` returns. Raises `StoreUnavailable`."""
        with translate_errors():
            connection = self._idle.pop() if self._idle else self._connect()
            began = time.monotonic()
            try:
                found = work(connection)
            except BaseException as error:
                self._give_back(connection, error)
                raise
            finally:
                if (now := time.monotonic()) - began > _QUICK:
                    self._rests_until = now + _RESTS
            self._give_back(connection)
        return found

    @property
    def is_quick(self) -> bool:
        """Whether all reads of the last second were over at once."""
        return time.monotonic() >= self._rests_until

    def close(self) -> None:
        """Close the connections that are not in use, and the others once they are given back."""
        with self._returning:
            self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _give_back(self, connection: Connection, error: BaseException | None = None) -> None:
        """Keep the connection for the next read, unless `error` may have left a result open in it, which would show the
        next one an old state."""
        with self._returning:
            if self._closed:  # nobody waits for what was read
                connection.detach()
                connection.close()
            else:
                self._put_back(connection, error)

    def _put_back(self, connection: Connection, error: BaseException | None) -> None:
        if self._waits:
            if error is None and self._keeps:
                self._idle.append(connection)
            else:
                connection.close()
        elif error is None or (isinstance(error, Exception) and not isinstance(error, _OF_DATABASES)):
            self._idle.append(connection)
        else:
            connection.invalidate()  # others must not get it, as they wait
            connection.close()

    def _connect(self) -> Connection:
        connection = self._engine.connect()
        if not self._waits:
            driver: Any = connection.connection.dbapi_connection
            driver.execute("PRAGMA busy_timeout = 0")
        return connection
