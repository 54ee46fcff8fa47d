"""`/v1/runs/{id}/workspace`: the files that a run works with, as they were in any version, and to download. An
extension. A run on a thread has those of the thread, and a member's run those of the run at the top."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import Field
from sqlalchemy import Connection

from ..._internal.concurrency import run_in_thread
from ...core.workspace import normalize_path
from ...errors import NotDone
from ...store import workspaces
from ...store.tenant_view import TenantView
from ..context import Context, ContextDep
from ..files.routes import add_file, download
from ..http.api_errors import ApiError
from ..http.common_schemas import Wire
from ..http.objects import Object, own_run
from ..http.request_body import JsonRoute
from .views import check_shown

router = APIRouter(prefix="/runs/{run_id}/workspace", route_class=JsonRoute)
_Version = Annotated[int, Query(ge=0, lt=2**31)] | None
_Path = Annotated[str, Query(max_length=1_000)]


class WorkspaceFileWish(Wire):
    """`POST /runs/{id}/workspace/files`: a file of a version, by default of the newest."""

    path: Annotated[str, Field(max_length=1_000)]
    version: Annotated[int, Field(ge=0, lt=2**31)] | None = None


@router.get("")
async def list_workspace(run_id: str, context: ContextDep, version: _Version = None) -> Object:
    """List the files of a run's workspace."""

    def read(connection: Connection, scope: TenantView) -> Object:
        workspace = _find(connection, scope, run_id)
        files = workspaces.list_files(connection, workspace, version)
        at = workspaces.find_version(connection, workspace) if version is None else version
        return {"object": "workspace", "version": at, "files": [one._asdict() for one in files]}

    try:
        return await context.read(read)
    except NotDone as error:
        raise ApiError(404, f"{error}.", param="version") from error


@router.get("/content", response_class=Response)
async def retrieve_content(run_id: str, context: ContextDep, path: _Path, version: _Version = None) -> Response:
    """Download a file of a run's workspace."""
    return download(path.rpartition("/")[2], await _read(context, run_id, path, version))


@router.post("/files")
async def keep_file(run_id: str, body: WorkspaceFileWish, context: ContextDep) -> Object:
    """Keep a file of a run's workspace as one of `/files`."""
    content = await _read(context, run_id, body.path, body.version)
    return await add_file(context, body.path.rpartition("/")[2], content, "assistants_output")


def _find(connection: Connection, scope: TenantView, run_id: str) -> str:
    """Return the id of a run's workspace. Raises `ApiError` for a run of others, or whose contents were deleted."""
    run = own_run(connection, scope, run_id)
    check_shown(run)
    return workspaces.place_of(connection, run).id


async def _read(context: Context, run_id: str, path: str, version: int | None) -> bytes:
    def read(connection: Connection, scope: TenantView) -> dict[str, bytes]:
        return workspaces.read_files(connection, _find(connection, scope, run_id), [wanted], version)

    try:
        wanted = normalize_path(path)
        for content in (await run_in_thread(workspaces.unpack, await context.read(read))).values():
            return content
    except NotDone as error:
        raise ApiError(404, f"{error}.", param="path") from error
    raise ApiError(404, f"There is no file '{wanted}' in this workspace.", param="path")
