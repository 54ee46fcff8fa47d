"""`Database` for a simulated machine: its transactions are the product's own, and chance says when they happen."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from retinue.errors import StoreUnavailable
from retinue.runs.due import read_due
from retinue.store.database import Database, Piece, Work, commit_pieces
from retinue.store.database_lock import Lock
from retinue.store.engines import translate_errors
from retinue.store.processes import enter, forget_ended, is_leader, leave

from .store import Store
from .world import Machine

T = TypeVar("T")
_AGAIN = 0.05  # seconds between retries, as in the real one
_PATIENCE = 10.0
_AT_ONCE = 0.95  # the part of the reads that take no time, of those whose result is known
_ALIKE = (forget_ended,)  # for whoever asks
_OF_THE_LIVING = (read_due, is_leader)  # also determined by who lives
_Asked = tuple[Any, ...] | None


class _Held:
    """A lock that is never lost."""

    lost = False
    may_migrate = True

    def watch(self) -> None: ...
    def check(self) -> None: ...
    def look(self, *, settled: bool | None = None) -> None: ...
    def release(self) -> None: ...


class SimulatedDatabase(Database):
    """The database as one machine sees it."""

    def __init__(self, store: Store, machine: Machine, process: str) -> None:
        self.engine = store.engine
        self.process = process
        self._store = store
        self._machine = machine
        self._lock: Lock = _Held()
        self._given: deque[Piece[Any]] = deque()
        self._planned = False
        self._writer: Connection | None = None
        self._reader: Connection | None = None

    @property
    def is_shared(self) -> bool:
        return True

    @property
    def notifies(self) -> bool:
        return True

    def check(self) -> None: ...

    async def look(self) -> None: ...

    def deadline(self) -> float:
        return self._machine.world.now + _PATIENCE

    async def write(self, work: Work[T], *, alone: bool = False, small: bool = False, until: float | None = None) -> T:
        return await self._begin_write(work, until, alone=alone, may_refuse=True)

    def submit(self, work: Work[T], *, large: bool = False, lone: bool = False) -> asyncio.Future[T]:
        return self._begin_write(work, None, large=large)

    async def read(self, work: Work[T], *, small: bool = False) -> T:
        world, asked = self._machine.world, _asked(work)
        if world.chance(_AT_ONCE) and self._current() and (key := self._key(asked)) in self._store.known:
            return self._store.known[key]  # type: ignore[no-any-return]
        future = self._machine.loop.create_future()
        world.later(world.delay(), partial(self._read_now, work, asked, future))
        return await future  # type: ignore[no-any-return]

    async def write_apart(self, work: Work[T]) -> T:
        return await self.read(work if work is forget_ended else lambda connection: work(connection))

    def close(self) -> None:
        self._store.writers.put_back(self._writer)
        self._store.readers.put_back(self._reader)
        self._writer = self._reader = None

    async def close_async(self) -> None: ...

    def _begin_write(self, work: Work[T], until: float | None, **how: Any) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._given.append(Piece(work, future, self.deadline() if until is None else until, **how))
        self._plan(self._machine.world.delay())
        return future

    def _plan(self, seconds: float) -> None:
        if not self._planned:
            self._planned = True
            self._machine.world.later(seconds, self._commit_some)

    def _waits(self, again: Callable[[], None]) -> bool:
        """Whether the machine can do nothing now. What a paused one has sent may arrive all the same."""
        machine = self._machine
        if machine.paused and machine.world.chance(0.7):
            machine.after_pause.append(again)
            return True
        return not machine.alive

    def _commit_some(self) -> None:
        """Commit what is to be written, in one transaction or in several."""
        if self._waits(self._commit_some):
            return
        self._planned = False
        world, now = self._machine.world, self._machine.world.now
        pieces = self._next()
        if self._store.is_away:
            for piece in pieces:
                piece.error, piece.untouched = StoreUnavailable("the database: it is away"), True
        else:
            self._store.quiet = all(getattr(one.work, "func", None) in (enter, leave) for one in pieces)
            writer = self._writer or self._store.writers.take()
            self._writer = writer  # while it dies in there, too
            commit = partial(commit_pieces, self._lock, writer, pieces)
            self._writer = self._act(commit, writer, reading=False)
        if not self._machine.alive:
            return
        left = [piece for piece in pieces if piece.untouched and now < piece.until]
        self._given.extendleft(reversed(left))
        done = [piece for piece in pieces if piece not in left]
        if done:
            world.later(world.delay(), partial(self._settle, done))
        if self._given:
            self._plan(_AGAIN if left else world.delay())

    def _next(self) -> list[Piece[Any]]:
        pieces = [self._given.popleft()]
        while self._given and not (pieces[0].alone or self._given[0].alone) and self._machine.world.chance(0.8):
            pieces.append(self._given.popleft())
        return pieces

    def _settle(self, pieces: list[Piece[Any]]) -> None:
        for piece in pieces:
            if piece.future.done():
                continue
            if piece.error is None:
                piece.future.set_result(piece.result)
            else:
                piece.future.set_exception(piece.error)

    def _read_now(self, work: Work[Any], asked: _Asked, future: asyncio.Future[Any]) -> None:
        if self._waits(partial(self._read_now, work, asked, future)):
            return
        result, error = None, None
        try:
            result = self._recalled(work, asked)
        except Exception as raised:
            error = raised
        if self._machine.alive:
            world = self._machine.world
            world.later(world.delay(), partial(_answer, future, result, error))

    def _found(self, work: Work[Any]) -> Any:
        if self._store.is_away:
            raise StoreUnavailable("the database: it is away")
        if self._reader is None or self._reader.invalidated:
            self._reader = self._store.readers.take()
        connection = self._reader
        try:
            return self._act(partial(work, connection), connection, reading=True)
        except (SQLAlchemyError, sqlite3.Error):
            with translate_errors():
                raise

    def _recalled(self, work: Work[Any], asked: _Asked) -> Any:
        """Return what `work` reads. What was read since the last write, while the same servers lived, is kept: most of
        what servers ask is whether there is anything to do."""
        if asked is None or not self._current():
            return self._found(work)
        key = self._key(asked)
        known, version = self._store.known, self._store.version
        if key in known:
            return known[key]
        always = {} if version else self._store.of_nothing
        found = always[key] if key in always else self._found(work)
        if self._current() and version == self._store.version:
            known[key] = found
            if not version:
                always[key] = found
        return found

    def _current(self) -> bool:
        """Whether `known` may be asked: not while a fault is to come at a statement."""
        store = self._store
        return not (self._machine.fuse or store.lose or store.is_away)

    def _key(self, asked: _Asked) -> _Asked:
        """Return what determines what is read now."""
        return (*asked, self._store.living()) if asked and asked[0] in _OF_THE_LIVING else asked

    def _act(self, call: Callable[[], T], connection: Connection, *, reading: bool) -> T:
        """Call something on this machine, whose statements are those on the connection."""
        store = self._store
        before = store.acting, store.connection, store.reading
        store.acting, store.connection, store.reading = self._machine, connection, reading
        try:
            return self._machine.act(call)  # type: ignore[no-any-return]
        finally:
            store.acting, store.connection, store.reading = before


def _asked(work: Work[Any]) -> _Asked:
    """Return what a function of the product is asked; `None` if that does not determine what it reads."""
    if not isinstance(work, partial):
        return (work,) if work in _ALIKE else None
    values: list[Any] = [work.func, work.args]
    for name, value in work.keywords.items():
        values += [name, tuple(sorted(value)) if isinstance(value, list | set) else value]
    try:
        hash(asked := tuple(values))
    except TypeError:
        return None
    return asked


def _answer(future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
