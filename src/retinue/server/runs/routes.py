"""`/v1/runs`: the runs of a tenant, whatever API they came from, for a person who looks at them. An extension."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from sqlalchemy import Connection

from ..._internal.concurrency import run_in_thread
from ...core.events import Observed
from ...core.run_texts import unpack_text
from ...errors import DataError
from ...runs.run_export import export_run, import_runs, imported_runs, parse_export
from ...runs.run_view import read_run_after
from ...store.audit_log import record
from ...store.event_log import Entry
from ...store.run_queries import RunFilter, figures_of, page_runs, search_runs
from ...store.run_row import Kind, RunRow, Status
from ...store.run_texts import find_call_text
from ...store.tenant_view import TenantView
from ..context import ContextDep
from ..http.api_errors import ApiError, not_found
from ..http.authentication import sees_prompts
from ..http.common_schemas import SubmitToolOutputs
from ..http.objects import Object, Wanted, WantedMetadata, call_id as client_call, listed, own_run, own_view
from ..http.request_body import JsonRoute
from ..http.sse import STREAMED, event_stream
from ..run_session import RunSession, answer_as_client, cancel_active
from .views import (
    LogStream,
    check_shown,
    event_object,
    hidden_turns,
    run_detail,
    summary_object,
    withheld_fields,
)

router = APIRouter(prefix="/runs", route_class=JsonRoute)
_Time = Annotated[int, Query(ge=0, lt=2**53)]
_Number = Annotated[int, Query(ge=0, lt=2**31)]


@router.get("")
async def list_all(  # noqa: PLR0913 -- one parameter for each filter
    context: ContextDep,
    page: Wanted,
    metadata: WantedMetadata,
    status: Annotated[Sequence[Status], Query()] = (),
    kind: Kind | None = None,
    model: str | None = None,
    parent: str | None = None,
    thread: str | None = None,
    forked_from: str | None = None,
    created_after: _Time | None = None,
    created_before: _Time | None = None,
    members: bool = True,
    figures: bool = False,
    q: Annotated[str, Query(max_length=200)] = "",
) -> Object:
    """List the runs, newest first: of those that were found, with `figures`, also questions and costs; without
    `members` only those that no other run called; with `q` only those whose question contains it."""
    wanted = RunFilter(
        kind=kind,
        parent_id=parent,
        thread_id=thread,
        forked_from=forked_from,
        agent=model,
        statuses=status,
        created_after=created_after,
        created_before=created_before,
        metadata=metadata,
        members=members,
    )
    if q and page.before is not None:
        raise ApiError(400, "A search goes forward only: give 'after' instead of 'before'.", param="before")

    def shows_question(run: RunRow) -> bool:
        return 0 not in hidden_turns(run)

    def work(connection: Connection, scope: TenantView) -> Object:
        find = partial(search_runs, text=q, may_show=shows_question) if q else page_runs
        found, more = find(connection, scope, page, wanted)
        told = figures_of(connection, [run.id for run in found]) if figures else {}
        objects = []
        for run in found:
            objects.append(summary_object(run))
            if (one := told.get(run.id)) is not None:
                question = one.question if shows_question(run) else None
                objects[-1] |= {"question": question, "replies": one.replies, "cost": one.cost or None}
        return listed(objects, more)

    return await context.read(work)


@router.get("/{run_id}")
async def retrieve(run_id: str, context: ContextDep, log: bool = True) -> Object:
    """Retrieve a run, with its steps and messages so far; without `log`, only what its row says."""
    if not log:
        return summary_object(await context.read(partial(own_run, id_=run_id), small=True))
    return await context.read(lambda connection, scope: run_detail(own_view(connection, scope, run_id)))


@router.get("/{run_id}/results/{call_id}")
async def result(run_id: str, call_id: str, context: ContextDep) -> Response:
    """Return the whole result of a call, of which the log may only have the beginning."""

    def work(connection: Connection, scope: TenantView) -> str:
        view = own_view(connection, scope, run_id)
        hidden = hidden_turns(view.run)
        for entry in view.log:
            seen = entry.event.observation if isinstance(entry.event, Observed) else None
            if seen is None or call_id not in (seen.call_id, client_call(run_id, seen.call_id)):
                continue
            if view.turn(entry) in hidden:
                break
            kept = find_call_text(connection, run_id, seen.call_id) if seen.size else None
            return seen.text if kept is None else unpack_text(kept)
        raise not_found("result", call_id)

    text = await context.read(work)
    headers = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox"}
    return Response(text.encode("utf-8", "replace"), media_type="text/plain; charset=utf-8", headers=headers)


@router.get("/{run_id}/events", responses=STREAMED)
async def events(
    run_id: str,
    context: ContextDep,
    after: _Number = 0,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 20,
    stream: bool = False,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Any:
    """List the events of a run's log after number `after`, oldest first; or stream them as they are committed."""
    prompts = sees_prompts(context.scope.scopes)
    if stream:
        context.begin_stream()
        run = await context.read(partial(own_run, id_=run_id), small=True)
        since = int(last_event_id) if last_event_id and last_event_id.isdecimal() and len(last_event_id) < 10 else after
        return event_stream(RunSession(context.server, run).follow(LogStream(run, since, prompts=prompts)))

    def work(connection: Connection, scope: TenantView) -> Any:
        found = read_run_after(connection, scope, run_id, after, limit)
        if found is None:
            raise not_found("run", run_id)
        view, more = found
        hidden = hidden_turns(view.run)
        shown = [event_object(entry, hidden=view.turn(entry) in hidden, prompts=prompts) for entry in view.log]
        return listed(shown, more)

    return await context.read(work)


@router.post("/{run_id}/submit_tool_outputs")
async def submit_tool_outputs(run_id: str, body: SubmitToolOutputs, context: ContextDep) -> Object:
    """Answer the calls that a run waits for, or decide on them. The run then goes on; repeating this has no effect."""

    def work(connection: Connection, scope: TenantView) -> tuple[RunRow, bool]:
        run = _top_run(connection, scope, run_id, "answer")
        return answer_as_client(connection, scope.author, run, body.outputs, context.server.options.run_ttl)

    run, new = await context.write(work)
    RunSession(context.server, run).begin(new=new)
    return summary_object(run)


@router.post("/{run_id}/cancel")
async def cancel(run_id: str, context: ContextDep) -> Object:
    """Cancel a run."""
    run = await context.write(
        lambda connection, scope: cancel_active(connection, scope.author, _top_run(connection, scope, run_id, "cancel"))
    )
    context.server.halted(run)
    return summary_object(run)


def _top_run(connection: Connection, scope: TenantView, run_id: str, act: str) -> RunRow:
    """Return the run, locked. Raises `ApiError` for a member's run, of which its caller would not be told."""
    run = own_run(connection, scope, run_id, lock=True)
    if run.parent_id is not None:
        raise ApiError(400, f"The run {run.id} was called by {run.root_id}: {act} that one.")
    return run


@router.get("/{run_id}/export")
async def export(run_id: str, context: ContextDep) -> Response:
    """Return a run with its log and the runs of its members as one JSON object. Keys without the scope `prompts` get it
    without the prompts."""
    shows = sees_prompts(context.scope.scopes)

    def withheld(run: RunRow, entry: Entry) -> Sequence[str]:
        return () if shows else withheld_fields(entry.event)

    def work(connection: Connection, scope: TenantView) -> bytes:
        run = own_run(connection, scope, run_id)
        check_shown(run)
        return json.dumps(export_run(connection, run, withheld), ensure_ascii=False).encode("utf-8", "replace")

    def tell(connection: Connection, scope: TenantView) -> None:
        run = own_run(connection, scope, run_id)
        record(connection, scope.author, scope.tenant, "run.exported", run.id, {"prompts": int(shows)})

    exported = await context.read(work)
    await context.write(tell)  # before anything of it is sent
    return Response(exported, media_type="application/json")


@router.post("/import")
async def import_(request: Request, context: ContextDep) -> Object:
    """Store an exported run under a new id, to be looked at. It is never driven, and nothing in it is executed."""
    body, scope = await request.body(), context.scope
    try:
        async with context.server.shares.large.rested(scope.tenant):
            found = await run_in_thread(
                lambda: imported_runs(parse_export(body), scope.tenant, scope.key_id, scope.user)
            )
    except DataError as error:
        raise ApiError(400, f"The run cannot be imported: {error}.") from error

    def work(connection: Connection, scope: TenantView) -> RunRow:
        run = import_runs(connection, found)
        record(connection, scope.author, scope.tenant, "run.imported", run.id)
        return run

    return summary_object(await context.write(work))
