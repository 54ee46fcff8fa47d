"""`/vector_stores`: searchable sets of files."""

from __future__ import annotations

from fastapi import APIRouter
from sqlalchemy import Connection

from ...store.tables import vector_store_batches, vector_store_files, vector_stores
from ...store.tenant_view import Kept, TenantView
from ..context import ContextDep
from ..http.objects import Object, Wanted, deletion_object, list_rows
from ..http.request_body import JsonRoute
from .attachment import counted, end_of, has_expired, make_store, store_of
from .attribute_filters import validate_filter
from .schemas import Search, StoreCreate, StoreUpdate
from .vector_search import VectorSearch, search

router = APIRouter(route_class=JsonRoute)


@router.post("/vector_stores")
async def create_store(context: ContextDep, given: StoreCreate | None = None) -> Object:
    """Create a vector store from uploaded files."""

    def add(connection: Connection, scope: TenantView) -> Object:
        return store_object(connection, make_store(connection, scope, given or StoreCreate()))

    made = await context.write(add)
    context.server.indexing.wake()
    return made


@router.get("/vector_stores")
async def list_stores(context: ContextDep, page: Wanted) -> Object:
    """List the vector stores, newest first."""

    def read(connection: Connection, scope: TenantView) -> Object:
        return list_rows(connection, scope, vector_stores, page, lambda row: store_object(connection, row))

    return await context.read(read)


@router.get("/vector_stores/{vector_store_id}")
async def retrieve_store(context: ContextDep, vector_store_id: str) -> Object:
    """Retrieve a vector store."""
    return await context.read(
        lambda connection, scope: store_object(connection, store_of(connection, scope, vector_store_id))
    )


@router.post("/vector_stores/{vector_store_id}")
async def modify_store(context: ContextDep, vector_store_id: str, given: StoreUpdate) -> Object:
    """Modify a vector store: only the fields sent change."""
    sent = given.sent()

    def change(connection: Connection, scope: TenantView) -> Object:
        body = {**store_of(connection, scope, vector_store_id, lock=True).body, **sent}
        body |= {"name": body["name"] or "", "metadata": body["metadata"] or {}}
        values = {"body": body, "expires_at": end_of(body)}
        row = scope.change(connection, vector_stores, vector_store_id, values)
        assert row is not None
        return store_object(connection, row)

    return await context.write(change)


@router.delete("/vector_stores/{vector_store_id}")
async def delete_store(context: ContextDep, vector_store_id: str) -> Object:
    """Delete a vector store; its files remain."""

    def remove(connection: Connection, scope: TenantView) -> None:
        store_of(connection, scope, vector_store_id, lock=True)
        for table in (vector_store_files, vector_store_batches):
            scope.remove(connection, table, table.c.vector_store_id == vector_store_id)
        scope.remove(connection, vector_stores, vector_stores.c.id == vector_store_id)

    await context.write(remove)
    context.server.indexing.wake(vector_store_id)
    return deletion_object(vector_store_id, "vector_store")


@router.post("/vector_stores/{vector_store_id}/search")
async def search_store(context: ContextDep, vector_store_id: str, given: Search) -> Object:
    """Return the passages that best match one or more queries, best first."""
    queries = [given.query] if isinstance(given.query, str) else given.query
    filters = None if given.filters is None else validate_filter(given.filters)
    where = VectorSearch(context.server.database, context.server.indexing)
    query, most = " ".join(queries), given.max_num_results
    least = (given.ranking_options and given.ranking_options.score_threshold) or 0.0
    results = await search(where, context.scope, [vector_store_id], query, most, filters)
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


def store_object(connection: Connection, row: Kept) -> Object:
    """Return the API object of a vector store row, with its file counts and size."""
    counts, size = counted(connection, row.tenant, vector_store_files.c.vector_store_id == row.id)
    status = "in_progress" if counts["in_progress"] else "completed"
    return {
        "id": row.id,
        "object": "vector_store",
        "created_at": row.created_at,
        "expires_at": row.expires_at,
        "status": "expired" if has_expired(row) else status,
        "file_counts": counts,
        "usage_bytes": size,
        **row.body,
    }
