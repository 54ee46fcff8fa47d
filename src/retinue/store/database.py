"""A database: where it is read, and the single writer that groups the work which is ready at the same time.

A thread commits, so that a slow disk does not block the event loop. The statements of small writes are executed on the
event loop: while it is busy, a thread would wait for the interpreter at each of them. A lone write on a fast disk is
committed there, too, since waking the thread and the loop costs as much as the write. While the database is locked or
unavailable, writes are queued and retried: none was begun, so none is lost.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, select
from sqlalchemy.exc import SQLAlchemyError

from .._internal.concurrency import run_in_thread
from ..errors import StoreConflict, StoreLost, StoreUnavailable, UsageError
from .database_lock import Lock, acquire_lock
from .engines import (
    begin,
    begin_at_once,
    commit,
    engine_of,
    may_be_repeated,
    only_what_is_there,
    roll_back,
    translate_errors,
)
from .migrations import migrate, missing_migrations
from .prepared_statements import run_text
from .processes import new_process_id
from .tables import versions

logger = logging.getLogger(__name__)
T = TypeVar("T")
Work = Callable[[Connection], T]
_AT_ONCE = 200  # writes per transaction
_QUICK = 0.005  # seconds that a transaction may block the event loop
_BRIEF = 0.01  # seconds that its statements may, without the commit
_AGAIN = 0.05  # seconds between retries while the database is locked or unavailable
_STUCK = 5.0  # seconds for which writes wait and none is done, after which the database counts as unavailable
_CHECKS_AGAIN = 3  # times that a piece is repeated after a conflict; each time another transaction must have been first
_READERS = 8  # concurrent readers; more would contend for threads
_QUICK_READ = 0.002  # seconds that a read may block the event loop
_RESTS = 1.0  # seconds without reads on the event loop after one that took longer


class Database:
    """A database, by its SQLAlchemy URL: `sqlite:///FILE` (created if missing) or `postgresql://…`.

    Several processes may open a PostgreSQL database, or a SQLite file if all of them open it `shared`. Raises
    `DataError` if the database is not Retinue's or is newer than this version, `UsageError` if the URL is of another
    kind, or another server has the SQLite file open or is of another version, and `StoreUnavailable` if it cannot be
    reached. Writes wait up to `patience` seconds for a locked or unavailable database before they raise. `process` is
    this one's id among those that have the database open, which says whether it is a `worker`.
    """

    timed: Callable[[float, bool], None] | None = None  # told of each transaction: its seconds, and whether it failed

    def __init__(self, url: str, patience: float = 10.0, *, worker: bool = False, shared: bool = False) -> None:
        self.process = new_process_id(worker=worker)
        self.engine: Engine = engine_of(url, self.process)
        self._readers, self._at_hand = Readers(self.engine), Readers(self.engine, waits=False)
        self._patience = patience
        try:
            self._lock: Lock = acquire_lock(self.engine, patience, shared=shared)
        except BaseException:
            self.engine.dispose()
            raise
        self._local = self.engine.dialect.name == "sqlite"  # the event loop may wait for nothing remote
        self._shared = shared or not self._local
        self._anchor: Connection | None = None  # SQLite keeps its log while a connection is open
        try:
            with translate_errors():
                self._open()
        except BaseException:
            self.close()
            raise
        self._reading: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
        self._turn = threading.Condition()  # guards all fields below
        self._ready: list[Piece[Any]] = []  # submitted on the loop; how to write them is about to be decided
        self._given: deque[Piece[Any]] = deque()  # for the writer thread
        self._executed: Sequence[Piece[Any]] = ()  # on the loop; the writer thread commits them
        self._writing, self._under_way = False, 0  # the number of writes of the current transaction
        self._stuck_since: float | None = None  # in monotonic time: since then, nothing that was begun is done
        self._ending = False
        self._quick, self._brief = False, True  # was the last transaction fast? were the last one's statements, here?
        self._connection: Connection | None = None
        self._thread = threading.Thread(target=self._write, name="retinue-store", daemon=True)
        self._thread.start()

    def _open(self) -> None:
        if self._local:
            only_what_is_there(self.engine)
        if self._lock.may_migrate:
            migrate(self.engine)
        else:
            with self.engine.connect() as connection:
                if missing_migrations(connection):
                    raise UsageError("processes of an older version of Retinue have the database open; stop them first")
        if self._local:
            self._anchor = self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            self._anchor.execute(select(versions.c.version)).all()
        self._lock.watch()

    @property
    def is_shared(self) -> bool:
        """Whether other processes may have the database open."""
        return self._shared

    @property
    def notifies(self) -> bool:
        """Whether it passes notifications between the processes."""
        return not self._local

    def check(self) -> None:
        """Raise `StoreUnavailable` if a write would be lost, or if the lock is lost. Takes a few microseconds."""
        self._lock.check()

    def check_writes(self) -> None:
        """Raise `StoreUnavailable` if writes wait and none is done: another process may hold a lock that they need."""
        since, waiting = self._stuck_since, self.waiting_writes()
        if since is not None and waiting and (seconds := time.monotonic() - since) > _STUCK:
            raise StoreUnavailable(f"the database: {waiting} writes wait, and none was done for {seconds:.0f} s")

    async def look(self) -> None:
        """Check that the database is there and locked by this process, and try to retake a lost lock. Call it
        periodically. Raises as `check` and `check_writes` do."""
        await run_in_thread(self._look)
        self.check_writes()

    def _look(self) -> None:
        try:
            self._lock.look()
        except StoreUnavailable as error:
            if isinstance(error, StoreLost) and not error.only_log:
                raise
            # of a deleted log, which nobody would find
            settled = self._anchor is not None and _checkpoint_log(self._anchor)
            if isinstance(error, StoreLost):  # some data was only in the log
                raise
            self._lock.look(settled=settled)

    def waiting_writes(self) -> int:
        """Return how many writes are submitted and not yet committed."""
        return len(self._ready) + len(self._given) + self._under_way

    def deadline(self) -> float:
        """The deadline, in `time.monotonic` seconds, for a write submitted now."""
        return time.monotonic() + self._patience

    async def write(self, work: Work[T], *, alone: bool = False, small: bool = False, until: float | None = None) -> T:
        """Run `work`, commit, and return its result; if it raises, nothing is committed. `alone` runs it in a
        transaction of its own; `small` says that it takes no longer than what is submitted. `until` is the deadline
        (from `deadline`) of a request that has already waited."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        piece = Piece(work, future, self.deadline() if until is None else until, alone=alone, may_refuse=True)
        if small:
            self._add(piece)
        else:
            self._give(piece)
        return await future

    def submit(self, work: Work[T], *, large: bool = False, lone: bool = False) -> asyncio.Future[T]:
        """Start a small write without waiting. `large` marks one that takes longer; no other is expected to join a
        `lone` one, which a fast disk has at once. All writes are done in the order of submission."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._add(Piece(work, future, self.deadline(), large=large), lone=lone)
        return future

    async def read(self, work: Work[T], *, small: bool = False) -> T:
        """Run read-only `work` and return its result. It sees everything committed before. `small` says that it reads
        a few rows by their keys: while SQLite's file is at hand, the event loop reads them itself, since a thread costs
        ten times as much."""
        if small and self._local and self._at_hand.is_quick:
            with suppress(StoreUnavailable):  # a thread may wait
                return self._at_hand.read(work)
        async with self._reading.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(_READERS)):
            return await run_in_thread(self._readers.read, work)

    def read_here(self, work: Work[T]) -> T:
        """Run read-only `work` in the calling thread, which must not be that of the event loop."""
        return self._readers.read(work)

    async def write_apart(self, work: Work[T]) -> T:
        """Run `work` at once, each of its statements a transaction, whatever is being read or waits to be written."""
        return await run_in_thread(self._readers.read, work)

    async def close_async(self) -> None:
        """Write what was submitted, then close the database."""
        await run_in_thread(self.end)
        self.close()

    def end(self) -> None:
        """Write what was submitted. Blocks."""
        with self._turn:
            self._ending = True
        self._give()
        self._thread.join()

    def close(self) -> None:
        """Close the database and release its lock."""
        for readers in (self._readers, self._at_hand):
            readers.close()
        if self._anchor is not None:
            self._anchor.close()
        self.engine.dispose()
        self._lock.release()

    def _give(self, *pieces: Piece[Any]) -> None:
        """Have the writer thread do what is ready, and then the `pieces`."""
        with self._turn:
            self._given.extend([*self._ready, *pieces])
            self._ready.clear()
            self._turn.notify()

    def _add(self, piece: Piece[Any], *, lone: bool = False) -> None:
        with self._turn:
            self._ready.append(piece)
            first = len(self._ready) == 1
        if lone:
            self._begin()
        elif first:
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        """Have what is ready written. The loop commits a lone write; of others it only executes the statements."""
        with self._turn:
            on_loop = self._is_for_loop()
            if not self._ready or (self._writing and on_loop):
                return  # `_settled` calls again
            ready, self._ready = self._ready, []
            if not on_loop:
                self._given.extend(ready)
                self._turn.notify()
                return
            self._writing = True
        if len(ready) == 1 and self._quick:
            self._settled(self._commit(ready))
        else:
            self._execute(ready)

    def _is_for_loop(self) -> bool:
        """Whether the running loop should execute what is ready."""
        here = asyncio.get_running_loop()
        if self._given or self._ending or not (self._local and self._brief):
            return False
        return not any(one.large or one.future.get_loop() is not here for one in self._ready)

    def _execute(self, pieces: list[Piece[Any]]) -> None:
        """Execute all pieces; the writer thread commits them, or executes them again if that fails."""
        began = time.perf_counter()
        done = self._connection is not None and _begin_pieces(self._connection, pieces)
        with self._turn:
            self._brief = time.perf_counter() - began < _BRIEF
            if done:
                self._executed = pieces
            else:
                self._given.extendleft(reversed(pieces))
                self._writing = False
            self._turn.notify()

    def _settled(self, pieces: Sequence[Piece[Any]]) -> None:
        """Tell who waits, and go on with what became ready meanwhile, after what they submit at once."""
        for piece in pieces:
            piece.settle()
        if self._ready:
            asyncio.get_running_loop().call_soon(self._begin)

    def _write(self) -> None:
        """The writer thread: commit one transaction after another."""
        while pieces := self._next():
            done = self._commit(pieces)
            for loop in {piece.future.get_loop() for piece in done}:
                mine = [piece for piece in done if piece.future.get_loop() is loop]
                try:
                    loop.call_soon_threadsafe(self._settled, mine)
                except RuntimeError:  # it was closed: nobody waits any more, unless on another loop
                    self._give()
            if len(done) < len(pieces):
                time.sleep(_AGAIN)
        if self._connection is not None:
            self._connection.close()

    def _next(self) -> list[Piece[Any]]:
        """Wait for what the writer thread has to do: what was executed on the loop, or else what it was given."""
        with self._turn:
            self._turn.wait_for(lambda: self._executed or (not self._writing and (self._given or self._ending)))
            pieces: list[Piece[Any]] = list(self._executed)
            if pieces:
                return pieces
            self._brief = True
            while self._given and len(pieces) < _AT_ONCE:
                if pieces and (pieces[0].alone or self._given[0].alone):
                    break
                pieces.append(self._given.popleft())
            self._writing = bool(pieces)
            return pieces

    def _commit(self, pieces: Sequence[Piece[Any]]) -> list[Piece[Any]]:
        """Commit all pieces in one transaction; the caller has set `_writing`. Return the finished pieces; the others
        are requeued ahead of later ones."""
        began, self._under_way = time.perf_counter(), len(pieces)
        self._stuck_since = self._stuck_since or time.monotonic()
        try:
            by, executed = self._connection or self.engine, bool(self._executed)
            self._connection = commit_pieces(self._lock, by, pieces, executed=executed)
        except Exception as error:  # whatever it is, nobody may be left waiting
            logger.exception("a transaction failed unexpectedly")
            self._connection = None
            for piece in pieces:
                piece.error, piece.untouched = error, False
        if self.timed is not None:
            self.timed(time.perf_counter() - began, any(isinstance(one.error, StoreUnavailable) for one in pieces))
        now, self._under_way = time.monotonic(), 0
        if not all(isinstance(one.error, StoreUnavailable) for one in pieces):
            self._stuck_since = None
        left = [piece for piece in pieces if piece.untouched and now < piece.until]
        with self._turn:
            self._quick = self._local and not left and time.perf_counter() - began < _QUICK
            self._writing, self._executed = False, ()
            self._given.extendleft(reversed(left))
            if self._given or self._ending:
                self._turn.notify()
        return [piece for piece in pieces if piece not in left] if left else list(pieces)


# ── a transaction of several pieces of work ──────────────────────────────────────────────────────


@dataclass(slots=True, eq=False)
class Piece(Generic[T]):
    """Work and its outcome. `untouched` means that it was not begun, because the database was locked or unavailable."""

    work: Work[T]
    future: asyncio.Future[T]
    until: float
    alone: bool = False
    may_refuse: bool = False
    large: bool = False
    result: T | None = None
    error: BaseException | None = None
    untouched: bool = False

    def settle(self) -> None:
        """Tell who waits."""
        if self.future.done():
            return
        if self.error is None:
            self.future.set_result(self.result)  # type: ignore[arg-type] # there is one without an error
        elif isinstance(self.error, StopIteration):  # a future cannot carry it
            self.future.set_exception(RuntimeError(f"StopIteration was raised: {self.error}"))
        else:
            self.future.set_exception(self.error)


def commit_pieces(
    lock: Lock, by: Connection | Engine, pieces: Sequence[Piece[Any]], *, executed: bool = False
) -> Connection | None:
    """Execute all pieces in one transaction, or only commit it if they are `executed`. If it fails, execute each in a
    transaction of its own, so that only the faulty ones fail. Return the connection if it is still usable. The lock
    must be held, and its files present, before and after: otherwise no piece counts as done.

    A piece that checks something and then inserts a row conflicts if another process inserts the row in between. It is
    executed again, so that its check sees the other's row. If it still conflicts, its error is `StoreConflict`."""
    try:
        with translate_errors():
            connection = _ready(lock, by)
    except StoreUnavailable as error:
        for piece in pieces:
            piece.error, piece.untouched = error, not isinstance(error, StoreLost)
        return _rolled_back(by)
    if _do(connection, pieces, executed=executed) and len(pieces) > 1:
        for piece in pieces:
            _do(connection, [piece])
    for _ in range(_CHECKS_AGAIN):
        for piece in [one for one in pieces if isinstance(one.error, StoreConflict)]:
            _do(connection, [piece])
    if (lost := _lost(lock, connection)) is not None:
        lost.uncertain = True
        for piece in pieces:
            piece.error = piece.error or lost
    if any(isinstance(piece.error, StoreUnavailable) for piece in pieces):
        connection.invalidate()
        connection.close()
        return None
    return connection


def _rolled_back(by: Connection | Engine) -> Connection | None:
    if not isinstance(by, Connection):
        return None
    roll_back(by)
    return by


def _ready(lock: Lock, by: Connection | Engine) -> Connection:
    """Return a usable connection while the lock is held. Along with the previous connection, the lock may be gone."""
    if isinstance(by, Connection):
        if lock.lost:  # it may have been retaken
            lock.check()
        return by
    lock.look()
    return begin_at_once(by.connect())


def _lost(lock: Lock, connection: Connection) -> StoreUnavailable | None:
    """Return why committed data might not be found again, or `None`. A file that seems too short is examined."""
    try:
        try:
            lock.check()
        except StoreLost:
            raise
        except StoreUnavailable:
            if connection.dialect.name != "sqlite":
                raise
            lock.look(settled=_checkpoint_log(connection))
    except StoreUnavailable as error:
        return error
    return None


def _checkpoint_log(connection: Connection) -> bool:
    """Move SQLite's log into its file. Return whether the whole log was moved, or the file is corrupt and cannot take
    it."""
    try:
        busy, there, done = connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)").one()
    except (SQLAlchemyError, sqlite3.Error) as error:
        code: int | None = getattr(getattr(error, "orig", error), "sqlite_errorcode", None)
        return code == sqlite3.SQLITE_CORRUPT
    return not busy and there == done


def _begin_pieces(connection: Connection, pieces: Sequence[Piece[Any]]) -> bool:
    """Execute all pieces in one transaction, which stays open for `commit_pieces`. Return whether it is open: if
    anything fails, nothing was done."""
    try:
        with translate_errors():
            begin(connection)
            _execute(connection, pieces)
    except BaseException:  # whoever executes them again tells their callers
        _undo(connection)
        return False
    return True


def _do(connection: Connection, pieces: Sequence[Piece[Any]], *, executed: bool = False) -> bool:
    """Execute all pieces in one transaction, unless they are `executed`, and commit it. Return whether one of them
    prevented the commit. If the commit itself fails, its outcome is unknown, so nothing may be retried."""
    begun = worked = executed
    try:
        with translate_errors():
            if not executed:
                begin(connection)
                begun = True
                _execute(connection, pieces)
                worked = True
            commit(connection)
    except BaseException as error:
        if worked and isinstance(error, StoreUnavailable):
            error.uncertain = True
        _undo(connection)
        away = isinstance(error, StoreUnavailable) and not worked and (not begun or connection.invalidated)
        for piece in pieces:
            piece.error, piece.untouched = error, away or (not worked and may_be_repeated(error))
        return begun and not worked and not away
    return False


def _undo(connection: Connection) -> None:
    with suppress(SQLAlchemyError, sqlite3.Error):
        roll_back(connection)


def _execute(connection: Connection, pieces: Sequence[Piece[Any]]) -> None:
    for piece in pieces:
        piece.error, piece.untouched = None, False
        if piece.may_refuse and len(pieces) > 1:
            _execute_apart(connection, piece)
        else:
            piece.result = piece.work(connection)


def _execute_apart(connection: Connection, piece: Piece[Any]) -> None:
    """Execute a piece in a savepoint: its error must not make the others run again, since many may fail at a time."""
    run_text(connection, "SAVEPOINT piece")
    try:
        with translate_errors():
            piece.result = piece.work(connection)
    except StoreUnavailable:
        raise
    except Exception as error:
        piece.error = error
        run_text(connection, "ROLLBACK TO SAVEPOINT piece")
    run_text(connection, "RELEASE SAVEPOINT piece")


# ── reads ────────────────────────────────────────────────────────────────────────────────────────


class Readers:
    """Reads, each statement a transaction, in any thread, on connections that are kept: to check one out of a pool
    costs more than a small read. With `waits=False`, a read fails while another process has SQLite's file locked, and
    must leave no result open, whatever it raises. A connection to PostgreSQL is checked each time, and not kept."""

    def __init__(self, engine: Engine, *, waits: bool = True) -> None:
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._keeps = engine.dialect.name == "sqlite"
        self._waits = waits
        self._idle: list[Connection] = []
        self._rests_until = 0.0
        self._closed = False
        self._returning = threading.Lock()  # so that no connection goes back to a pool that is given up

    def read(self, work: Work[T]) -> T:
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
                if (now := time.monotonic()) - began > _QUICK_READ:
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

    def _connect(self) -> Connection:
        connection = self._engine.connect()
        return connection if self._waits else begin_at_once(connection)

    def _give_back(self, connection: Connection, error: BaseException | None = None) -> None:
        """Keep the connection for the next read, unless `error` may have left a result open in it, which would show the
        next one an old state."""
        of_work = isinstance(error, Exception) and not isinstance(error, SQLAlchemyError | sqlite3.Error)
        with self._returning:
            if self._closed:  # nobody waits for what was read
                connection.detach()
                connection.close()
            elif self._keeps and (error is None or (of_work and not self._waits)):
                self._idle.append(connection)
            else:
                if self._keeps and error is not None:
                    connection.invalidate()  # nobody may get it from the pool
                connection.close()
