"""`/responses`: creates and streams responses, and counts their input tokens."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from sqlalchemy import Connection

from ..._internal.concurrency import run_in_thread
from ...store.run_row import RunRow
from ...store.tenant_view import TenantView
from ..agents.overrides import check_declared_tools, check_functions, tools_of
from ..content.message_files import FileLoader, take_in_files, take_in_history
from ..context import Context, ContextDep, Server
from ..conversations.compaction import expand_compactions
from ..http.api_errors import ApiError
from ..http.objects import Object
from ..http.request_body import JsonRoute
from ..http.sse import STREAMED, event_stream
from ..models.list import no_agent
from ..run_session import RunSession, error_of_run
from .client_functions import client_functions
from .input import as_items, count, places_of, readable_items, rules, turns
from .response_lookup import found_items, previous_part, resolve_references
from .response_parts import Part
from .response_projection import ResponseProjection
from .response_run import Continued, Found, context_of, conversation_named, start_response, stored_places
from .response_stream import ResponseEvents
from .schemas import InputTokens, ResponseCreate

router = APIRouter(prefix="/responses", route_class=JsonRoute)


@router.post("", responses=STREAMED)
async def create(body: ResponseCreate, context: ContextDep, request: Request) -> Any:
    """Create a response."""
    await _check(body, context.server, request)
    found = await _found(body, context)

    def work(connection: Connection, scope: TenantView) -> tuple[RunRow, int, bool, RunRow | None]:
        made = start_response(connection, scope, context.server, body, found, context.own)
        return made.part.run, made.part.number, made.new, made.halted

    run, number, new, halted = await context.write(work)
    part = Part(run, number)
    lasting = body.background or context.repeat is not None  # else it is cancelled with its connection, as at OpenAI
    session = RunSession(context.server, run, lasting=lasting)
    session.begin(new=new, halted=halted)
    if body.stream:
        return event_stream(session.follow(ResponseEvents(context.server, part)))
    if body.background:
        return ResponseProjection(part, {}).now(run)
    return await _ended(context, part, request, session)


@router.post("/input_tokens")
async def input_tokens(body: InputTokens, context: ContextDep, request: Request) -> Object:
    """Estimate the input tokens of such a response."""
    await _check(body, context.server, request)
    sent = body.sent()
    found = await found_items(context, as_items(sent.get("input")), conversation_named(body))

    def work(connection: Connection, scope: TenantView) -> int:
        conversation_id = conversation_named(body)
        previous = previous_part(connection, scope, body.previous_response_id)
        items = resolve_references(as_items(sent.get("input")), found)
        before = context_of(connection, scope, context.server, Continued(previous, conversation_id), items)
        said = expand_compactions(connection, scope.tenant, [*before.items, *readable_items(connection, scope, items)])
        texts = [one["content"] for one in (*before.turns, *turns(said))]
        tools = [str(tool) for tool in sent.get("tools") or ()]
        return count([body.instructions or "", *before.rules, *rules(said), *texts, *tools])

    return {"object": "response.input_tokens", "input_tokens": await context.read(work)}


async def _check(body: InputTokens, server: Server, request: Request) -> None:
    """Raise `ApiError` for parameters that are invalid whatever the context."""
    agents = server.deployment.agents
    name = body.model or next(iter(agents))
    if name not in agents:
        raise no_agent(name, agents)
    tools = body.sent().get("tools") or ()
    check_declared_tools(tools, name, agents[name], request.headers.get("host", ""))
    if functions := client_functions(tools):
        placed = [(f"tools[{one.number}]", one.function) for one in functions]
        await run_in_thread(check_functions, agents[name], placed)
    if body.input is None and body.previous_response_id is None and body.conversation is None:
        raise ApiError(400, "Missing required parameter: 'input'.", param="input", code="missing_required_parameter")
    if isinstance(body, ResponseCreate) and body.background and body.store is False:
        raise ApiError(400, "Background responses must be stored: 'store' must be true.", param="background")


async def _found(body: ResponseCreate, context: Context) -> Found:
    """Return the items that a request refers to, and the images of its input and of its conversation."""
    agents = context.server.deployment.agents
    agent, given = agents[body.model or next(iter(agents))], as_items(body.sent().get("input"))
    conversation = conversation_named(body)
    items = await found_items(context, given, conversation)
    shown = dict(await take_in_files(context, agent, places_of(resolve_references(given, items))))
    if conversation is not None:
        there = await context.read(partial(stored_places, conversation_id=conversation))
        shown = {**await take_in_history(FileLoader.of(context), agent, there), **shown}
    return Found(items, shown)


async def _ended(context: Context, part: Part, request: Request, session: RunSession) -> Object:
    """Return the response once it has ended."""
    progress = ResponseProjection(part, tools_of(context.server.deployment, part.run))
    run = await session.wait(progress, request)
    response = progress.now(run)
    if run.suspended or response["status"] in ("failed", "cancelled"):
        raise await error_of_run(context.server, run)
    return response
