"""`Database`: one thread writes, in whole transactions; what is ready together is committed together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Engine

from ..errors import StoreUnavailable
from ..threads import in_thread
from .engines import engine_of
from .locking import Lock, locked
from .migrations import migrate
from .telling import telling

T = TypeVar("T")
Work = Callable[[Connection], T]
_AT_ONCE = 200  # pieces of work in one transaction


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
        self._given: SimpleQueue[_Piece[Any] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="retinue-store", daemon=True)
        self._thread.start()

    async def write(self, work: Work[T]) -> T:
        """What `work` returns, once all that it wrote is committed; where it raises, nothing of it is."""
        return await self.submit(work)

    def submit(self, work: Work[T]) -> asyncio.Future[T]:
        """`write`, begun at once. Pieces are done in the order in which they were given."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._given.put(_Piece(work, future))
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
        self._given.put(None)
        self._thread.join()

    def _read(self, work: Work[T]) -> T:
        with telling(), self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            return work(connection)

    def _write(self) -> None:
        """The writer's thread: one connection, one transaction after the other."""
        connection: Connection | None = None
        while given := self._next():
            pieces = [piece for piece in given if piece is not None]
            connection = self._commit(connection, pieces)
            for loop in {piece.future.get_loop() for piece in pieces}:
                mine = [piece for piece in pieces if piece.future.get_loop() is loop]
                if not loop.is_closed():
                    loop.call_soon_threadsafe(_settle, mine)
            if None in given:
                break
        if connection is not None:
            connection.close()

    def _next(self) -> list[_Piece[Any] | None]:
        pieces = [self._given.get()]
        while pieces[-1] is not None and len(pieces) < _AT_ONCE:
            try:
                pieces.append(self._given.get_nowait())
            except Empty:
                break
        return pieces

    def _commit(self, connection: Connection | None, pieces: Sequence[_Piece[Any]]) -> Connection | None:
        """All in one transaction; if that fails, each in one of its own, so that only those fail that must. The
        connection, if it is still good."""
        try:
            with telling():
                connection = connection or self.engine.connect()
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


class _Piece(Generic[T]):
    """Work, and what came of it."""

    __slots__ = ("error", "future", "result", "work")

    def __init__(self, work: Work[T], future: asyncio.Future[T]) -> None:
        self.work = work
        self.future = future
        self.result: T | None = None
        self.error: BaseException | None = None


def _do(connection: Connection, pieces: Sequence[_Piece[Any]]) -> BaseException | None:
    try:
        with telling(), connection.begin():
            for piece in pieces:
                piece.result = piece.work(connection)
    except BaseException as error:
        return error
    return None


def _settle(pieces: Sequence[_Piece[Any]]) -> None:
    for piece in pieces:
        if piece.future.done():
            continue
        if piece.error is None:
            piece.future.set_result(piece.result)
        else:
            piece.future.set_exception(piece.error)
