"""The store of the simulated machines: one SQLite database in memory, read and written with the product's own SQL.

A write is a transaction that happens at once, at a moment that chance chooses; between two statements of a read others
may write. What PostgreSQL does with transactions that overlap is the subject of `tests/store`.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.pool import NullPool

from retinue.store import processes
from retinue.store.engines import json_text
from retinue.store.migrations import migrate

from .virtual_time import BEGAN
from .world import Machine, World

DEAD_AFTER = 10.0  # seconds without a sign of life after which others may take a server's runs
_WRITES = re.compile(r"(?:INSERT(?: OR \w+)? INTO|UPDATE(?: OR \w+)?|DELETE FROM) (\w+)")
_GONE = "Cannot operate on a closed database."  # what SQLAlchemy takes for a connection that was lost
_TABLES = (
    "runs",
    "events",
    "messages",
    "submissions",
    "processes",
    "requests",
    "usage_sums",
    "audit_entries",
)  # what schedules write to
_PRAGMAS = (
    "page_size = 512",  # a transaction copies each page that it writes to
    "secure_delete = OFF",
    "synchronous = OFF",
    "journal_mode = MEMORY",
    "foreign_keys = ON",
    "temp_store = MEMORY",
)


class SharedDialect(SQLiteDialect_pysqlite):
    """SQLite as a database of several servers: what the product does otherwise for SQLite, it does not do here."""

    name = "simulated"
    supports_statement_cache = True

    def on_connect(self) -> Callable[[Any], None]:
        """Prepare nothing: if a function is defined again, SQLite compiles all statements again."""
        return lambda connection: None


registry.register("simulated", __name__, "SharedDialect")
processes.NOW["simulated"] = "database_time()"


@cache
def _written(statement: str) -> str:
    """Return the table that a statement writes to; "" if there is none."""
    found = _WRITES.match(statement)
    return found[1] if found else ""


class _Cursor(sqlite3.Cursor):
    """A cursor of SQLAlchemy."""

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:  # type: ignore[override]
        self.connection.store.writes[_written(statement)] += 1  # type: ignore[attr-defined]
        return super().execute(statement, *values)

    def executemany(self, statement: str, *values: Any) -> sqlite3.Cursor:  # type: ignore[override]
        self.connection.store.writes[_written(statement)] += 1  # type: ignore[attr-defined]
        return super().executemany(statement, *values)


class _Driver(sqlite3.Connection):
    """The only connection to the database, under all connections of SQLAlchemy."""

    store: Store

    @property
    def isolation_level(self) -> None:
        """What SQLAlchemy sets for one of its connections would be so for all."""

    @isolation_level.setter
    def isolation_level(self, level: object) -> None: ...

    def cursor(self, *args: Any) -> sqlite3.Cursor:  # type: ignore[override]
        self.store.statement()
        return _Cursor(self)

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        store = self.store
        store.statement()
        store.writes[_written(statement)] += 1
        return _execute(self, statement, *values)

    def executemany(self, statement: str, *values: Any) -> sqlite3.Cursor:
        store = self.store
        store.statement()
        store.writes[_written(statement)] += 1
        return super().executemany(statement, *values)

    def commit(self) -> None:
        if self.in_transaction:
            self.store.committing()
            super().commit()
            self.store.committed()

    def close(self) -> None:
        """Roll back and stay open: others use it."""
        super().rollback()


_execute = sqlite3.Connection.execute


class Connections:
    """Connections of SQLAlchemy that no machine uses, to be used again: making one takes as long as some reads."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._idle: list[Connection] = []

    def take(self) -> Connection:
        """Return one that is as good as new."""
        return self._idle.pop() if self._idle else self._connect()

    def put_back(self, connection: Connection | None) -> None:
        """Keep one, unless something happened to it."""
        if connection is not None and not (connection.closed or connection.invalidated or connection.in_transaction()):
            self._idle.append(connection)


class Store:
    """The database, which outlives schedules: each begins with empty tables."""

    def __init__(self) -> None:
        self.driver = sqlite3.connect(
            ":memory:", factory=_Driver, isolation_level=None, check_same_thread=False, cached_statements=1_000
        )
        self.driver.store = self
        self.world: World | None = None
        self.acting: Machine | None = None  # whose statements these are
        self.connection: Connection | None = None  # and on which connection
        self.reading = False
        self.away_until = 0.0
        self.flaky = 0.0  # the part of commits whose answer is lost
        self.lose: str = ""  # what is lost next: "statement" (the connection), "answer" (of a commit)
        self.version = 0
        self.statements = 0
        self.ahead = 0.0  # seconds that the database's clock was set ahead
        self.quiet = False  # whether what is written does not matter to readers: that a server has begun, or ended
        self.of_nothing: dict[Any, Any] = {}  # what was read while there was no run, in all schedules
        self.known: dict[Any, Any] = {}  # what was read since the last write
        self.writes: Counter[str] = Counter()  # statements of machines that write, by table
        self._living: tuple[Any, ...] = ()
        self._counted = (-1, 0.0)  # writes of servers, and changes of the clock, when it was found who lives
        self._until = 0.0  # when the first of them is dead without another sign of life
        self.observers: list[Callable[[], None]] = []
        self.driver.create_function("database_time", 0, self._time, deterministic=True)  # within a statement
        for pragma in _PRAGMAS:
            self.driver.execute(f"PRAGMA {pragma}")
        _begin_transactions(plain := create_engine("sqlite://", creator=lambda: self.driver, poolclass=NullPool))
        migrate(plain)
        options: dict[str, Any] = {"json_serializer": json_text, "paramstyle": "named", "pool_reset_on_return": None}
        self.engine = create_engine("simulated://", creator=lambda: self.driver, poolclass=NullPool, **options)
        _begin_transactions(self.engine)
        self.writers = Connections(self.engine.connect)
        self.readers = Connections(lambda: self.engine.connect().execution_options(isolation_level="AUTOCOMMIT"))

    def begin(self, world: World) -> None:
        """Empty the tables for a new schedule."""
        self.world = self.acting = None
        self.away_until, self.lose, self.version, self.statements, self.ahead = 0.0, "", 0, 0, 0.0
        self.observers.clear()
        self.known = {}
        self._counted = (-1, 0.0)
        self.rows("BEGIN")
        for table in _TABLES:
            self.rows(f"DELETE FROM {table}")
        self.rows("COMMIT")
        self.world = world

    def rows(self, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """Return what a query finds that is no machine's."""
        return sqlite3.Cursor(self.driver).execute(query, values).fetchall()

    def living(self) -> tuple[Any, ...]:
        """Return the ids of the servers that count as alive."""
        counted, now = (self.writes["processes"], self.ahead), self._time()
        if counted != self._counted or now >= self._until:
            found = self.rows("SELECT id, seen_at FROM processes WHERE seen_at > ? ORDER BY id", (now - DEAD_AFTER,))
            self._living = tuple(process for process, _ in found)
            self._until = min((seen_at + DEAD_AFTER for _, seen_at in found), default=0.0)
            self._counted = counted
        return self._living

    @property
    def is_away(self) -> bool:
        """Whether nobody reaches the database now."""
        return self.world is not None and self.world.now < self.away_until

    def statement(self) -> None:
        """Called before each statement: here its machine may die, its connection be lost, or others act."""
        machine, world = self.acting, self.world
        if machine is None or world is None:
            return
        self.statements += 1
        if machine.fuse:
            machine.burn()
        if not machine.alive:
            raise sqlite3.OperationalError("the process was killed")
        if self.lose == "statement":
            self.lose = ""
            world.fault("connection lost in a transaction")
            if self.connection is not None:
                self.connection.invalidate()
            raise sqlite3.ProgrammingError(_GONE)
        if self.reading and self.version and world.dice.random() < 0.2:
            before = self.acting, self.connection, self.reading
            self.acting = None
            world.come_between()
            self.acting, self.connection, self.reading = before

    def committing(self) -> None:
        """Called before a transaction is committed."""
        if self.acting is not None:
            self.acting.burn()
            if not self.acting.alive:
                raise sqlite3.OperationalError("the process was killed")

    def committed(self) -> None:
        """Called after a transaction was committed, which its machine may not learn."""
        if not self.quiet:
            self.version += 1
            self.known = {}
            if self.world is not None:
                self.world.changed = self.world.now
        for observer in self.observers:
            observer()
        if self.acting is not None:
            self.acting.burn()
            flaky = self.flaky and self.world is not None and self.world.chance(self.flaky)
            if (self.lose == "answer" or flaky) and self.world is not None:
                self.lose = ""
                self.world.fault("answer of a commit lost")
                raise sqlite3.OperationalError("the server closed the connection")

    def _time(self) -> float:
        return BEGAN + self.ahead + (self.world.now if self.world is not None else 0.0)


def _begin_transactions(engine: Engine) -> None:
    def begin(connection: Connection) -> None:
        if connection.get_execution_options().get("isolation_level") != "AUTOCOMMIT":
            driver: Any = connection.connection.dbapi_connection
            driver.execute("BEGIN")

    event.listen(engine, "begin", begin)
