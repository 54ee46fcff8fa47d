"""`/vector_stores/{id}/files` and `/file_batches`: the files of a vector store."""

from __future__ import annotations

import time
from typing import Any, Literal

from fastapi import APIRouter, Response
from sqlalchemy import ColumnElement, Connection, update

from ..._internal.concurrency import run_in_thread
from ...store.tables import vector_store_batches, vector_store_files
from ...store.tenant_view import Kept, Page, TenantView
from ..context import ContextDep
from ..http.api_errors import ApiError, missing_parameter, not_found
from ..http.objects import Object, Wanted, list_rows, new_id
from ..http.request_body import JsonRoute
from .attachment import attach, counted, store_of
from .schemas import BatchCreate, FileChange, FileWish

router = APIRouter(route_class=JsonRoute)
_COLUMNS = vector_store_files.c
_Status = Literal["in_progress", "completed", "failed", "cancelled"]


@router.post("/vector_stores/{vector_store_id}/files")
async def create_store_file(context: ContextDep, vector_store_id: str, given: FileWish) -> Object:
    """Add a file to a vector store."""

    def add(connection: Connection, scope: TenantView) -> Object:
        attach(connection, scope, store_of(connection, scope, vector_store_id, used=True, lock=True), [given])
        return file_object(_file(connection, scope, vector_store_id, given.file_id))

    made = await context.write(add)
    context.server.indexing.wake(vector_store_id)
    return made


@router.get("/vector_stores/{vector_store_id}/files")
async def list_store_files(
    context: ContextDep,
    vector_store_id: str,
    page: Wanted,
    filter: _Status | None = None,  # noqa: A002
) -> Object:
    """List a store's files, newest first. `filter` selects by status."""

    def read(connection: Connection, scope: TenantView) -> Object:
        store_of(connection, scope, vector_store_id)
        return _listed(connection, scope, vector_store_id, page, filter)

    return await context.read(read)


@router.get("/vector_stores/{vector_store_id}/files/{file_id}")
async def retrieve_store_file(context: ContextDep, vector_store_id: str, file_id: str, response: Response) -> Object:
    """Retrieve a file of a store."""
    response.headers.update(context.server.poll_after())
    return await context.read(
        lambda connection, scope: file_object(_file(connection, scope, vector_store_id, file_id)),
    )


@router.post("/vector_stores/{vector_store_id}/files/{file_id}")
async def modify_store_file(context: ContextDep, vector_store_id: str, file_id: str, given: FileChange) -> Object:
    """Replace a file's attributes."""

    def change(connection: Connection, scope: TenantView) -> Object:
        found = _file(connection, scope, vector_store_id, file_id)
        row = scope.find(connection, vector_store_files, found.id, lock=True) or found
        body = {**row.body, "attributes": given.attributes or {}}
        return file_object(scope.change(connection, vector_store_files, row.id, {"body": body}) or row)

    return await context.write(change)


@router.delete("/vector_stores/{vector_store_id}/files/{file_id}")
async def delete_store_file(context: ContextDep, vector_store_id: str, file_id: str) -> Object:
    """Remove a file from a store; the file itself remains."""

    def remove(connection: Connection, scope: TenantView) -> None:
        row = _file(connection, scope, vector_store_id, file_id)
        scope.remove(connection, vector_store_files, _COLUMNS.id == row.id)

    await context.write(remove)
    context.server.indexing.wake(vector_store_id)
    return {"id": file_id, "object": "vector_store.file.deleted", "deleted": True}


@router.get("/vector_stores/{vector_store_id}/files/{file_id}/content")
async def retrieve_store_file_content(context: ContextDep, vector_store_id: str, file_id: str) -> Object:
    """Retrieve the text extracted from a file."""
    row = await context.read(lambda connection, scope: _file(connection, scope, vector_store_id, file_id))
    text = await run_in_thread(context.server.indexing.passages.read_text, vector_store_id, row.id)
    data = [{"type": "text", "text": text}] if text else []
    return {"object": "vector_store.file_content.page", "data": data, "has_more": False, "next_page": None}


@router.post("/vector_stores/{vector_store_id}/file_batches")
async def create_batch(context: ContextDep, vector_store_id: str, given: BatchCreate) -> Object:
    """Add several files to a store."""

    def add(connection: Connection, scope: TenantView) -> Object:
        store = store_of(connection, scope, vector_store_id, used=True, lock=True)
        wishes = _wishes(given)
        values = {
            "id": new_id("vsfb"),
            "created_at": int(time.time()),
            "vector_store_id": vector_store_id,
            "body": {"cancelled": False},
        }
        row = scope.add(connection, vector_store_batches, values)
        attach(connection, scope, store, wishes, row.id)
        return batch_object(connection, row)

    made = await context.write(add)
    context.server.indexing.wake(vector_store_id)
    return made


@router.get("/vector_stores/{vector_store_id}/file_batches/{batch_id}")
async def retrieve_batch(context: ContextDep, vector_store_id: str, batch_id: str, response: Response) -> Object:
    """Retrieve a batch, with its progress."""
    response.headers.update(context.server.poll_after())

    def read(connection: Connection, scope: TenantView) -> Object:
        return batch_object(connection, _batch(connection, scope, vector_store_id, batch_id))

    return await context.read(read)


@router.post("/vector_stores/{vector_store_id}/file_batches/{batch_id}/cancel")
async def cancel_batch(context: ContextDep, vector_store_id: str, batch_id: str) -> Object:
    """Cancel a batch: its unfinished files are not indexed."""

    def cancel(connection: Connection, scope: TenantView) -> Object:
        row = _batch(connection, scope, vector_store_id, batch_id)
        left = (_COLUMNS.tenant == scope.tenant, _COLUMNS.batch_id == batch_id, _COLUMNS.status == "in_progress")
        connection.execute(update(vector_store_files).where(*left).values(status="cancelled"))
        row = scope.change(connection, vector_store_batches, batch_id, {"body": {"cancelled": True}}) or row
        return batch_object(connection, row)

    return await context.write(cancel)


@router.get("/vector_stores/{vector_store_id}/file_batches/{batch_id}/files")
async def list_batch_files(
    context: ContextDep,
    vector_store_id: str,
    batch_id: str,
    page: Wanted,
    filter: _Status | None = None,  # noqa: A002
) -> Object:
    """List a batch's files, newest first. `filter` selects by status."""

    def read(connection: Connection, scope: TenantView) -> Object:
        _batch(connection, scope, vector_store_id, batch_id)
        return _listed(connection, scope, vector_store_id, page, filter, _COLUMNS.batch_id == batch_id)

    return await context.read(read)


def _listed(
    connection: Connection,
    scope: TenantView,
    store_id: str,
    page: Page,
    status: str | None,
    *where: ColumnElement[bool],
) -> Object:
    """Return a page of a store's files. The cursors are file ids."""
    named = {
        name: row.id
        for name in ("after", "before")
        if (file_id := getattr(page, name)) is not None
        and (row := _look(connection, scope, store_id, file_id)) is not None
    }
    mine = [_COLUMNS.vector_store_id == store_id, *where]
    if status is not None:
        mine.append(_COLUMNS.status == status)
    page = page._replace(after=named.get("after"), before=named.get("before"))
    return list_rows(connection, scope, vector_store_files, page, file_object, *mine)


def _look(connection: Connection, scope: TenantView, store_id: str, file_id: str) -> Kept | None:
    mine = (_COLUMNS.vector_store_id == store_id, _COLUMNS.file_id == file_id)
    rows, _ = scope.page(connection, vector_store_files, Page(1), *mine)
    return rows[0] if rows else None


def _file(connection: Connection, scope: TenantView, store_id: str, file_id: str) -> Kept:
    store_of(connection, scope, store_id)
    row = _look(connection, scope, store_id, file_id)
    if row is None:
        raise ApiError(404, f"No file found with id '{file_id}' in vector store '{store_id}'.")
    return row


def _batch(connection: Connection, scope: TenantView, store_id: str, batch_id: str) -> Kept:
    store_of(connection, scope, store_id)
    row = scope.find(connection, vector_store_batches, batch_id)
    if row is None or row.vector_store_id != store_id:
        raise not_found("file batch", batch_id)
    return row


def _wishes(given: BatchCreate) -> list[FileWish]:
    """Return the files to add. Raises `ApiError` unless exactly one of `file_ids` and `files` is given."""
    if given.file_ids is not None and given.files is not None:
        raise ApiError(400, "'file_ids' and 'files' are mutually exclusive.", param="files", code="invalid_value")
    if given.files is not None:
        return given.files
    if given.file_ids is None:
        raise missing_parameter("file_ids")
    common: dict[str, Any] = {"attributes": given.attributes, "chunking_strategy": given.chunking_strategy}
    return [FileWish(file_id=one, **common) for one in given.file_ids]


def file_object(row: Kept) -> Object:
    """Return the API object of a vector store file row."""
    return {
        "id": row.file_id,
        "object": "vector_store.file",
        "created_at": row.created_at,
        "vector_store_id": row.vector_store_id,
        "status": row.status,
        "usage_bytes": row.usage_bytes,
        "last_error": row.body["last_error"],
        "attributes": row.body["attributes"],
        "chunking_strategy": {"type": "static", "static": row.body["chunking"]},
    }


def batch_object(connection: Connection, row: Kept) -> Object:
    """Return the API object of a batch row, with the counts of its files."""
    counts, _ = counted(connection, row.tenant, _COLUMNS.batch_id == row.id)
    status = "cancelled" if row.body["cancelled"] else "completed"
    if counts["in_progress"]:
        status = "in_progress"
    elif counts["failed"] and counts["failed"] == counts["total"]:
        status = "failed"
    return {
        "id": row.id,
        "object": "vector_store.files_batch",
        "created_at": row.created_at,
        "vector_store_id": row.vector_store_id,
        "status": status,
        "file_counts": counts,
    }
