"""`/vector_stores/{id}/files` and `/file_batches`: the files of a vector store."""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from sqlalchemy import ColumnElement, Connection, update

from ..._internal.concurrency import run_in_thread
from ...store.tables import vector_store_batches, vector_store_files
from ...store.tenant_view import Kept, Page, TenantView
from ..context import ContextDep
from ..http.api_errors import ApiError, missing_parameter, not_found
from ..http.objects import Object, Wanted, deletion_object, list_rows, new_id
from ..http.request_body import JsonRoute
from .schemas import BatchCreate, FileChange, FileWish
from .stores import attach, count_files, store_of

router = APIRouter(prefix="/vector_stores/{vector_store_id}", route_class=JsonRoute)
_COLUMNS = vector_store_files.c
Filter = Annotated[Literal["in_progress", "completed", "failed", "cancelled"] | None, Query(alias="filter")]


@router.post("/files")
async def create_store_file(context: ContextDep, vector_store_id: str, given: FileWish) -> Object:
    """Add a file to a vector store."""

    def add(connection: Connection, scope: TenantView) -> Object:
        attach(connection, scope, store_of(connection, scope, vector_store_id, used=True, lock=True), [given])
        return _file_object(_find_file(connection, scope, vector_store_id, given.file_id))

    made = await context.write(add)
    context.server.indexing.wake(vector_store_id)
    return made


@router.get("/files")
async def list_store_files(context: ContextDep, vector_store_id: str, page: Wanted, status: Filter = None) -> Object:
    """List a store's files, newest first. `filter` selects by status."""

    def read(connection: Connection, scope: TenantView) -> Object:
        store_of(connection, scope, vector_store_id)
        return _list_files(connection, scope, vector_store_id, page, status)

    return await context.read(read)


@router.get("/files/{file_id}")
async def retrieve_store_file(context: ContextDep, vector_store_id: str, file_id: str, response: Response) -> Object:
    """Retrieve a file of a store."""
    response.headers.update(context.server.poll_after())
    return await context.read(
        lambda connection, scope: _file_object(_find_file(connection, scope, vector_store_id, file_id)),
    )


@router.post("/files/{file_id}")
async def modify_store_file(context: ContextDep, vector_store_id: str, file_id: str, given: FileChange) -> Object:
    """Replace a file's attributes."""

    def change(connection: Connection, scope: TenantView) -> Object:
        found = _find_file(connection, scope, vector_store_id, file_id)
        row = scope.find(connection, vector_store_files, found.id, lock=True) or found
        body = {**row.body, "attributes": given.attributes or {}}
        return _file_object(scope.change(connection, vector_store_files, row.id, {"body": body}) or row)

    return await context.write(change)


@router.delete("/files/{file_id}")
async def delete_store_file(context: ContextDep, vector_store_id: str, file_id: str) -> Object:
    """Remove a file from a store; the file itself remains."""

    def remove(connection: Connection, scope: TenantView) -> None:
        found = _find_file(connection, scope, vector_store_id, file_id)
        scope.remove(connection, vector_store_files, _COLUMNS.id == found.id)

    await context.write(remove)
    context.server.indexing.wake(vector_store_id)
    return deletion_object(file_id, "vector_store.file")


@router.get("/files/{file_id}/content")
async def retrieve_store_file_content(context: ContextDep, vector_store_id: str, file_id: str) -> Object:
    """Retrieve the text extracted from a file."""
    row = await context.read(lambda connection, scope: _find_file(connection, scope, vector_store_id, file_id))
    text = await run_in_thread(context.server.indexing.passages.read_text, vector_store_id, row.id)
    data = [{"type": "text", "text": text}] if text else []
    return {"object": "vector_store.file_content.page", "data": data, "has_more": False, "next_page": None}


@router.post("/file_batches")
async def create_batch(context: ContextDep, vector_store_id: str, given: BatchCreate) -> Object:
    """Add several files to a store."""

    def add(connection: Connection, scope: TenantView) -> Object:
        store = store_of(connection, scope, vector_store_id, used=True, lock=True)
        if given.file_ids is not None and given.files is not None:
            raise ApiError(400, "'file_ids' and 'files' are mutually exclusive.", param="files", code="invalid_value")
        if given.file_ids is None and given.files is None:
            raise missing_parameter("file_ids")
        common: dict[str, Any] = {"attributes": given.attributes, "chunking_strategy": given.chunking_strategy}
        wishes = given.files or [FileWish(file_id=one, **common) for one in given.file_ids or ()]
        values = {"id": new_id("vsfb"), "created_at": int(time.time()), "vector_store_id": vector_store_id}
        row = scope.add(connection, vector_store_batches, {**values, "body": {"cancelled": False}})
        attach(connection, scope, store, wishes, row.id)
        return _batch_object(connection, row)

    made = await context.write(add)
    context.server.indexing.wake(vector_store_id)
    return made


@router.get("/file_batches/{batch_id}")
async def retrieve_batch(context: ContextDep, vector_store_id: str, batch_id: str, response: Response) -> Object:
    """Retrieve a batch, with its progress."""
    response.headers.update(context.server.poll_after())

    def read(connection: Connection, scope: TenantView) -> Object:
        return _batch_object(connection, _find_batch(connection, scope, vector_store_id, batch_id))

    return await context.read(read)


@router.post("/file_batches/{batch_id}/cancel")
async def cancel_batch(context: ContextDep, vector_store_id: str, batch_id: str) -> Object:
    """Cancel a batch: its unfinished files are not indexed."""

    def cancel(connection: Connection, scope: TenantView) -> Object:
        row = _find_batch(connection, scope, vector_store_id, batch_id)
        left = (_COLUMNS.tenant == scope.tenant, _COLUMNS.batch_id == batch_id, _COLUMNS.status == "in_progress")
        connection.execute(update(vector_store_files).where(*left).values(status="cancelled"))
        row = scope.change(connection, vector_store_batches, batch_id, {"body": {"cancelled": True}}) or row
        return _batch_object(connection, row)

    return await context.write(cancel)


@router.get("/file_batches/{batch_id}/files")
async def list_batch_files(
    context: ContextDep, vector_store_id: str, batch_id: str, page: Wanted, status: Filter = None
) -> Object:
    """List a batch's files, newest first. `filter` selects by status."""

    def read(connection: Connection, scope: TenantView) -> Object:
        _find_batch(connection, scope, vector_store_id, batch_id)
        return _list_files(connection, scope, vector_store_id, page, status, _COLUMNS.batch_id == batch_id)

    return await context.read(read)


def _list_files(
    connection: Connection,
    scope: TenantView,
    store_id: str,
    page: Page,
    status: str | None,
    *where: ColumnElement[bool],
) -> Object:
    """Return a page of a store's files. The cursors are file ids."""
    ends = (end and _look_up(connection, scope, store_id, end) for end in (page.after, page.before))
    after, before = (row.id if row else None for row in ends)
    mine = [_COLUMNS.vector_store_id == store_id, *where, *([_COLUMNS.status == status] if status else ())]
    return list_rows(
        connection, scope, vector_store_files, page._replace(after=after, before=before), _file_object, *mine
    )


def _look_up(connection: Connection, scope: TenantView, store_id: str, file_id: str) -> Kept | None:
    mine = (_COLUMNS.vector_store_id == store_id, _COLUMNS.file_id == file_id)
    rows, _ = scope.page(connection, vector_store_files, Page(1), *mine)
    return rows[0] if rows else None


def _find_file(connection: Connection, scope: TenantView, store_id: str, file_id: str) -> Kept:
    store_of(connection, scope, store_id)
    row = _look_up(connection, scope, store_id, file_id)
    if row is None:
        raise ApiError(404, f"No file found with id '{file_id}' in vector store '{store_id}'.")
    return row


def _find_batch(connection: Connection, scope: TenantView, store_id: str, batch_id: str) -> Kept:
    store_of(connection, scope, store_id)
    row = scope.find(connection, vector_store_batches, batch_id)
    if row is None or row.vector_store_id != store_id:
        raise not_found("file batch", batch_id)
    return row


def _file_object(row: Kept) -> Object:
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


def _batch_object(connection: Connection, row: Kept) -> Object:
    """Return the API object of a batch row, with the counts of its files."""
    counts, _ = count_files(connection, row.tenant, _COLUMNS.batch_id == row.id)
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
