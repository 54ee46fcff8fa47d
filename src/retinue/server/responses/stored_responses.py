"""Stored responses: retrieves, streams again, cancels and deletes them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from sqlalchemy import Connection

from ...store.run_queries import active_team, delete_runs, set_deleted
from ...store.run_row import RunRow
from ...store.tenant_view import TenantView
from ..context import Context, ContextDep
from ..conversations.views import item_view
from ..http.api_errors import ApiError
from ..http.objects import Include, Object, Wanted, list_objects
from ..http.request_body import JsonRoute
from ..http.sse import STREAMED, event_stream
from ..run_session import RunSession, cancel_for
from .response_lookup import current_response, found_response
from .response_parts import Part
from .response_projection import ResponseProjection
from .response_stream import ResponseEvents

router = APIRouter(prefix="/responses/{response_id}", route_class=JsonRoute)
_CANCELLING = 10.0  # seconds that a request waits for a cancelled run to end


@router.get("", responses=STREAMED)
async def retrieve(
    response_id: str,
    context: ContextDep,
    response: Response,
    stream: bool = False,
    starting_after: Annotated[int, Query(ge=0)] | None = None,
    include: Include = (),
) -> Any:
    """Retrieve a response, or stream its events after `starting_after`."""
    if stream:
        context.begin_stream()
        part = await context.read(partial(found_response, id_=response_id))
        after = -1 if starting_after is None else starting_after
        return event_stream(
            RunSession(context.server, part.run).follow(ResponseEvents(context.server, part, after, include))
        )
    response.headers.update(context.server.poll_after())
    return await _shown(context, response_id, include)


@router.delete("")
async def delete(response_id: str, context: ContextDep) -> Object:
    """Delete a response; if it is active, it is cancelled."""
    part = await context.read(partial(found_response, id_=response_id))
    if part.run.active and not part.over:
        await _halt(context, response_id)

    def work(connection: Connection, scope: TenantView) -> list[RunRow]:
        part = found_response(connection, scope, response_id, lock=True)
        gone = {*part.run.deleted, part.number}
        if len(gone) <= len(part.run.submissions):  # the run has other responses
            set_deleted(connection, part.run, sorted(gone))
            return []
        members = active_team(connection, part.run.id)
        delete_runs(connection, [part.run.id])
        return members

    for member in await context.write(work):
        context.server.runs.interrupt(member.id)
    return {"id": response_id, "object": "response", "deleted": True}


@router.post("/cancel")
async def cancel(response_id: str, context: ContextDep) -> Object:
    """Cancel a background response. Cancelling it again has no effect."""
    part = await context.read(partial(found_response, id_=response_id))
    if not part.asked["background"]:
        raise ApiError(400, "Cannot cancel a synchronous response.")
    shown = await _shown(context, response_id)
    if shown["status"] == "cancelled":
        return shown
    if shown["status"] not in ("queued", "in_progress"):
        raise ApiError(400, f"Cannot cancel a {shown['status']} response.")
    await _halt(context, response_id)
    return await _shown(context, response_id)


@router.get("/input_items")
async def input_items(response_id: str, context: ContextDep, page: Wanted, include: Include = ()) -> Object:
    """List the input items of a response."""
    part = await context.read(partial(found_response, id_=response_id))
    return list_objects([item_view(item, include) for item in part.input], page)


async def _shown(context: Context, response_id: str, include: Sequence[str] = ()) -> Object:
    def work(connection: Connection, scope: TenantView) -> Object:
        part = found_response(connection, scope, response_id)
        return current_response(connection, context.server.deployment, part, include).now(part.run)

    return await context.read(work)


async def _halt(context: Context, response_id: str) -> None:
    """Cancel the run of a response, and wait until it has ended."""

    def work(connection: Connection, scope: TenantView) -> tuple[RunRow, int, RunRow | None]:
        part = found_response(connection, scope, response_id, lock=True)
        wanted = part.run.active and not part.over and part.run.status != "cancelling"
        return part.run, part.number, cancel_for(connection, scope.author, part.run) if wanted else None

    run, number, halted = await context.write(work)
    part = Part(run, number)
    context.server.halted(halted)
    with suppress(TimeoutError):
        async with asyncio.timeout(_CANCELLING):
            await RunSession(context.server, run).rest(ResponseProjection(part, {}))
