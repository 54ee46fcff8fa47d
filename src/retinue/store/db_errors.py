"""Translates database driver errors to `StoreConflict`, `ValueRefused` and `StoreUnavailable`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DataError, IntegrityError, SQLAlchemyError

from ..errors import StoreConflict, StoreUnavailable, ValueRefused

_ROLLED_BACK = ("40001", "40P01")  # SQLSTATE: could not serialize, deadlock
_LOCKED_OUT = "55P03"  # SQLSTATE: a lock was not to be had in time


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise errors of SQLAlchemy and SQLite as `StoreConflict` if a constraint is violated, as `ValueRefused` if it is
    about a value, and otherwise as `StoreUnavailable`."""
    try:
        yield
    except (IntegrityError, sqlite3.IntegrityError) as error:
        raise StoreConflict(_first_line(error)) from error
    except (DataError, OverflowError) as error:  # SQLite's driver raises the latter
        raise ValueRefused(_first_line(error)) from error
    except (SQLAlchemyError, sqlite3.Error) as error:
        raise StoreUnavailable(_first_line(error)) from error


def may_be_repeated(error: BaseException | None) -> bool:
    """Whether PostgreSQL rolled back the transaction in favour of another one, or would not wait for its locks, so that
    it may simply be repeated."""
    return _state(error) in _ROLLED_BACK or was_locked_out(error)


def was_locked_out(error: BaseException | None) -> bool:
    """Whether PostgreSQL gave up to wait for a lock, as it was told to."""
    return _state(error) == _LOCKED_OUT


def _state(error: BaseException | None) -> str | None:
    driver_error = getattr(getattr(error, "__cause__", None), "orig", None)
    return getattr(driver_error, "sqlstate", None)


def _first_line(error: Exception) -> str:
    said = str(getattr(error, "orig", None) or error).splitlines()
    return f"the database: {said[0] if said else type(error).__name__}"
