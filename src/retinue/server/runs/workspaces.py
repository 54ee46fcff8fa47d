"""`/v1/runs/{id}/workspace`: the files that a run works with, as they were in any version, and to download. An
extension. A run on a thread has those of the thread, and a member's run those of the run at the top."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import APIRouter, Query, Response
from pydantic import Field
from sqlalchemy import Connection

from ..._internal.concurrency import run_in_thread
from ...core.workspace import WorkspaceError, normalize_path
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
T = TypeVar("T")
_Path = Annotated[str, Query(max_length=1_000)]


class WorkspaceFileWish(Wire):
    """`POST /runs/{id}/workspace/files`: a file of a version, by default of the newest."""

    path: Annotated[str, Field(max_length=1_000)]
    version: Annotated[int, Field(ge=0, lt=2**31)] | None = None


@router.get("")
async def list_workspace(run_id: str, context: ContextDep, version: _Version = None) -> Object:
    """List the files of a run's workspace."""

    def read(connection: Connection, workspace: str) -> Object:
        files = workspaces.list_files(connection, workspace, version)
        at = workspaces.find_version(connection, workspace) if version is None else version
        return {"object": "workspace", "run_id": run_id, "version": at, "files": [one._asdict() for one in files]}

    return await _read(context, run_id, read)


@router.get("/content", response_class=Response)
async def retrieve_content(run_id: str, context: ContextDep, path: _Path, version: _Version = None) -> Response:
    """Download a file of a run's workspace."""
    return download(path.rpartition("/")[2], await _read_file(context, run_id, path, version))


@router.post("/files")
async def keep_file(run_id: str, body: WorkspaceFileWish, context: ContextDep) -> Object:
    """Keep a file of a run's workspace as one of `/files`."""
    content = await _read_file(context, run_id, body.path, body.version)
    return await add_file(context, body.path.rpartition("/")[2], content, "assistants_output")


async def _read_file(context: Context, run_id: str, path: str, version: int | None) -> bytes:
    def read(connection: Connection, workspace: str) -> dict[str, bytes]:
        return workspaces.read_files(connection, workspace, [normalize_path(path)], version)

    for content in (await run_in_thread(workspaces.unpack, await _read(context, run_id, read))).values():
        return content
    raise ApiError(404, f"There is no file {path!r:.200} in this workspace.", param="path")


async def _read(context: Context, run_id: str, work: Callable[[Connection, str], T]) -> T:
    """Return what `work` reads in a run's workspace. Raises `ApiError` for a run of others, or whose contents were
    deleted, and for a path or version that is none."""

    def read(connection: Connection, scope: TenantView) -> T:
        run = own_run(connection, scope, run_id)
        check_shown(run)
        return work(connection, workspaces.place_of(connection, run).id)

    try:
        return await context.read(read)
    except WorkspaceError as error:
        raise ApiError(404, f"{error}.") from error
