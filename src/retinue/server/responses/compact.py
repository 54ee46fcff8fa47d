"""`POST /responses/compact`: packs a conversation into one item that can start another."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fastapi import APIRouter
from sqlalchemy import Connection

from ...core.values import Usage
from ...store.tenant_view import TenantView
from ..context import ContextDep
from ..conversations.compaction import TYPE, expand_compactions, make_secret, seal_compaction
from ..conversations.views import PREFIXES
from ..http.api_errors import ApiError
from ..http.objects import Object, new_id
from ..http.request_body import JsonRoute
from ..models.list import no_agent
from .client_functions import call_of
from .input import OUTPUTS, as_items, done_by_server, readable_items, words
from .response_lookup import found_items, previous_part, resolve_references
from .response_run import Continued, PriorContext, context_of
from .schemas import Compact
from .views import usage_object

router = APIRouter(prefix="/responses", route_class=JsonRoute)


@router.post("/compact")
async def compact(body: Compact, context: ContextDep) -> Object:
    """Pack the conversation, as a model sees it, into one item. No model is called: text is kept verbatim, and what a
    model does not see (reasoning, images) is left out."""
    if body.model not in (agents := context.server.deployment.agents):
        raise no_agent(body.model, agents)
    if body.input is None and body.previous_response_id is None:
        raise ApiError(400, "Missing required parameter: 'input'.", param="input", code="missing_required_parameter")

    found = await found_items(context, as_items(body.sent().get("input")))

    def work(connection: Connection, scope: TenantView) -> str:
        previous = previous_part(connection, scope, body.previous_response_id, context.own)
        items = readable_items(connection, scope, resolve_references(as_items(body.sent().get("input")), found))
        before = context_of(connection, scope, context.server, Continued(previous), items)
        said = expand_compactions(connection, scope.tenant, [*before.items, *items])
        return seal_compaction(connection, scope.tenant, [*_former(before), *_told(said)])

    await context.write(make_secret)
    item = {"id": new_id(PREFIXES[TYPE]), "type": TYPE, "encrypted_content": await context.read(work)}
    shown = {"id": new_id("resp"), "object": "response.compaction", "created_at": int(time.time())}
    return {**shown, "output": [item], "usage": usage_object(Usage())}


def _former(before: PriorContext) -> Iterator[Object]:
    """Yield the context before the request as items: rules and turns."""
    for rule in before.rules:
        yield {"type": "message", "role": "developer", "content": rule}
    for turn in before.turns:
        if turn["role"] == "tool":
            yield _output(turn["tool_call_id"], turn["content"])
            continue
        if turn["content"]:
            yield {"type": "message", "role": turn["role"], "content": turn["content"]}
        for call in turn.get("tool_calls", ()):
            yield _called(call["id"], call)


def _told(items: Iterable[Mapping[str, Any]]) -> Iterator[Object]:
    """Yield items in the form in which a model sees them."""
    for number, item in enumerate(items):
        match item["type"]:
            case "message":
                yield {"type": "message", "role": item["role"], "content": words(item["content"])}
            case _ if (function := call_of(item)) is not None:
                yield _called(item["call_id"], function)
            case kind if kind in OUTPUTS:
                yield _output(item["call_id"], words(item["output"]))
            case _ if (done := done_by_server(item)) is not None:
                id_ = str(item.get("id") or f"past_{number}")
                yield _called(id_, {"name": done.name, "arguments": done.arguments})
                yield _output(id_, done.output)


def _called(call_id: str, call: Mapping[str, Any]) -> Object:
    return {"type": "function_call", "call_id": call_id, "name": call["name"], "arguments": call["arguments"]}


def _output(call_id: str, text: str) -> Object:
    return {"type": "function_call_output", "call_id": call_id, "output": text}
