"""`/responses`: creates responses, counts their input tokens, and compacts; retrieves, streams again, cancels and
deletes stored ones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy import Connection

from ...core.values import Usage
from ...store.run_queries import active_team, delete_runs, set_deleted
from ...store.run_row import RunRow
from ...store.tenant_view import TenantView
from ...store.usage_sums import add_to_sum, day_of, used_by
from ..agents.overrides import tools_of
from ..context import Context, ContextDep
from ..conversations.compaction import TYPE, choose_turns, make_secret, seal_compaction, summarize_turns
from ..conversations.items import PREFIXES, item_view
from ..http.api_errors import ApiError, missing_parameter
from ..http.objects import Include, Object, Wanted, list_objects, new_id
from ..http.request_body import JsonRoute
from ..http.sse import STREAMED, event_stream
from ..models.listing import no_agent
from ..run_session import RunSession, cancel_for, check_room
from .input import count_tokens, items_of_turns
from .projection import ResponseProjection
from .response import Part, usage_object
from .run import ResponseRequest, check_request, read_conversation_id, read_dialogue
from .schemas import Compact, InputTokens, ResponseCreate
from .stored import current_response, find_response

router = APIRouter(prefix="/responses", route_class=JsonRoute)
_CANCELLING = 10.0  # seconds that a request waits for a cancelled run to end


@router.post("", responses=STREAMED)
async def create(body: ResponseCreate, context: ContextDep, request: Request) -> Any:
    """Create a response."""
    return await ResponseRequest(context, request, body).respond()


@router.post("/input_tokens")
async def input_tokens(body: InputTokens, context: ContextDep, request: Request) -> Object:
    """Estimate the input tokens of such a response."""
    await check_request(body, context.server, request)
    dialogue = await read_dialogue(context, body, read_conversation_id(body))
    texts = [str(one["content"]) for one in dialogue.turns]
    tools = [str(tool) for tool in body.sent().get("tools") or ()]
    number = count_tokens([body.instructions or "", *dialogue.rules, *texts, *tools])
    return {"object": "response.input_tokens", "input_tokens": number}


@router.post("/compact")
async def compact(body: Compact, context: ContextDep) -> Object:
    """Pack the conversation, as a model sees it, into one item: a summary by the agent's model, the user's last words
    and the last turns. A short one is kept verbatim, and so is that of an agent whose hooks judge what its model is
    asked. What a model does not see (reasoning, images) is left out."""
    if body.model not in (agents := context.server.deployment.agents):
        raise no_agent(body.model, agents)
    if body.input is None and body.previous_response_id is None:
        raise missing_parameter("input")
    dialogue = await read_dialogue(context, body)
    rules = [{"type": "message", "role": "developer", "content": rule} for rule in dialogue.rules]
    agent, turns, usage = agents[body.model], dialogue.turns, Usage()
    if places := choose_turns(agent, turns):
        await context.write(check_room)
        turns, usage = await summarize_turns(agent, turns, places)
        await context.write(partial(_count_summary, usage=usage))
    packed = [*rules, *items_of_turns(turns)]
    await context.write(make_secret)
    content = await context.read(lambda connection, scope: seal_compaction(connection, scope.tenant, packed))
    item = {"id": new_id(PREFIXES[TYPE]), "type": TYPE, "encrypted_content": content}
    shown = {"id": new_id("resp"), "object": "response.compaction", "created_at": int(time.time())}
    return {**shown, "output": [item], "usage": usage_object(usage)}


def _count_summary(connection: Connection, scope: TenantView, usage: Usage) -> None:
    """Add what a summary used to the sums of the tenant."""
    add_to_sum(connection, scope.tenant, day_of(time.time()), scope.process, used_by(usage), scope.user)


# ── stored responses ─────────────────────────────────────────────────────────────────────────────


@router.get("/{response_id}", responses=STREAMED)
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
        part = await context.read(partial(find_response, id_=response_id))
        after = -1 if starting_after is None else starting_after
        tools = tools_of(context.server.deployment, part.run)
        progress = ResponseProjection(part, tools, include, after=after)
        return event_stream(RunSession(context.server, part.run).follow(progress))
    response.headers.update(context.server.poll_after())
    return await _read_response(context, response_id, include)


@router.delete("/{response_id}")
async def delete(response_id: str, context: ContextDep) -> Object:
    """Delete a response; if it is active, it is cancelled."""
    part = await context.read(partial(find_response, id_=response_id))
    if part.run.active and not part.over:
        await _halt(context, response_id)

    def work(connection: Connection, scope: TenantView) -> list[RunRow]:
        part = find_response(connection, scope, response_id, lock=True)
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


@router.post("/{response_id}/cancel")
async def cancel(response_id: str, context: ContextDep) -> Object:
    """Cancel a background response. Cancelling it again has no effect."""
    part = await context.read(partial(find_response, id_=response_id))
    if not part.asked["background"]:
        raise ApiError(400, "Cannot cancel a synchronous response.")
    shown = await _read_response(context, response_id)
    if shown["status"] == "cancelled":
        return shown
    if shown["status"] not in ("queued", "in_progress"):
        raise ApiError(400, f"Cannot cancel a {shown['status']} response.")
    await _halt(context, response_id)
    return await _read_response(context, response_id)


@router.get("/{response_id}/input_items")
async def input_items(response_id: str, context: ContextDep, page: Wanted, include: Include = ()) -> Object:
    """List the input items of a response."""
    part = await context.read(partial(find_response, id_=response_id))
    return list_objects([item_view(item, include) for item in part.input], page)


async def _read_response(context: Context, response_id: str, include: Sequence[str] = ()) -> Object:
    def work(connection: Connection, scope: TenantView) -> Object:
        part = find_response(connection, scope, response_id)
        return current_response(connection, context.server.deployment, part, include).now(part.run)

    return await context.read(work)


async def _halt(context: Context, response_id: str) -> None:
    """Cancel the run of a response, and wait until it has ended."""

    def work(connection: Connection, scope: TenantView) -> tuple[RunRow, int, RunRow | None]:
        part = find_response(connection, scope, response_id, lock=True)
        wanted = part.run.active and not part.over and part.run.status != "cancelling"
        return part.run, part.number, cancel_for(connection, scope.author, part.run) if wanted else None

    run, number, halted = await context.write(work)
    context.server.halted(halted)
    with suppress(TimeoutError):
        async with asyncio.timeout(_CANCELLING):
            await RunSession(context.server, run).rest(ResponseProjection(Part(run, number), {}))
