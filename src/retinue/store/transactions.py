"""Executes pieces of database work, grouped in one transaction."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from ..errors import StoreConflict, StoreLost, StoreUnavailable
from .database_lock import Lock
from .db_errors import may_be_repeated, translate_errors
from .engines import begin, begin_at_once, commit, roll_back
from .prepared_statements import run_text

T = TypeVar("T")
Work = Callable[[Connection], T]
_CHECKS_AGAIN = 3  # times that a piece is repeated after a conflict; each time another transaction must have been first


class Piece(Generic[T]):
    """Work and its outcome. `untouched` means that it was not begun, because the database was locked or unavailable."""

    __slots__ = ("alone", "error", "future", "large", "may_refuse", "result", "until", "untouched", "work")

    def __init__(
        self,
        work: Work[T],
        future: asyncio.Future[T],
        until: float,
        *,
        alone: bool = False,
        may_refuse: bool = False,
        large: bool = False,
    ) -> None:
        self.work = work
        self.future = future
        self.until = until
        self.alone = alone
        self.may_refuse = may_refuse
        self.large = large
        self.result: T | None = None
        self.error: BaseException | None = None
        self.untouched = False

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


def execute_pieces(connection: Connection, pieces: Sequence[Piece[Any]]) -> bool:
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
    for piece in pieces:
        _check_again(connection, piece)
    if (lost := _lost(lock, connection)) is not None:
        lost.uncertain = True
        for piece in pieces:
            piece.error = piece.error or lost
    if any(isinstance(piece.error, StoreUnavailable) for piece in pieces):
        connection.invalidate()
        connection.close()
        return None
    return connection


def _check_again(connection: Connection, piece: Piece[Any]) -> None:
    for _ in range(_CHECKS_AGAIN):
        if not isinstance(piece.error, StoreConflict):
            return
        _do(connection, [piece])


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
            lock.look(settled=checkpoint_log(connection))
    except StoreUnavailable as error:
        return error
    return None


def checkpoint_log(connection: Connection) -> bool:
    """Move SQLite's log into its file. Return whether the whole log was moved, or the file is corrupt and cannot take
    it."""
    try:
        busy, there, done = connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)").one()
    except (SQLAlchemyError, sqlite3.Error) as error:
        code: int | None = getattr(getattr(error, "orig", error), "sqlite_errorcode", None)
        return code == sqlite3.SQLITE_CORRUPT
    return not busy and there == done


def _ready(lock: Lock, by: Connection | Engine) -> Connection:
    """Return a usable connection while the lock is held. Along with the previous connection, the lock may be gone."""
    if isinstance(by, Connection):
        if lock.lost:  # it may have been retaken
            lock.check()
        return by
    lock.look()
    return begin_at_once(by.connect())


def _undo(connection: Connection) -> None:
    with suppress(SQLAlchemyError, sqlite3.Error):
        roll_back(connection)


def _rolled_back(by: Connection | Engine) -> Connection | None:
    if not isinstance(by, Connection):
        return None
    roll_back(by)
    return by


def _do(connection: Connection, pieces: Sequence[Piece[Any]], *, executed: bool = False) -> bool:
    """Execute all pieces in one transaction, unless they are `executed`, and commit it. Return whether one of them
    prevented the commit. If the commit itself fails, its outcome is unknown, so nothing may be retried."""
    error: BaseException | None = None
    begun = worked = False
    try:
        with translate_errors():
            if not executed:
                begin(connection)
            begun = True
            if not executed:
                _execute(connection, pieces)
            worked = True
            commit(connection)
    except BaseException as raised:
        error = raised
        if worked and isinstance(error, StoreUnavailable):
            error.uncertain = True
        _undo(connection)
    if error is None:
        return False
    away = isinstance(error, StoreUnavailable) and not worked and (not begun or connection.invalidated)
    for piece in pieces:
        piece.error, piece.untouched = error, away or (not worked and may_be_repeated(error))
    return begun and not worked and not away


def _execute(connection: Connection, pieces: Sequence[Piece[Any]]) -> None:
    for piece in pieces:
        piece.error, piece.untouched = None, False
        if piece.may_refuse and len(pieces) > 1:
            _do_apart(connection, piece)
        else:
            piece.result = piece.work(connection)


def _do_apart(connection: Connection, piece: Piece[Any]) -> None:
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
