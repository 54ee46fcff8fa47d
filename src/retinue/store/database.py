"""`Database`: one writes at a time, in whole transactions; what is ready together is committed together.

A thread does it, so that a slow disk holds nobody up. A piece that comes alone, on a quick disk, is written where it
comes from: to wake that thread, and the loop again, costs as much as to write. While the database is locked by another
process, or away, pieces wait, and the thread looks again and again: nothing of them was begun, so nothing is lost.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, select

from .._internal.thread_pool import run_in_thread
from ..errors import StoreLost, StoreUnavailable
from .database_lock import Lock, acquire_lock
from .db_errors import translate_errors
from .engines import engine_of, only_what_is_there
from .migrations import migrate
from .tables import versions
from .transactions import Piece, Work, checkpoint_log, commit_pieces

logger = logging.getLogger(__name__)
T = TypeVar("T")
_AT_ONCE = 200  # pieces of work in one transaction
_QUICK = 0.002  # seconds: what a transaction may hold up the loop
_READERS = 8  # at once: more have threads that wait for each other
_AGAIN = 0.05  # seconds from one look at a database that is locked or away to the next


class Database:
    """A database by its SQLAlchemy URL: `sqlite:///FILE` (made if it is missing) or `postgresql://…`.

    Raises `DataError` for a database that is not ours or is newer than this Retinue, `UsageError` for a URL of
    another kind and while another server has it open, `StoreUnavailable` where it cannot be reached. What is to be
    written waits for `patience` seconds while the database is locked or away, before that is raised.
    """

    def __init__(self, url: str, patience: float = 10.0) -> None:
        self.engine: Engine = engine_of(url)
        self._patience = patience
        try:
            self._lock: Lock = acquire_lock(self.engine)
        except BaseException:
            self.engine.dispose()
            raise
        self._anchor: Connection | None = None  # while one is open, SQLite keeps its log
        try:
            with translate_errors():
                self._open()
        except BaseException:
            self.close()
            raise
        self._reading: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
        self._turn = threading.Condition()  # of all below
        self._ready: list[Piece[Any]] = []  # what a loop gave; it is about to see how it is written
        self._given: deque[Piece[Any]] = deque()  # to the thread
        self._writing = False
        self._ending = False
        self._local = self.engine.dialect.name == "sqlite"  # nothing else may be waited for in the loop
        self._quick = False  # as the last transaction was
        self._connection: Connection | None = None
        self._thread = threading.Thread(target=self._write, name="retinue-store", daemon=True)
        self._thread.start()

    def _open(self) -> None:
        if self.engine.dialect.name == "sqlite":
            only_what_is_there(self.engine)
        migrate(self.engine)
        if self.engine.dialect.name == "sqlite":
            self._anchor = self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            self._anchor.execute(select(versions.c.version)).all()
        self._lock.watch()

    def check(self) -> None:
        """Raise `StoreUnavailable` if what would be written now would be lost, or this is not ours any more. Takes a
        few microseconds."""
        self._lock.check()

    async def look(self) -> int:
        """See whether the database is still there and ours, and if it is not ours, try to make it so. How often that
        was done: each time another server may have had it meanwhile. For every now and then. Raises as `check`."""
        return await run_in_thread(self._look)

    def deadline(self) -> float:
        """Until when what is given now waits for a database that is locked or away, by `time.monotonic`."""
        return time.monotonic() + self._patience

    async def write(self, work: Work[T], *, alone: bool = False, until: float | None = None) -> T:
        """What `work` returns, once all that it wrote is committed; where it raises, nothing of it is. `alone`: with
        nothing else in the transaction; `until`: the `deadline` of a request that has waited before."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._turn:
            self._given.extend([*self._ready, self._piece(work, future, until, alone=alone, may_refuse=True)])
            self._ready.clear()
            self._turn.notify()
        return await future

    def submit(self, work: Work[T], *, large: bool = False) -> asyncio.Future[T]:
        """`write` for a few rows, begun at once; `large`: they take a while to be written. All pieces are done in the
        order in which they were given."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        with self._turn:
            if not self._ready:
                loop.call_soon(self._begin)
            self._ready.append(self._piece(work, future, large=large))
        return future

    async def read(self, work: Work[T]) -> T:
        """What `work`, which only reads, returns. It sees everything that was committed before."""
        loop = asyncio.get_running_loop()
        if loop not in self._reading:
            self._reading[loop] = asyncio.Semaphore(_READERS)
        async with self._reading[loop]:
            return await run_in_thread(self._read, work)

    async def close_async(self) -> None:
        """Write what was given, then let go of the database."""
        await run_in_thread(self._end)
        self.close()

    def close(self) -> None:
        """Let go of the database."""
        if self._anchor is not None:
            self._anchor.close()
        self.engine.dispose()
        self._lock.release()

    def _look(self) -> int:
        try:
            self._lock.look()
        except StoreUnavailable as error:
            if isinstance(error, StoreLost) and not error.only_log:
                raise
            settled = self._anchor is not None and checkpoint_log(
                self._anchor
            )  # of a log that is gone, nobody would find
            if isinstance(error, StoreLost):  # what is only in it
                raise
            self._lock.look(settled=settled)
        return self._lock.retaken

    def _end(self) -> None:
        with self._turn:
            self._ending = True
            self._turn.notify()
        self._thread.join()

    def _read(self, work: Work[T]) -> T:
        with translate_errors(), self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            return work(connection)

    def _piece(self, work: Work[T], future: asyncio.Future[T], until: float | None = None, **how: bool) -> Piece[T]:
        return Piece(work, future, self.deadline() if until is None else until, **how)

    def _begin(self) -> None:
        with self._turn:
            ready, self._ready = self._ready, []
            if len(ready) != 1 or ready[0].large or self._given or self._writing or not self._quick:
                self._given.extend(ready)
                self._turn.notify()
                return
            self._writing = True
        _settle(self._commit(ready))

    def _write(self) -> None:
        """The writer's thread: one transaction after the other."""
        while pieces := self._next():
            done = self._commit(pieces)
            for loop in {piece.future.get_loop() for piece in done}:
                mine = [piece for piece in done if piece.future.get_loop() is loop]
                with suppress(RuntimeError):  # it was closed: nobody waits any more
                    loop.call_soon_threadsafe(_settle, mine)
            if len(done) < len(pieces):
                time.sleep(_AGAIN)
        if self._connection is not None:
            self._connection.close()

    def _next(self) -> list[Piece[Any]]:
        with self._turn:
            self._turn.wait_for(lambda: not self._writing and (self._given or self._ending))
            pieces: list[Piece[Any]] = []
            while self._given and len(pieces) < _AT_ONCE:
                if pieces and (pieces[0].alone or self._given[0].alone):
                    break
                pieces.append(self._given.popleft())
            self._writing = bool(pieces)
            return pieces

    def _commit(self, pieces: Sequence[Piece[Any]]) -> list[Piece[Any]]:
        """All in one transaction, by whoever set `_writing`. Those that are done; the others wait, before all that came
        after them."""
        began = time.perf_counter()
        try:
            self._connection = commit_pieces(self._lock, self._connection or self.engine, pieces)
        except Exception as error:  # whatever it is, nobody is left waiting
            logger.exception("a transaction failed in a way that nobody foresaw")
            self._connection = None
            for piece in pieces:
                piece.error, piece.untouched = error, False
        now = time.monotonic()
        left = [piece for piece in pieces if piece.untouched and now < piece.until]
        with self._turn:
            self._quick = self._local and not left and time.perf_counter() - began < _QUICK
            self._writing = False
            self._given.extendleft(reversed(left))
            if self._given or self._ending:
                self._turn.notify()
        return [piece for piece in pieces if piece not in left] if left else list(pieces)


def _settle(pieces: Sequence[Piece[Any]]) -> None:
    for piece in pieces:
        if piece.future.done():
            continue
        if piece.error is None:
            piece.future.set_result(piece.result)
        elif isinstance(piece.error, StopIteration):  # which no future can carry
            piece.future.set_exception(RuntimeError(f"StopIteration was raised: {piece.error}"))
        else:
            piece.future.set_exception(piece.error)
