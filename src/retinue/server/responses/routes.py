"""`/responses`: creates and streams responses, and counts their input tokens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import aclosing, suppress
from typing import Any

from fastapi import APIRouter, Request
from sqlalchemy import Connection

from ...errors import RetinueError
from ...store.run_row import RunRow
from ...store.tenant_view import TenantView
from .. import declared_tools
from ..context import Context, ContextDep, Server
from ..conversations.compaction import expand_compactions
from ..overrides import tools_of
from ..run_failure import error_of_run
from ..wire.api_errors import ApiError, no_model, run_failed_error
from ..wire.client_disconnect import wait_for_disconnect
from ..wire.objects import Object
from ..wire.request_body import JsonRoute
from ..wire.sse import STREAMED, event_stream, frame
from .input import as_items, count, readable_items, rules, turns
from .response_lookup import found_items, previous_part, resolve_references
from .response_parts import Part
from .response_projection import ResponseProjection
from .response_run import context_of, conversation_named, start_response
from .schemas import InputTokens, ResponseCreate

router = APIRouter(prefix="/responses", route_class=JsonRoute)


@router.post("", responses=STREAMED)
async def create(body: ResponseCreate, context: ContextDep, request: Request) -> Any:
    """Create a response."""
    _check(body, context.server, request)
    found = await found_items(context, as_items(body.sent().get("input")), conversation_named(body))

    def work(connection: Connection, scope: TenantView) -> tuple[RunRow, int, bool, RunRow | None]:
        made = start_response(connection, scope, context.server, body, found, context.own)
        return made.part.run, made.part.number, made.new, made.halted

    run, number, new, halted = await context.write(work)
    part = Part(run, number)
    context.server.halted(halted)
    if new:
        context.server.runs.start(run.id, run)
    lasting = part.stored or context.repeat is not None  # otherwise nobody can come back to it
    if body.stream:
        return event_stream(response_events(context.server, part, lasting=lasting))
    if body.background:
        return ResponseProjection(part, {}).now(run)
    return await _ended(context, part, request, lasting=lasting)


@router.post("/input_tokens")
async def input_tokens(body: InputTokens, context: ContextDep, request: Request) -> Object:
    """Estimate the input tokens of such a response."""
    _check(body, context.server, request)
    sent = body.sent()
    found = await found_items(context, as_items(sent.get("input")), conversation_named(body))

    def work(connection: Connection, scope: TenantView) -> int:
        conversation_id = conversation_named(body)
        previous = previous_part(connection, scope, body.previous_response_id)
        items = resolve_references(as_items(sent.get("input")), found)
        before = context_of(connection, scope, context.server, previous, conversation_id, items)
        said = expand_compactions(connection, scope.tenant, [*before.items, *readable_items(connection, scope, items)])
        texts = [one["content"] for one in (*before.turns, *turns(said))]
        tools = [str(tool) for tool in sent.get("tools") or ()]
        return count([body.instructions or "", *before.rules, *rules(said), *texts, *tools])

    return {"object": "response.input_tokens", "input_tokens": await context.read(work)}


def _check(body: InputTokens, server: Server, request: Request) -> None:
    """Raise `ApiError` for parameters that are invalid whatever the context."""
    agents = server.deployment.agents
    name = body.model or next(iter(agents))
    if name not in agents:
        raise no_model(name)
    declared_tools.check(body.sent().get("tools") or (), name, agents[name], request.headers.get("host", ""))
    if body.input is None and body.previous_response_id is None and body.conversation is None:
        raise ApiError(400, "Missing required parameter: 'input'.", param="input", code="missing_required_parameter")
    if isinstance(body, ResponseCreate) and body.background and body.store is False:
        raise ApiError(400, "Background responses must be stored: 'store' must be true.", param="background")


async def response_events(
    server: Server, part: Part, after: int = -1, *, lasting: bool = True, include: Collection[str] = ()
) -> AsyncIterator[str]:
    """Yield the events of a response numbered above `after`, until it ends. A response that is not `lasting` is
    cancelled when its reader disconnects. `include` adds to that of its request."""
    progress = ResponseProjection(part, tools_of(server.deployment, part.run), include)
    items = server.runs.followers.follow(part.run.id, request=part.run.request)
    try:
        async for item in items:
            for event in (one for one in progress.tell(item) if one["sequence_number"] > after):
                yield frame(event, event["type"])
            if progress.last is not None:
                break
            if isinstance(item, RunRow) and item.parked:
                raise run_failed_error(item)
    except (RetinueError, ApiError) as error:
        problem = (error if isinstance(error, ApiError) else ApiError(500, str(error), kind="server_error")).body
        yield frame({"type": "error", "sequence_number": progress.told, **problem["error"], **problem}, "error")
    finally:
        if progress.last is None and not lasting:
            server.runs.interrupt(part.run.id)
        await items.aclose()


async def _ended(context: Context, part: Part, request: Request, *, lasting: bool) -> Object:
    """Return the response once it has ended; one that is not `lasting` is cancelled if the client disconnects."""
    watch = asyncio.create_task(wait_for_disconnect(request))
    following = asyncio.create_task(until_over(context.server, part))
    try:
        await asyncio.wait([watch, following], return_when=asyncio.FIRST_COMPLETED)
        if not following.done() and not lasting:
            context.server.runs.interrupt(part.run.id)
        progress, run = await following
    finally:
        for task in (watch, following):
            task.cancel()
        with suppress(asyncio.CancelledError):
            await watch
    response = progress.now(run)
    if run.parked or response["status"] in ("failed", "cancelled"):
        raise await error_of_run(context.server, run)
    return response


async def until_over(server: Server, part: Part) -> tuple[ResponseProjection, RunRow]:
    """Return the finished response and the final row of its run, or what there is when the run is set aside."""
    progress, run = ResponseProjection(part, tools_of(server.deployment, part.run)), part.run
    async with aclosing(server.runs.followers.follow(run.id, listens=False, request=run.request)) as items:
        async for item in items:
            list(progress.tell(item))
            run = item if isinstance(item, RunRow) else run
            if progress.last is not None or run.parked:
                break
    return progress, run
