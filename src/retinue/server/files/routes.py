"""`/files`: uploads. A file is bytes under an id; its name is for display only."""

from __future__ import annotations

import re
import time
from typing import Annotated, Literal
from urllib.parse import quote

from fastapi import APIRouter, Depends, Form, Query, Response, UploadFile
from sqlalchemy import Connection, select

from ...store.audit_log import record
from ...store.tables import contents, files, vector_store_files
from ...store.tenant_view import Kept, Page, TenantView
from ..context import Context, ContextDep
from ..http.api_errors import ApiError, invalid_value, missing_parameter
from ..http.limits import check_file
from ..http.objects import Object, list_rows, new_id

router = APIRouter()
Purpose = Literal[
    "assistants", "batch", "fine-tune", "vision", "user_data"
]  # not `evals`, which no file can have in the SDK
_MAX_NAME = 256
_UNSHOWABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_ANCHOR, _SECONDS = "expires_after[anchor]", "expires_after[seconds]"


@router.post("/files")
async def create_file(
    context: ContextDep,
    file: UploadFile,
    purpose: Annotated[Purpose, Form()],
    anchor: Annotated[Literal["created_at"] | None, Form(alias=_ANCHOR)] = None,
    seconds: Annotated[int | None, Form(alias=_SECONDS, ge=3_600, le=2_592_000)] = None,
) -> Object:
    """Upload a file of at most 20 MB."""
    name = file.filename or ""
    if not name.strip() or len(name) > _MAX_NAME or _UNSHOWABLE.search(name):
        raise invalid_value("file", f"expected a name of 1 to {_MAX_NAME} characters without control characters")
    if (anchor is None) != (seconds is None):
        raise missing_parameter(_ANCHOR if anchor is None else _SECONDS)
    return await add_file(context, name, await file.read(), purpose, seconds)


async def add_file(context: Context, name: str, data: bytes, purpose: str, seconds: int | None = None) -> Object:
    """Keep a file, for so many seconds (`None`: until it is deleted). Return its API object. Raises `ApiError` if the
    tenant may not keep it."""
    now = int(time.time())
    row = {
        "id": new_id("file"),
        "created_at": now,
        "expires_at": None if seconds is None else now + seconds,
        "body": {"filename": name, "bytes": len(data), "purpose": purpose},
    }

    def add(connection: Connection, scope: TenantView) -> Object:
        check_file(connection, scope, len(data))
        kept = scope.add(connection, files, row)
        scope.insert(connection, contents, {"id": row["id"], "content": data})
        return file_object(kept)

    return await context.write(add)


def _page_of(
    limit: Annotated[int, Query(ge=1, le=10_000)] = 10_000,
    order: Literal["asc", "desc"] = "desc",
    after: str | None = None,
) -> Page:
    return Page(limit, order, after)


@router.get("/files")
async def list_files(
    context: ContextDep, page: Annotated[Page, Depends(_page_of)], purpose: str | None = None
) -> Object:
    """List the files, newest first. `purpose` selects by purpose."""
    where = [] if purpose is None else [files.c.body["purpose"].as_string() == purpose]
    return await context.read(lambda connection, scope: list_rows(connection, scope, files, page, file_object, *where))


@router.get("/files/{file_id}")
async def retrieve_file(context: ContextDep, file_id: str) -> Object:
    """Retrieve a file's metadata."""
    return await context.read(lambda connection, scope: file_object(file_of(connection, scope, file_id)))


@router.get("/files/{file_id}/content", response_class=Response)
async def retrieve_content(context: ContextDep, file_id: str) -> Response:
    """Download a file as it was uploaded."""

    def read(connection: Connection, scope: TenantView) -> tuple[Kept, Kept | None]:
        return file_of(connection, scope, file_id), scope.find(connection, contents, file_id)

    row, kept = await context.read(read)
    return download(row.body["filename"], kept.content if kept is not None else b"")


def download(name: str, content: bytes) -> Response:
    """Return the answer with a file. Headers keep browsers from displaying it as a page of this server."""
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
        "X-Content-Type-Options": "nosniff",
    }
    return Response(content, media_type="application/octet-stream", headers=headers)


@router.delete("/files/{file_id}")
async def delete_file(context: ContextDep, file_id: str) -> Object:
    """Delete a file, and remove it from vector stores."""

    def remove(connection: Connection, scope: TenantView) -> list[str]:
        file_of(connection, scope, file_id)
        of_file = (vector_store_files.c.tenant == scope.tenant, vector_store_files.c.file_id == file_id)
        there = list(connection.execute(select(vector_store_files.c.vector_store_id).where(*of_file)).scalars())
        if scope.remove(connection, files, files.c.id == file_id):
            record(connection, scope.author, scope.tenant, "file.deleted", file_id)
        return there

    context.server.indexing.wake(*await context.write(remove))
    return {"id": file_id, "object": "file", "deleted": True}


def file_of(connection: Connection, scope: TenantView, file_id: str, param: str = "id") -> Kept:
    """Return the row of this file. Raises `ApiError` (404) if it does not exist."""
    row = scope.find(connection, files, file_id)
    if row is None:
        raise no_file(file_id, param)
    return row


def no_file(file_id: str, param: str = "id") -> ApiError:
    """Return the error for a file that does not exist for this tenant."""
    return ApiError(404, f"No such File object: {file_id}", param=param)


def file_object(row: Kept) -> Object:
    """Return the API object of a file row."""
    return {
        "id": row.id,
        "object": "file",
        "created_at": row.created_at,
        "expires_at": row.expires_at,
        "status": "processed",
        "status_details": None,
        **row.body,
    }
