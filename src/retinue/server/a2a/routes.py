"""A2A's routes: agent cards, which anybody may read; HTTP+JSON; and JSON-RPC."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from ..context import Context, ContextDep
from ..http.objects import Object
from ..http.request_body import json_in
from ..http.sse import event_stream
from . import operations
from .a2a_errors import A2AError, a2a_error
from .agent_card import WELL_KNOWN, agent_card
from .json_rpc import KNOWN, answer_rpc, check_version, parsed
from .operations import Call
from .schemas import ListTasks, Nothing, SendMessage, TaskQuery
from .task_stream import framed_alone

_AGENT = "/a2a/{agent:path}"
_CACHED = {"Cache-Control": "max-age=60"}


class A2ARoute(APIRoute):
    """A route whose errors are A2A's."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler, with errors in A2A's form."""
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handle(request)
            except KNOWN as error:
                told = a2a_error(error)
                return JSONResponse(told.body, told.status, told.headers)

        return handled


router = APIRouter(include_in_schema=False, route_class=A2ARoute)


async def _call(agent: str, request: Request, context: ContextDep) -> Call:
    _known_agent(agent, context)
    return Call(context, request, agent)


async def _versioned(agent: str, request: Request, context: ContextDep) -> Call:
    call = await _call(agent, request, context)
    check_version(call)
    return call


def _known_agent(agent: str, context: Context) -> None:
    if agent not in context.server.deployment.agents:
        raise _no_agent(agent)


def _no_agent(name: str) -> A2AError:
    return A2AError("AGENT_NOT_FOUND", f"The agent '{name}' does not exist.")


CallDep = Annotated[Call, Depends(_call)]
VersionedCall = Annotated[Call, Depends(_versioned)]


@router.get(WELL_KNOWN)
async def only_card(request: Request) -> Response:
    """The card of the only agent."""
    deployment = request.app.state.server.deployment
    if (name := deployment.only) is None:
        there = ", ".join(f"/a2a/{name}{WELL_KNOWN}" for name in deployment.agents)
        raise A2AError("AGENT_NOT_FOUND", f"This server has several agents, each with a card of its own: {there}.")
    return _card(request, name)


@router.get(f"{_AGENT}{WELL_KNOWN}")
async def card(agent: str, request: Request) -> Response:
    """An agent's card."""
    return _card(request, agent)


def _card(request: Request, name: str) -> Response:
    agents = request.app.state.server.deployment.agents
    if name not in agents:
        raise _no_agent(name)
    return JSONResponse(agent_card(str(request.base_url), name, agents[name]), headers=_CACHED)


@router.post(f"{_AGENT}/message:send")
async def send(call: VersionedCall) -> Response:
    """Send a message."""
    return _told(await operations.send_message(call, await _body(call)))


@router.post(f"{_AGENT}/message:stream")
async def stream(call: VersionedCall) -> Response:
    """Send a message, and stream what follows."""
    return event_stream(await operations.stream_message(call, await _body(call), framed_alone))


@router.post(f"{_AGENT}/tasks/{{task_id}}:cancel")
async def cancel(call: VersionedCall, task_id: str) -> Response:
    """Cancel a task."""
    return _told(await operations.cancel_task(call, parsed(TaskQuery, {"id": task_id})))


@router.get(f"{_AGENT}/tasks/{{task_id}}:subscribe")
@router.post(f"{_AGENT}/tasks/{{task_id}}:subscribe")
async def subscribe(call: VersionedCall, task_id: str) -> Response:
    """Stream the updates of a task."""
    return event_stream(await operations.subscribe(call, parsed(TaskQuery, {"id": task_id}), framed_alone))


@router.api_route(f"{_AGENT}/tasks/{{task_id}}/pushNotificationConfigs", methods=["GET", "POST"])
@router.api_route(f"{_AGENT}/tasks/{{task_id}}/pushNotificationConfigs/{{config_id}}", methods=["GET", "DELETE"])
async def push_notifications(call: VersionedCall) -> Response:
    """Refused."""
    return _told(await operations.no_push_notifications(call, Nothing()))


@router.get(f"{_AGENT}/tasks/{{task_id}}")
async def task(call: VersionedCall, task_id: str) -> Response:
    """Retrieve a task."""
    return _told(await operations.get_task(call, parsed(TaskQuery, {**_query(call), "id": task_id})))


@router.get(f"{_AGENT}/tasks")
async def tasks(call: VersionedCall) -> Response:
    """List tasks."""
    return _told(await operations.list_tasks(call, parsed(ListTasks, _query(call))))


@router.get(f"{_AGENT}/extendedAgentCard")
async def extended_card(call: VersionedCall) -> Response:
    """The agent's card, for clients with a key."""
    return _told(await operations.extended_card(call, Nothing()))


@router.post(_AGENT)
async def json_rpc(call: CallDep) -> Response:
    """Any operation, as JSON-RPC."""
    return await answer_rpc(call)


async def _body(call: Call) -> SendMessage:
    given = await json_in(await call.request.body(), call.context.server, call.context.scope.tenant)
    message: SendMessage = parsed(SendMessage, given)
    return message


def _query(call: Call) -> Mapping[str, str]:
    return dict(call.request.query_params)


def _told(result: Object) -> Response:
    return JSONResponse(result, media_type="application/a2a+json")
