"""`/vector_stores`: searchable sets of files. Who adds files calls `indexing.wake()` once they are committed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter
from sqlalchemy import ColumnElement, Connection, func, insert, select

from ...documents.document_store import check_installed
from ...errors import UsageError
from ...store.tables import files, vector_store_files, vector_stores
from ...store.tenant_view import Kept, TenantView
from ..context import ContextDep
from ..http.api_errors import ApiError, invalid_value
from ..http.limits import check_store, check_store_files
from ..http.objects import Object, Wanted, deletion_object, find_row, list_rows, new_id
from ..http.request_body import JsonRoute
from .routes import no_file
from .schemas import Chunking, FileWish, StaticChunking, StoreCreate, StoreUpdate

router = APIRouter(prefix="/vector_stores", route_class=JsonRoute)
_STATUSES = ("in_progress", "completed", "failed", "cancelled")
_AUTO = {"max_chunk_size_tokens": 800, "chunk_overlap_tokens": 400}
_DAY = 86_400
_NEW = 60  # seconds between two updates of a store's last use


@router.post("")
async def create_store(context: ContextDep, given: StoreCreate | None = None) -> Object:
    """Create a vector store from uploaded files."""

    def add(connection: Connection, scope: TenantView) -> Object:
        return _store_object(connection, make_store(connection, scope, given or StoreCreate()))

    made = await context.write(add)
    context.server.indexing.wake()
    return made


@router.get("")
async def list_stores(context: ContextDep, page: Wanted) -> Object:
    """List the vector stores, newest first."""
    return await context.read(
        lambda connection, scope: list_rows(
            connection, scope, vector_stores, page, lambda row: _store_object(connection, row)
        )
    )


@router.get("/{vector_store_id}")
async def retrieve_store(context: ContextDep, vector_store_id: str) -> Object:
    """Retrieve a vector store."""
    return await context.read(
        lambda connection, scope: _store_object(connection, store_of(connection, scope, vector_store_id))
    )


@router.post("/{vector_store_id}")
async def modify_store(context: ContextDep, vector_store_id: str, given: StoreUpdate) -> Object:
    """Modify a vector store: only the fields sent change."""

    def change(connection: Connection, scope: TenantView) -> Object:
        body = {**store_of(connection, scope, vector_store_id, lock=True).body, **given.sent()}
        body |= {"name": body["name"] or "", "metadata": body["metadata"] or {}}
        return _store_object(connection, _write_store(connection, scope, vector_store_id, body))

    return await context.write(change)


@router.delete("/{vector_store_id}")
async def delete_store(context: ContextDep, vector_store_id: str) -> Object:
    """Delete a vector store; its files remain."""

    def remove(connection: Connection, scope: TenantView) -> None:
        store_of(connection, scope, vector_store_id, lock=True)
        scope.remove(connection, vector_stores, vector_stores.c.id == vector_store_id)

    await context.write(remove)
    context.server.indexing.wake(vector_store_id)
    return deletion_object(vector_store_id, "vector_store")


# ── within the caller's transaction ──────────────────────────────────────────────────────────────


def make_store(connection: Connection, scope: TenantView, given: StoreCreate) -> Kept:
    """Create a vector store with its files. Return its row. Raises `ApiError`."""
    check_store(connection, scope)
    now = int(time.time())
    body = {
        "name": given.name or "",
        "description": given.description,
        "metadata": given.metadata or {},
        "expires_after": given.expires_after.sent() if given.expires_after else None,
        "last_active_at": now,
    }
    values = {"id": new_id("vs"), "created_at": now, "expires_at": _expiry(body), "body": body}
    row = scope.add(connection, vector_stores, values)
    wishes = [FileWish(file_id=one, chunking_strategy=given.chunking_strategy) for one in given.file_ids or ()]
    attach(connection, scope, row, wishes)
    return row


def store_of(
    connection: Connection, scope: TenantView, store_id: str, *, used: bool = False, lock: bool = False
) -> Kept:
    """Return the row of this store, locked as `TenantView.find` does. `used` marks it as active, so it must not have
    expired. Raises `ApiError`."""
    row = find_row(connection, scope, vector_stores, store_id, lock=lock)
    if not used:
        return row
    if _has_expired(row):
        raise ApiError(400, f"The vector store '{store_id}' has expired.", code="vector_store_expired")
    if time.time() - row.body["last_active_at"] < _NEW:
        return row
    row = row if lock else find_row(connection, scope, vector_stores, store_id, lock=True)  # as it is by now
    return _write_store(connection, scope, store_id, {**row.body, "last_active_at": int(time.time())})


def attach(
    connection: Connection, scope: TenantView, store: Kept, wishes: Sequence[FileWish], batch_id: str | None = None
) -> None:
    """Add files to a store for indexing. A file that is already there is added again. Raises `ApiError`."""
    if not wishes:
        return
    try:
        check_installed("a vector store")
    except UsageError as error:
        raise ApiError(400, f"Vector stores are not available on this server: {error}.") from error
    by_id = {wish.file_id: wish for wish in wishes}
    mine = select(files.c.id, files.c.body).where(*scope.own(files), files.c.id.in_(list(by_id)))
    there = {row.id: row.body for row in connection.execute(mine)}
    if missing := [one for one in by_id if one not in there]:
        raise no_file(missing[0], "file_ids")
    check_store_files(connection, scope, len(by_id))
    same_store = vector_store_files.c.vector_store_id == store.id
    scope.remove(connection, vector_store_files, same_store, vector_store_files.c.file_id.in_(list(by_id)))
    now = int(time.time())
    rows = [
        {
            "tenant": scope.tenant,
            "id": new_id("vsf"),
            "created_at": now,
            "vector_store_id": store.id,
            "file_id": one,
            "batch_id": batch_id,
            "status": "in_progress",
            "usage_bytes": 0,
            "body": {
                "filename": there[one]["filename"],
                "attributes": wish.attributes or {},
                "chunking": _chunk_sizes(wish.chunking_strategy),
                "last_error": None,
            },
        }
        for one, wish in by_id.items()
    ]
    connection.execute(insert(vector_store_files), rows)


def count_files(connection: Connection, tenant: str, *where: ColumnElement[bool]) -> tuple[dict[str, int], int]:
    """Return the number of a tenant's vector store files by status, and their total size in bytes."""
    columns = vector_store_files.c
    query = select(columns.status, func.count(), func.sum(columns.usage_bytes))
    rows = list(connection.execute(query.where(columns.tenant == tenant, *where).group_by(columns.status)))
    counts = dict.fromkeys(_STATUSES, 0) | {status: number for status, number, _ in rows}
    return {**counts, "total": sum(counts.values())}, sum(int(size) for _, _, size in rows)


def _write_store(connection: Connection, scope: TenantView, store_id: str, body: Object) -> Kept:
    changed = scope.change(connection, vector_stores, store_id, {"body": body, "expires_at": _expiry(body)})
    assert changed is not None
    return changed


def _expiry(body: Mapping[str, Any]) -> int | None:
    """Return when a store expires unless it is used before, in Unix seconds; `None` for never."""
    after = body["expires_after"]
    return None if after is None else body["last_active_at"] + after["days"] * _DAY


def _has_expired(row: Kept) -> bool:
    return row.expires_at is not None and row.expires_at <= time.time()


def _chunk_sizes(given: Chunking | None) -> Object:
    """Return the chunk sizes in tokens, as in OpenAI's `static` strategy. Raises `ApiError`."""
    sizes = given.static.sent() if isinstance(given, StaticChunking) else dict(_AUTO)
    if 2 * sizes["chunk_overlap_tokens"] > sizes["max_chunk_size_tokens"]:
        where = "chunking_strategy.static.chunk_overlap_tokens"
        raise invalid_value(where, "it must be at most half of max_chunk_size_tokens")
    return sizes


def _store_object(connection: Connection, row: Kept) -> Object:
    """Return the API object of a vector store row, with its file counts and size."""
    counts, size = count_files(connection, row.tenant, vector_store_files.c.vector_store_id == row.id)
    status = "in_progress" if counts["in_progress"] else "completed"
    return {
        "id": row.id,
        "object": "vector_store",
        "created_at": row.created_at,
        "expires_at": row.expires_at,
        "status": "expired" if _has_expired(row) else status,
        "file_counts": counts,
        "usage_bytes": size,
        **row.body,
    }
