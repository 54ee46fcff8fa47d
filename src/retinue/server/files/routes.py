"""`/files`: what clients upload. A file is bytes under an id; its name is only shown."""

from __future__ import annotations

import re
import time
from functools import partial
from typing import Annotated, Literal
from urllib.parse import quote

from fastapi import APIRouter, Depends, Form, Query, Response, UploadFile
from sqlalchemy import Connection, select

from ...store.tables import contents, files, vector_store_files
from ...store.tenant_view import Kept, Page, TenantView
from ..context import ContextDep
from ..wire.api_errors import ApiError
from ..wire.ids import new_id
from ..wire.lookup import list_rows
from ..wire.objects import Object
from ..wire.validation import invalid_value, missing_parameter
from .storage_quota import problem_of_upload

router = APIRouter()
Purpose = Literal[
    "assistants", "batch", "fine-tune", "vision", "user_data"
]  # `evals`: no file may have it then, by the SDK
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
    """A new one, of at most 20 MB."""
    name = file.filename or ""
    if not name.strip() or len(name) > _MAX_NAME or _UNSHOWABLE.search(name):
        raise invalid_value("file", f"want a name of 1 to {_MAX_NAME} characters, none of which is a control character")
    if (anchor is None) != (seconds is None):
        raise missing_parameter(_ANCHOR if anchor is None else _SECONDS)
    data, now = await file.read(), int(time.time())
    row = {
        "id": new_id("file"),
        "created_at": now,
        "expires_at": None if seconds is None else now + seconds,
        "body": {"filename": name, "bytes": len(data), "purpose": purpose},
    }

    problem = await context.read(partial(problem_of_upload, size=len(data)))

    def add(connection: Connection, scope: TenantView) -> Object:
        if problem is not None:
            raise problem  # only here: what was uploaded before, and is sent again, is there
        scope.insert(connection, contents, {"id": row["id"], "content": data})
        return file_object(scope.add(connection, files, row))

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
    """A page of them, newest first; `purpose`: those for it."""
    where = [] if purpose is None else [files.c.body["purpose"].as_string() == purpose]
    return await context.read(lambda connection, scope: list_rows(connection, scope, files, page, file_object, *where))


@router.get("/files/{file_id}")
async def retrieve_file(context: ContextDep, file_id: str) -> Object:
    """One of them."""
    return await context.read(lambda connection, scope: file_object(file_of(connection, scope, file_id)))


@router.get("/files/{file_id}/content", response_class=Response)
async def retrieve_content(context: ContextDep, file_id: str) -> Response:
    """What is in it, as it was uploaded. No browser takes it for a page of this server."""

    def read(connection: Connection, scope: TenantView) -> tuple[Kept, Kept | None]:
        return file_of(connection, scope, file_id), scope.find(connection, contents, file_id)

    row, kept = await context.read(read)
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(row.body['filename'], safe='')}",
        "X-Content-Type-Options": "nosniff",
    }
    return Response(kept.content if kept is not None else b"", media_type="application/octet-stream", headers=headers)


@router.delete("/files/{file_id}")
async def delete_file(context: ContextDep, file_id: str) -> Object:
    """Remove it, also from vector stores."""

    def remove(connection: Connection, scope: TenantView) -> list[str]:
        file_of(connection, scope, file_id)
        of_file = (vector_store_files.c.tenant == scope.tenant, vector_store_files.c.file_id == file_id)
        there = list(connection.execute(select(vector_store_files.c.vector_store_id).where(*of_file)).scalars())
        scope.remove(connection, vector_store_files, of_file[1])
        scope.remove(connection, contents, contents.c.id == file_id)
        scope.remove(connection, files, files.c.id == file_id)
        return there

    context.server.indexing.wake(*await context.write(remove))
    return {"id": file_id, "object": "file", "deleted": True}


def file_of(connection: Connection, scope: TenantView, file_id: str, param: str = "id") -> Kept:
    """The file of this id. Raises `ApiError` (404) if there is none."""
    row = scope.find(connection, files, file_id)
    if row is None:
        raise no_file(file_id, param)
    return row


def no_file(file_id: str, param: str = "id") -> ApiError:
    """Nothing of that id is there, for this tenant."""
    return ApiError(404, f"No such File object: {file_id}", param=param)


def file_object(row: Kept) -> Object:
    """`row` of the table of files."""
    return {
        "id": row.id,
        "object": "file",
        "created_at": row.created_at,
        "expires_at": row.expires_at,
        "status": "processed",
        "status_details": None,
        **row.body,
    }
