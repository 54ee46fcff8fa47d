"""Pieces of work for a database, done together in one transaction."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from ..errors import StoreLost, StoreUnavailable
from .database_lock import Lock
from .db_errors import translate_errors
from .engines import begin_at_once

T = TypeVar("T")
Work = Callable[[Connection], T]


class Piece(Generic[T]):
    """Work, and what came of it; `untouched`: nothing, because the database was locked or away."""

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


def commit_pieces(lock: Lock, by: Connection | Engine, pieces: Sequence[Piece[Any]]) -> Connection | None:
    """Do all in one transaction; if that fails, each in one of its own, so that only those fail that must. The
    connection, if it is still good. What `lock` is of has to be there and ours before, and there afterwards: else no
    piece is said to be done."""
    try:
        with translate_errors():
            connection = _ready(lock, by)
    except StoreUnavailable as error:
        for piece in pieces:
            piece.error, piece.untouched = error, not isinstance(error, StoreLost)
        return by if isinstance(by, Connection) else None
    if _do(connection, pieces) and len(pieces) > 1:
        for piece in pieces:
            _do(connection, [piece])
    if (lost := _lost(lock, connection)) is not None:
        for piece in pieces:
            piece.error = piece.error or lost
    if any(isinstance(piece.error, StoreUnavailable) for piece in pieces):
        connection.invalidate()
        connection.close()
        return None
    return connection


def _lost(lock: Lock, connection: Connection) -> StoreUnavailable | None:
    """What keeps that which was committed from being found again. A file that seems too short is looked into."""
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
    """Put what is in SQLite's log into its file; whether that is all of it, or the file cannot take it."""
    try:
        busy, there, done = connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)").one()
    except (SQLAlchemyError, sqlite3.Error) as error:
        code: int | None = getattr(getattr(error, "orig", error), "sqlite_errorcode", None)
        return code == sqlite3.SQLITE_CORRUPT
    return not busy and there == done


def _ready(lock: Lock, by: Connection | Engine) -> Connection:
    """A connection, while the lock is held: with the one before, the lock may be gone, too."""
    if isinstance(by, Connection):
        if lock.lost:  # it may have come back
            lock.check()
        return by
    lock.look()
    return begin_at_once(by.connect())


def _do(connection: Connection, pieces: Sequence[Piece[Any]]) -> bool:
    """Do all in one transaction; whether one of them kept it from being committed. If the commit itself fails, nobody
    knows what it did, and nothing may be done again."""
    error: BaseException | None = None
    begun = worked = False
    try:
        with translate_errors(), connection.begin():
            begun = True
            for piece in pieces:
                piece.error, piece.untouched = None, False
                if piece.may_refuse and len(pieces) > 1:
                    _do_apart(connection, piece)
                else:
                    piece.result = piece.work(connection)
            worked = True
    except BaseException as raised:
        error = raised
    if error is None:
        return False
    away = isinstance(error, StoreUnavailable) and not worked and (not begun or connection.invalidated)
    for piece in pieces:
        piece.error, piece.untouched = error, away
    return begun and not worked and not away


def _do_apart(connection: Connection, piece: Piece[Any]) -> None:
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
