"""`Database`: one writes at a time, in whole transactions; what is ready together is committed together.

A thread does it, so that a slow disk holds nobody up. A piece that comes alone, on a quick disk, is written where it
comes from: to wake that thread, and the loop again, costs as much as to write.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from ..errors import StoreUnavailable
from ..threads import in_thread
from .engines import engine_of
from .locking import Lock, locked
from .migrations import migrate
from .telling import telling

T = TypeVar("T")
Work = Callable[[Connection], T]
_AT_ONCE = 200  # pieces of work in one transaction
_QUICK = 0.002  # seconds: what a transaction may hold up the loop


class Database:
    """A database by its SQLAlchemy URL: `sqlite:///FILE` (made if it is missing) or `postgresql://…`.

    Raises `DataError` for a database that is not ours or is newer than this Retinue, `UsageError` for a URL of
    another kind and while another server has it open, `StoreUnavailable` where it cannot be reached.
    """

    def __init__(self, url: str) -> None:
        self.engine: Engine = engine_of(url)
        try:
            self._lock: Lock = locked(self.engine)
        except BaseException:
            self.engine.dispose()
            raise
        try:
            with telling():
                migrate(self.engine)
        except BaseException:
            self.close()
            raise
        self._turn = threading.Condition()  # of all below
        self._ready: list[_Piece[Any]] = []  # what a loop gave; it is about to see how it is written
        self._given: deque[_Piece[Any]] = deque()  # to the thread
        self._writing = False
        self._ending = False
        self._quick = False  # as the last transaction was
        self._connection: Connection | None = None
        self._thread = threading.Thread(target=self._write, name="retinue-store", daemon=True)
        self._thread.start()

    async def write(self, work: Work[T]) -> T:
        """What `work` returns, once all that it wrote is committed; where it raises, nothing of it is."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._turn:
            self._given.extend([*self._ready, _Piece(work, future, may_refuse=True)])
            self._ready.clear()
            self._turn.notify()
        return await future

    def submit(self, work: Work[T]) -> asyncio.Future[T]:
        """`write` for a few rows, begun at once. All pieces are done in the order in which they were given."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        with self._turn:
            if not self._ready:
                loop.call_soon(self._begin)
            self._ready.append(_Piece(work, future))
        return future

    async def read(self, work: Work[T]) -> T:
        """What `work`, which only reads, returns. It sees everything that was committed before."""
        return await in_thread(self._read, work)

    async def close_async(self) -> None:
        """Write what was given, then let go of the database."""
        await in_thread(self._end)
        self.close()

    def close(self) -> None:
        """Let go of the database."""
        self.engine.dispose()
        self._lock.release()

    def _end(self) -> None:
        with self._turn:
            self._ending = True
            self._turn.notify()
        self._thread.join()

    def _read(self, work: Work[T]) -> T:
        with telling(), self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            return work(connection)

    def _begin(self) -> None:
        with self._turn:
            ready, self._ready = self._ready, []
            if len(ready) != 1 or self._given or self._writing or not self._quick:
                self._given.extend(ready)
                self._turn.notify()
                return
            self._writing = True
        self._commit(ready)
        _settle(ready)

    def _write(self) -> None:
        """The writer's thread: one transaction after the other."""
        while pieces := self._next():
            self._commit(pieces)
            for loop in {piece.future.get_loop() for piece in pieces}:
                mine = [piece for piece in pieces if piece.future.get_loop() is loop]
                if not loop.is_closed():
                    loop.call_soon_threadsafe(_settle, mine)
        if self._connection is not None:
            self._connection.close()

    def _next(self) -> list[_Piece[Any]]:
        with self._turn:
            self._turn.wait_for(lambda: not self._writing and (self._given or self._ending))
            pieces = [self._given.popleft() for _ in range(min(len(self._given), _AT_ONCE))]
            self._writing = bool(pieces)
            return pieces

    def _commit(self, pieces: Sequence[_Piece[Any]]) -> None:
        """All in one transaction, by whoever set `_writing`."""
        began = time.perf_counter()
        self._connection = _committed(self._connection or self.engine, pieces)
        with self._turn:
            self._quick = time.perf_counter() - began < _QUICK
            self._writing = False
            if self._given or self._ending:
                self._turn.notify()


class _Piece(Generic[T]):
    """Work, and what came of it."""

    __slots__ = ("error", "future", "may_refuse", "result", "work")

    def __init__(self, work: Work[T], future: asyncio.Future[T], *, may_refuse: bool = False) -> None:
        self.work = work
        self.future = future
        self.may_refuse = may_refuse
        self.result: T | None = None
        self.error: BaseException | None = None


def _committed(by: Connection | Engine, pieces: Sequence[_Piece[Any]]) -> Connection | None:
    """Do all in one transaction; if that fails, each in one of its own, so that only those fail that must. The
    connection, if it is still good."""
    try:
        with telling():
            connection = by if isinstance(by, Connection) else by.connect()
    except StoreUnavailable as error:
        for piece in pieces:
            piece.error = error
        return None
    failed = _do(connection, pieces)
    if failed is not None and len(pieces) > 1:
        for piece in pieces:
            piece.error = _do(connection, [piece])
    elif failed is not None:
        pieces[0].error = failed
    if any(isinstance(piece.error, StoreUnavailable) for piece in pieces):
        connection.invalidate()
        connection.close()
        return None
    return connection


def _do(connection: Connection, pieces: Sequence[_Piece[Any]]) -> BaseException | None:
    try:
        with telling(), connection.begin():
            for piece in pieces:
                if piece.may_refuse and len(pieces) > 1:
                    _do_apart(connection, piece)
                else:
                    piece.result = piece.work(connection)
    except BaseException as error:
        return error
    return None


def _do_apart(connection: Connection, piece: _Piece[Any]) -> None:
    """What a piece refuses is nothing that the others have to be done again for: many may be refused at a time."""
    inner = connection.begin_nested()
    try:
        piece.result = piece.work(connection)
    except (SQLAlchemyError, sqlite3.Error, StoreUnavailable):
        raise
    except Exception as error:
        piece.error = error
        inner.rollback()
    else:
        inner.commit()


def _settle(pieces: Sequence[_Piece[Any]]) -> None:
    for piece in pieces:
        if piece.future.done():
            continue
        if piece.error is None:
            piece.future.set_result(piece.result)
        else:
            piece.future.set_exception(piece.error)
