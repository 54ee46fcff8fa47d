"""Copies of databases: of a SQLite file, made while a server has it open, and what becomes of any copy before a server
opens it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from sqlalchemy import Connection, delete, func, select

from ..errors import DataError, UsageError
from .due import DRIVEN
from .engines import translate_errors
from .migrations import version_of
from .processes import NOW, database_time
from .run_queries import shift_expiry
from .tables import processes, runs

MAGIC = b"SQLite format 3\0"
_BESIDE = ("-wal", "-shm", "-journal", ".index")  # of another database of this name


def copy_database(source: Path, copy: Path) -> None:
    """Write a consistent copy of `source` to the new file `copy`, as of now. Nobody waits for it. Raises `UsageError`
    if there is no such database or such a file exists, `DataError` if the copy is damaged, and `StoreUnavailable`."""
    if not source.exists():
        raise UsageError(f"the database {source} does not exist; name another with --db")
    with whole_file(copy) as part, translate_errors():
        with closing(_opened(source)) as connection:
            connection.execute("VACUUM INTO ?", [str(part)])
        with closing(_opened(part)) as connection, connection:
            if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'processes'").fetchone():
                connection.execute(f"UPDATE processes SET seen_at = {NOW['sqlite']}")  # so that it is known when
        _check(part, source)


@contextmanager
def put_copy(copy: Path, target: Path) -> Iterator[Path]:
    """Put a copy where there is no database yet: a file in the block, and at `target` afterwards. Raises `UsageError`
    if there is one, and `DataError` if the copy is damaged."""
    for name in ("", *_BESIDE):
        if (there := target.with_name(f"{target.name}{name}")).exists():
            raise UsageError(f"{there} exists; restore to a name at which there is nothing, or move it away")
    target.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(target) as part:
        shutil.copyfile(copy, part)
        with translate_errors():
            _check(part, copy)
        yield part


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A name to write to in the block; the file then appears as `path`, on the disk, as a whole or not at all. Only its
    owner may read it. Raises `UsageError` if `path` exists or cannot be written."""
    part = path.with_name(f"{path.name}.part")
    if path.exists():
        raise UsageError(f"{path} exists; give another name, or move it away")
    try:
        part.unlink(missing_ok=True)
        part.touch(0o600)
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.rename(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _opened(path: Path) -> sqlite3.Connection:
    """Open a file that exists."""
    return sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=rw", uri=True, timeout=30)


def _check(part: Path, source: Path) -> None:
    with closing(_opened(part)) as connection:
        try:
            problem = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        except sqlite3.DatabaseError as error:
            problem = str(error)
    if problem != "ok":
        raise DataError(f"{source} is damaged: {problem}")


class Contents(NamedTuple):
    """What a database holds: its schema's `version`, and how many `runs`, of which so many are `under_way` or
    `waiting` for a person or a client."""

    version: int
    runs: int
    under_way: int
    waiting: int


def contents_of(connection: Connection) -> Contents:
    """Return what a database holds, whatever Retinue made it."""
    found = connection.execute(select(runs.c.status, func.count()).group_by(runs.c.status))
    counts: dict[str, int] = dict(row.tuple() for row in found)
    under_way = sum(counts.get(status, 0) for status in DRIVEN)
    return Contents(version_of(connection) or 0, sum(counts.values()), under_way, counts.get("requires_action", 0))


def settle_copy(connection: Connection) -> float | None:
    """Free a copy of the servers that had the original open, and give its runs the time that they have lost since.
    Return when the copy was made, in Unix seconds; `None` if no server had the original open."""
    made: float | None = connection.execute(select(func.max(processes.c.seen_at))).scalar()
    connection.execute(delete(processes))
    if made is None:
        return None
    if (age := database_time(connection) - made) > 0:
        shift_expiry(connection, round(age))
    return min(made, time.time())


def unfinished_ids(connection: Connection) -> list[str]:
    """Return the ids of the runs that are queued or under way, oldest first: callers before their members."""
    query = select(runs.c.id).where(runs.c.status.in_(DRIVEN)).order_by(runs.c.number)
    return list(connection.execute(query).scalars())
