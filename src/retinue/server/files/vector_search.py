"""Search in vector stores, for requests and for runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from ..._internal.concurrency import run_in_thread
from ...documents.passage_index import Passage
from ...errors import DataError
from ...store.database import Database
from ...store.tables import vector_store_files
from ...store.tenant_view import TenantView
from ..http.api_errors import ApiError
from ..indexing.indexer import Indexer
from .attachment import store_of
from .attribute_filters import Filter, matches

_COLUMNS = vector_store_files.c


class Result(NamedTuple):
    """A passage of a file; `score` is between 0 and 1."""

    file_id: str
    file_name: str
    score: float
    text: str
    attributes: Mapping[str, Any]


class VectorSearch(NamedTuple):
    """What a search needs: the database and the indexer."""

    database: Database
    indexing: Indexer


async def search(
    where: VectorSearch,
    scope: TenantView,
    store_ids: Sequence[str],
    query: str,
    most: int,
    filters: Filter | None = None,
) -> list[Result]:
    """Return the `most` best matching passages in the tenant's stores, best first. Raises `ApiError` if a store does
    not exist for the tenant, or has expired."""

    def use(connection: Connection) -> None:
        for store_id in store_ids:
            store_of(connection, scope, store_id, used=True)

    await where.indexing.known()
    await where.database.write(use)
    found: list[Passage] = []
    for store_id in dict.fromkeys(store_ids):
        keys = None
        if filters is not None:
            meant = partial(_meant, scope=scope, store_id=store_id, filters=filters)
            keys = await where.database.read(meant)
        try:
            found += await run_in_thread(where.indexing.passages.search, store_id, query, most, keys)
        except DataError as error:
            where.indexing.wake(store_id)  # repairs it if possible
            raise ApiError(503, "The index of this vector store is not available at the moment.") from error
    best = sorted(found, key=lambda one: -one.score)
    known = await where.database.read(lambda connection: _known(connection, scope, {one.key for one in best}))
    return [
        Result(row.file_id, row.body["filename"], one.score, one.text, row.body["attributes"])
        for one in best
        if (row := known.get(one.key)) is not None
    ][:most]


def _meant(connection: Connection, scope: TenantView, store_id: str, filters: Filter) -> list[str]:
    """Return the store's files that match a filter."""
    mine = (_COLUMNS.tenant == scope.tenant, _COLUMNS.vector_store_id == store_id, _COLUMNS.status == "completed")
    rows = connection.execute(select(_COLUMNS.id, _COLUMNS.body).where(*mine))
    return [row.id for row in rows if matches(filters, row.body["attributes"])]


def _known(connection: Connection, scope: TenantView, keys: set[str]) -> dict[str, Any]:
    """Return the files that still exist; the index may be behind."""
    mine = (_COLUMNS.tenant == scope.tenant, _COLUMNS.id.in_(keys), _COLUMNS.status == "completed")
    return {row.id: row for row in connection.execute(select(vector_store_files).where(*mine))}
