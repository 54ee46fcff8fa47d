"""The vector store files that wait to be indexed: one server takes each, and another one if that server dies."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, func, select, update

from ...store.processes import is_free
from ...store.tables import contents, files, vector_store_files, vector_stores

_COLUMNS = vector_store_files.c


def next_files(connection: Connection, process: str, but: Collection[int]) -> dict[str, int]:
    """Return the number of each tenant's oldest file that `process` may take, except those in `but`, oldest first."""
    oldest = func.min(_COLUMNS.number)
    query = select(_COLUMNS.tenant, oldest).where(*_free(process), _COLUMNS.number.not_in(but))
    rows = connection.execute(query.group_by(_COLUMNS.tenant).order_by(oldest))
    return {row[0]: row[1] for row in rows}


def take_files(connection: Connection, process: str, numbers: Sequence[int]) -> Sequence[Row[Any]]:
    """Take files for `process`, and return the rows of those that no other server has taken meanwhile."""
    wanted = (_COLUMNS.number.in_(numbers), *_free(process))
    taken = update(vector_store_files).where(*wanted).values(indexer=process)
    return connection.execute(taken.returning(*_COLUMNS)).all()


def _free(process: str) -> tuple[ColumnElement[bool], ...]:
    return _COLUMNS.status == "in_progress", is_free(_COLUMNS.indexer, process)


def content_of(connection: Connection, file_id: str) -> bytes | None:
    """Return the content of a file, or `None` if it does not exist."""
    found: bytes | None = connection.execute(select(contents.c.content).where(contents.c.id == file_id)).scalar()
    return found


def finish_file(connection: Connection, row: Row[Any], size: int, problem: Mapping[str, str] | None) -> bool:
    """Store the outcome of a file. Return whether the file still exists, and no other server has taken it."""
    mine = (_COLUMNS.id == row.id, _COLUMNS.status == "in_progress", _COLUMNS.indexer == row.indexer)
    body = connection.execute(select(_COLUMNS.body).where(*mine).with_for_update()).scalar()  # current attributes
    if body is None:
        return False
    status = "completed" if problem is None else "failed"
    values = {"status": status, "usage_bytes": size, "body": {**body, "last_error": problem}}
    connection.execute(update(vector_store_files).where(*mine).values(values))
    return True


def is_settled(connection: Connection, store_ids: Collection[str]) -> bool:
    """Whether no file of these stores waits, or is being indexed."""
    waits = (_COLUMNS.vector_store_id.in_(store_ids), _COLUMNS.status == "in_progress")
    return connection.execute(select(_COLUMNS.id).where(*waits).limit(1)).first() is None


def stores_with_files(connection: Connection) -> Sequence[str]:
    """Return the ids of the stores that have files."""
    return connection.execute(select(_COLUMNS.vector_store_id).distinct()).scalars().all()


def statuses(connection: Connection, store_id: str) -> dict[str, str] | None:
    """Return the status of each of a store's files, by the rows' ids; `None` if the store does not exist."""
    query = select(_COLUMNS.id, _COLUMNS.status).where(_COLUMNS.vector_store_id == store_id)
    there = {row.id: row.status for row in connection.execute(query)}
    exists = connection.execute(select(vector_stores.c.id).where(vector_stores.c.id == store_id)).first()
    return there if there or exists is not None else None


def index_again(connection: Connection, ids: Sequence[str]) -> None:
    """Have completed files indexed again."""
    lost = (_COLUMNS.id.in_(ids), _COLUMNS.status == "completed")
    connection.execute(update(vector_store_files).where(*lost).values(status="in_progress", indexer=None))


def expire(connection: Connection) -> list[str]:
    """Delete expired files, and the entries of expired stores. Return the stores that lost files."""
    now = int(time.time())
    over = select(files.c.id).where(files.c.expires_at <= now)
    ended = select(vector_stores.c.id).where(vector_stores.c.expires_at <= now)
    stores: set[str] = set()
    for lost in (_COLUMNS.file_id.in_(over), _COLUMNS.vector_store_id.in_(ended)):
        gone = delete(vector_store_files).where(lost).returning(_COLUMNS.vector_store_id)
        stores.update(connection.execute(gone).scalars())
    connection.execute(delete(files).where(files.c.expires_at <= now))
    return list(stores)
