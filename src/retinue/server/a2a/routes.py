"""A2A's routes: agent cards, which anybody may read; and the operations, over HTTP+JSON and over JSON-RPC 2.0."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import ValidationError

from ..context import Context, ContextDep
from ..http.api_errors import parameter_path
from ..http.objects import Object
from ..http.request_body import json_in
from ..http.sse import event_stream, frame
from .errors import KNOWN, A2AError, Reason, a2a_error
from .operations import OPERATIONS, Call, agent_card

_AGENT = "/a2a/{agent:path}"
_CARD = "/.well-known/agent-card.json"
_BEGINNING = ("SendMessage", "SendStreamingMessage")


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


@router.get(_CARD)
async def only_card(request: Request) -> Response:
    """The card of the only agent."""
    deployment = request.app.state.server.deployment
    if deployment.only is None:
        there = ", ".join(f"/a2a/{name}{_CARD}" for name in deployment.agents)
        said = f"This server has several agents, each with a card of its own: {there}."
        raise A2AError(Reason.AGENT_NOT_FOUND, said)
    return await card(deployment.only, request)


@router.get(f"{_AGENT}{_CARD}")
async def card(agent: str, request: Request) -> Response:
    """An agent's card."""
    agents = request.app.state.server.deployment.agents
    if agent not in agents:
        raise _no_agent(agent)
    found = agent_card(request, agent, agents[agent])
    return JSONResponse(found, headers={"Cache-Control": "max-age=60"})


def _no_agent(name: str) -> A2AError:
    return A2AError(Reason.AGENT_NOT_FOUND, f"The agent '{name}' does not exist.")


# ── HTTP+JSON ────────────────────────────────────────────────────────────────────────────────────


def _frame_alone(given: Any, name: str) -> str:
    return frame(given.body, "error") if isinstance(given, A2AError) else frame({name: given})


def _serve(method: str, path: str, name: str) -> None:
    """Add the route of an operation. What it takes is in the body of a message, else in the path and the query."""

    async def answer(agent: str, request: Request, context: ContextDep) -> Response:
        _check_agent(agent, context)
        _check_version(request)
        call = Call(context, request, agent, _frame_alone)
        if name in _BEGINNING:
            given = await json_in(await request.body(), context.server, context.scope.tenant)
        else:
            given = {**request.query_params, **request.path_params}
        result = await _perform(call, name, given)
        if isinstance(result, Response):
            return result
        return JSONResponse(result, media_type="application/a2a+json")

    router.add_api_route(f"{_AGENT}/{path}", answer, methods=[method])


_serve("POST", "message:send", "SendMessage")
_serve("POST", "message:stream", "SendStreamingMessage")
_serve("POST", "tasks/{id}:cancel", "CancelTask")
_serve("GET", "tasks/{id}:subscribe", "SubscribeToTask")
_serve("POST", "tasks/{id}:subscribe", "SubscribeToTask")
_serve("GET", "tasks/{id}/pushNotificationConfigs", "ListTaskPushNotificationConfigs")
_serve("POST", "tasks/{id}/pushNotificationConfigs", "CreateTaskPushNotificationConfig")
_serve("GET", "tasks/{id}/pushNotificationConfigs/{config_id}", "GetTaskPushNotificationConfig")
_serve("DELETE", "tasks/{id}/pushNotificationConfigs/{config_id}", "DeleteTaskPushNotificationConfig")
_serve("GET", "tasks/{id}", "GetTask")
_serve("GET", "tasks", "ListTasks")
_serve("GET", "extendedAgentCard", "GetExtendedAgentCard")


async def _perform(call: Call, name: str, given: Any) -> Object | Response:
    """Return the result of an operation, or the response that streams it. Raises `A2AError`."""
    kind, work = OPERATIONS[name]
    try:
        asked = kind.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = parameter_path(("params", *first["loc"]))
        raise A2AError(Reason.INVALID_PARAMS, f"{where or 'params'}: {first['msg']}.") from None
    result = await work(call, asked)
    return result if isinstance(result, dict) else event_stream(result)


def _check_agent(agent: str, context: Context) -> None:
    if agent not in context.server.deployment.agents:
        raise _no_agent(agent)


def _check_version(request: Request) -> None:
    """Raise `A2AError` unless the request is in version 1 of the protocol; without the header it would be in 0.3."""
    said = request.headers.get("a2a-version") or request.query_params.get("A2A-Version") or "0.3"
    if said.split(".")[0] != "1":
        known = "this server speaks 1.0 (send the header 'A2A-Version: 1.0')"
        raise A2AError(Reason.VERSION_NOT_SUPPORTED, f"A2A version {said[:20]} is not supported; {known}.")


# ── JSON-RPC ─────────────────────────────────────────────────────────────────────────────────────


@router.post(_AGENT)
async def json_rpc(agent: str, request: Request, context: ContextDep) -> Response:
    """Any operation, as JSON-RPC. Errors are answers, too."""
    _check_agent(agent, context)
    head: Object = {"jsonrpc": "2.0", "id": None}

    def frame_in_rpc(given: Any, name: str) -> str:
        told = {"error": given.rpc_error} if isinstance(given, A2AError) else {"result": {name: given}}
        return frame({**head, **told})

    try:
        body = await json_in(await request.body(), context.server, context.scope.tenant)
        given = body.get("id") if isinstance(body, dict) else None
        if isinstance(given, str | int) and not isinstance(given, bool):
            head["id"] = given
        name, params = _read_call(body)
        _check_version(request)
        if name in _BEGINNING:
            context.admission.begin_run()
        result = await _perform(Call(context, request, agent, frame_in_rpc), name, params)
    except KNOWN as error:
        told = a2a_error(error)
        return JSONResponse({**head, "error": told.rpc_error}, told.rpc_status, told.headers)
    return result if isinstance(result, Response) else JSONResponse({**head, "result": result})


def _read_call(body: Any) -> tuple[str, Any]:
    """Return the method and parameters of a request. Raises `A2AError`."""
    if not isinstance(body, dict) or body.get("jsonrpc") != "2.0" or not isinstance(body.get("method"), str):
        wanted = '{"jsonrpc": "2.0", "id": …, "method": "SendMessage", "params": {…}}'
        raise A2AError(Reason.INVALID_REQUEST, f"Expected one JSON-RPC request, such as {wanted}.")
    method: str = body["method"]
    if method not in OPERATIONS:
        said = f"There is no method '{method[:100]}'; A2A 1.0 has: {', '.join(OPERATIONS)}."
        raise A2AError(Reason.METHOD_NOT_FOUND, said)
    return method, body.get("params") or {}
