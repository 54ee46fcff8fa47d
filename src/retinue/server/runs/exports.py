"""`/runs/{run_id}/export` and `/runs/import`: a run as one JSON object, and such an object as a run to look at."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

from fastapi import APIRouter, Request, Response
from sqlalchemy import Connection

from ..._internal.concurrency import run_in_thread
from ...errors import DataError
from ...runs.run_export import ImportedRun, export_run, import_runs, imported_runs, parse_export
from ...store.audit_log import record
from ...store.event_log import Entry
from ...store.run_row import RunRow
from ...store.tenant_view import TenantView
from ..context import ContextDep
from ..http.api_errors import ApiError
from ..http.authentication import sees_prompts
from ..http.objects import Object, own_run
from ..http.request_body import JsonRoute
from .list import check_shown, summary_object, withheld_fields

router = APIRouter(prefix="/runs", route_class=JsonRoute)


@router.get("/{run_id}/export")
async def export(run_id: str, context: ContextDep) -> Response:
    """Return a run with its log and the runs of its members. Keys without the scope `prompts` get it without the
    prompts."""
    shows = sees_prompts(context.scope.scopes)

    def withheld(run: RunRow, entry: Entry) -> Sequence[str]:
        return () if shows else withheld_fields(entry.event)

    def work(connection: Connection, scope: TenantView) -> bytes:
        run = own_run(connection, scope, run_id)
        check_shown(run)
        return json.dumps(export_run(connection, run, withheld), ensure_ascii=False).encode("utf-8", "replace")

    def told(connection: Connection, scope: TenantView) -> None:
        run = own_run(connection, scope, run_id)
        record(connection, scope.author, scope.tenant, "run.exported", run.id, {"prompts": int(shows)})

    exported = await context.read(work)
    await context.write(told)  # before anything of it is sent
    return Response(exported, media_type="application/json")


@router.post("/import")
async def import_(request: Request, context: ContextDep) -> Object:
    """Store an exported run under a new id, to be looked at. It is never driven, and nothing in it is executed."""
    body = await request.body()
    try:
        async with context.server.shares.large.rested(context.scope.tenant):
            found = await run_in_thread(partial(_read, body, context.scope))
    except DataError as error:
        raise ApiError(400, f"The run cannot be imported: {error}.") from error

    def work(connection: Connection, scope: TenantView) -> RunRow:
        run = import_runs(connection, found)
        record(connection, scope.author, scope.tenant, "run.imported", run.id)
        return run

    return summary_object(await context.write(work))


def _read(body: bytes, scope: TenantView) -> list[ImportedRun]:
    return imported_runs(parse_export(body), scope.tenant, scope.key_id)
