"""Search in vector stores, for requests and for runs. Filters on the attributes of files are evaluated in Python: no
part of a filter becomes query text."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from fastapi import APIRouter
from sqlalchemy import Connection, Select, select

from ..._internal.concurrency import run_in_thread
from ...documents.passage_index import Passage
from ...errors import DataError
from ...store.database import Database
from ...store.tables import vector_store_files
from ...store.tenant_view import TenantView
from ..context import ContextDep
from ..http.api_errors import ApiError, invalid_value
from ..http.objects import Object
from ..http.request_body import JsonRoute
from ..indexing.indexer import Indexer
from .schemas import CompoundFilter, Filter, Search, Value
from .stores import store_of

router = APIRouter(route_class=JsonRoute)
_COLUMNS = vector_store_files.c
_MAX_VALUES = 256  # per filter, since every file of a store is compared
_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


@router.post("/vector_stores/{vector_store_id}/search")
async def search_store(context: ContextDep, vector_store_id: str, given: Search) -> Object:
    """Return the passages that best match one or more queries, best first."""
    queries = [given.query] if isinstance(given.query, str) else given.query
    filters = None if given.filters is None else validate_filter(given.filters)
    where = VectorSearch(context.server.database, context.server.indexing)
    least = (given.ranking_options and given.ranking_options.score_threshold) or 0.0
    results = await search(where, context.scope, [vector_store_id], " ".join(queries), given.max_num_results, filters)
    found = [
        {
            "file_id": one.file_id,
            "filename": one.file_name,
            "score": one.score,
            "attributes": one.attributes,
            "content": [{"type": "text", "text": one.text}],
        }
        for one in results
        if one.score >= least
    ]
    page = {"search_query": queries, "data": found, "has_more": False, "next_page": None}
    return {"object": "vector_store.search_results.page", **page}


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
    indexed = select(vector_store_files).where(_COLUMNS.tenant == scope.tenant, _COLUMNS.status == "completed")
    found: list[Passage] = []
    for store_id in dict.fromkeys(store_ids):
        keys = None
        if filters is not None:
            rows = await where.database.read(partial(_rows, indexed.where(_COLUMNS.vector_store_id == store_id)))
            keys = [row.id for row in rows if matches(filters, row.body["attributes"])]
        try:
            found += await run_in_thread(where.indexing.passages.search, store_id, query, most, keys)
        except DataError as error:
            where.indexing.wake(store_id)  # repairs it if possible
            raise ApiError(503, "The index of this vector store is not available at the moment.") from error
    best = sorted(found, key=lambda one: -one.score)
    there = indexed.where(_COLUMNS.id.in_({one.key for one in best}))  # the index may be behind
    known = {row.id: row for row in await where.database.read(partial(_rows, there))}
    return [
        Result(row.file_id, row.body["filename"], one.score, one.text, row.body["attributes"])
        for one in best
        if (row := known.get(one.key)) is not None
    ][:most]


def _rows(query: Select[Any], connection: Connection) -> Sequence[Any]:
    return connection.execute(query).all()


# ── filters ──────────────────────────────────────────────────────────────────────────────────────


def validate_filter(given: Filter) -> Filter:
    """Return `given` if it is valid. Raises `ApiError` if a value has the wrong form, or if there are too many
    values."""
    weight = 0
    left: list[Filter] = [given]
    while left:
        one = left.pop()
        weight += 1
        if isinstance(one, CompoundFilter):
            left += one.filters
            continue
        weight += len(one.values)
        several = one.type in ("in", "nin")
        if isinstance(one.value, list) != several:
            raise invalid_value("filters", f"'{one.type}' needs {'an array' if several else 'one value'}")
    if weight > 2 * _MAX_VALUES:
        raise invalid_value("filters", f"it compares with more than {_MAX_VALUES} values")
    return given


def matches(wanted: Filter, attributes: Mapping[str, Any]) -> bool:
    """Whether a file with these attributes matches. Text is compared with text only, numbers with numbers. A missing
    attribute equals nothing, and is neither more nor less than any value."""
    if isinstance(wanted, CompoundFilter):
        return (all if wanted.type == "and" else any)(matches(one, attributes) for one in wanted.filters)
    found = attributes.get(wanted.key)
    if wanted.type in ("eq", "ne", "in", "nin"):
        return any(_same(found, one) for one in wanted.values) == (wanted.type in ("eq", "in"))
    (value,) = wanted.values
    if isinstance(found, bool) or isinstance(value, bool) or not isinstance(found, str | int | float):
        return False
    return isinstance(found, str) == isinstance(value, str) and _ORDERS[wanted.type](found, value)


def _same(found: Any, value: Value) -> bool:
    return isinstance(found, bool) == isinstance(value, bool) and bool(found == value)
