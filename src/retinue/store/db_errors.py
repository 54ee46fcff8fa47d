"""Translates database driver errors to `StoreUnavailable`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import SQLAlchemyError

from ..errors import StoreUnavailable


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise errors of SQLAlchemy and SQLite as `StoreUnavailable`."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error) as error:
        said = str(getattr(error, "orig", None) or error).splitlines()
        raise StoreUnavailable(f"the database: {said[0] if said else type(error).__name__}") from error
