"""Chat completions requested with `store: true`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request
from sqlalchemy import Connection, func

from ...store.event_log import read_events, remove
from ...store.run_conversation import conversation_of
from ...store.run_row import RunRow
from ...store.tables import runs
from ...store.tenant_view import TenantView
from ..context import ContextDep
from ..wire.api_errors import ApiError, not_found
from ..wire.lookup import Rising, list_objects, list_rows
from ..wire.objects import Object
from ..wire.request_body import JsonRoute
from ..wire.validation import invalid_value
from .schemas import ChatUpdate
from .views import completion, completion_id

router = APIRouter(prefix="/chat/completions", route_class=JsonRoute)
_KEPT = (
    func.coalesce(runs.c.thread_id, "") == "",  # phrased so that no index over all tenants' threads is used
    runs.c.request["kind"].as_string() == "chat",
    runs.c.request["store"].as_boolean().is_(True),
    runs.c.status.in_(("completed", "incomplete")),
)
_METADATA = re.compile(r"metadata\[(.*)\]")


@router.get("")
async def list_all(context: ContextDep, request: Request, page: Rising, model: str | None = None) -> Object:
    """List the stored completions."""
    wanted = {found[1]: value for name, value in request.query_params.items() if (found := _METADATA.fullmatch(name))}
    if unusual := [name for name in wanted if '"' in name or "\\" in name]:
        raise invalid_value(
            "metadata", f"cannot filter by a name with a quotation mark or a backslash: {unusual[0]!r:.80}"
        )
    fitting = [runs.c.state["metadata"][name].as_string() == value for name, value in wanted.items()]
    if model is not None:
        fitting.append(runs.c.request["model"].as_string() == model)
    begin = page._replace(after=_run_id(page.after or ""))

    def work(connection: Connection, scope: TenantView) -> Object:
        return list_rows(
            connection, scope, runs, begin, lambda row: _stored(connection, RunRow.of(row)), *_KEPT, *fitting
        )

    return await context.read(work)


@router.get("/{completion_id}")
async def retrieve(completion_id: str, context: ContextDep) -> Object:
    """Retrieve a stored completion."""
    return await context.read(lambda connection, scope: _stored(connection, _found(connection, scope, completion_id)))


@router.post("/{completion_id}")
async def update(completion_id: str, body: ChatUpdate, context: ContextDep) -> Object:
    """Modify a stored completion's metadata."""

    def work(connection: Connection, scope: TenantView) -> Object:
        run = _found(connection, scope, completion_id)
        scope.change(connection, runs, run.id, {"state": {**run.state, "metadata": body.metadata or {}}})
        return _stored(connection, _found(connection, scope, completion_id))

    return await context.write(work)


@router.delete("/{completion_id}")
async def delete(completion_id: str, context: ContextDep) -> Object:
    """Delete a stored completion."""

    def work(connection: Connection, scope: TenantView) -> None:
        run = _found(connection, scope, completion_id)
        scope.remove(connection, runs, runs.c.id == run.id)
        remove(connection, [run.id])

    await context.write(work)
    return {"id": completion_id, "object": "chat.completion.deleted", "deleted": True}


@router.get("/{completion_id}/messages")
async def messages(completion_id: str, context: ContextDep, page: Rising) -> Object:
    """List the messages of a stored completion's request."""

    def asked(connection: Connection, scope: TenantView) -> Sequence[Mapping[str, Any]]:
        return conversation_of(connection, _found(connection, scope, completion_id)) or ()

    said = [
        {"id": f"{completion_id}-{number}", "role": one["role"], "content": one["content"], "content_parts": None}
        for number, one in enumerate(await context.read(asked))  # their content is text
    ]
    return list_objects(said, page)


def _found(connection: Connection, scope: TenantView, id_: str) -> RunRow:
    run_id = _run_id(id_)
    row = scope.find(connection, runs, run_id) if run_id else None
    if row is None or row.request.get("kind") != "chat" or not row.request.get("store"):
        raise not_found("chat completion", id_)
    return RunRow.of(row)


def _run_id(id_: str) -> str | None:
    """Return the run id in a completion's id, or `None`."""
    name = re.fullmatch(r"chatcmpl-([0-9a-f]{24})(x\d+)?", id_)
    return f"run_{name[1]}" if name else None


def _stored(connection: Connection, run: RunRow) -> Object:
    try:
        answer = completion(run, read_events(connection, run.id, int(run.state.get("told", 0))))
    except ApiError:
        answer = {"id": completion_id(run), "object": "chat.completion", "choices": []}
    return {**answer, "metadata": run.state.get("metadata") or {}}
