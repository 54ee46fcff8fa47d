"""Chat completions: each is a run of an agent. Those with `store: true` can be listed, read, changed and deleted.

`/completions` is OpenAI's first API, which some clients use by default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from sqlalchemy import Connection

from ...store.event_log import read_events
from ...store.run_belongings import conversation_of
from ...store.run_queries import RunFilter, delete_runs, find_own_run, page_runs, set_metadata
from ...store.run_row import RunRow
from ...store.tenant_view import TenantView
from ..context import ContextDep
from ..http.api_errors import ApiError, not_found
from ..http.common_schemas import MetadataUpdate
from ..http.objects import Object, Rising, WantedMetadata, list_objects, listed
from ..http.request_body import JsonRoute
from ..http.sse import STREAMED
from .chat_run import ChatRun, TextRun
from .projection import completion, completion_id
from .schemas import ChatCreate, CompletionCreate

router = APIRouter(route_class=JsonRoute)


@router.post("/chat/completions", responses=STREAMED)
async def create(
    body: ChatCreate, context: ContextDep, request: Request, x_retinue_thread: Annotated[str | None, Header()] = None
) -> Any:
    """Answer a conversation."""
    return await ChatRun(context, request, body, x_retinue_thread).respond()


@router.post("/completions", responses=STREAMED)
async def complete(body: CompletionCreate, context: ContextDep, request: Request) -> Any:
    """Complete a prompt."""
    return await TextRun(context, request, body.as_chat()).respond()


@router.get("/chat/completions")
async def list_all(context: ContextDep, page: Rising, wanted: WantedMetadata, model: str | None = None) -> Object:
    """List the stored completions."""
    ended = ("completed", "incomplete")
    fitting = RunFilter(threaded=False, kind="chat", stored=True, statuses=ended, agent=model, metadata=wanted)
    begin = page._replace(after=_run_id(page.after or ""))

    def work(connection: Connection, scope: TenantView) -> Object:
        found, more = page_runs(connection, scope, begin, fitting)
        return listed([_stored_object(connection, run) for run in found], more)

    return await context.read(work)


@router.get("/chat/completions/{completion_id}")
async def retrieve(completion_id: str, context: ContextDep) -> Object:
    """Retrieve a stored completion."""
    return await context.read(
        lambda connection, scope: _stored_object(connection, _find(connection, scope, completion_id))
    )


@router.post("/chat/completions/{completion_id}")
async def update(completion_id: str, body: MetadataUpdate, context: ContextDep) -> Object:
    """Modify a stored completion's metadata."""

    def work(connection: Connection, scope: TenantView) -> Object:
        run = _find(connection, scope, completion_id)
        return _stored_object(connection, set_metadata(connection, run, body.metadata or {}))

    return await context.write(work)


@router.delete("/chat/completions/{completion_id}")
async def delete(completion_id: str, context: ContextDep) -> Object:
    """Delete a stored completion."""

    def work(connection: Connection, scope: TenantView) -> None:
        delete_runs(connection, [_find(connection, scope, completion_id).id])

    await context.write(work)
    return {"id": completion_id, "object": "chat.completion.deleted", "deleted": True}


@router.get("/chat/completions/{completion_id}/messages")
async def messages(completion_id: str, context: ContextDep, page: Rising) -> Object:
    """List the messages of a stored completion's request."""

    def asked(connection: Connection, scope: TenantView) -> Sequence[Mapping[str, Any]]:
        return conversation_of(connection, _find(connection, scope, completion_id)) or ()

    said = [
        {"id": f"{completion_id}-{number}", "role": one["role"], "content": one["content"], "content_parts": None}
        for number, one in enumerate(await context.read(asked))  # their content is text
    ]
    return list_objects(said, page)


def _find(connection: Connection, scope: TenantView, id_: str) -> RunRow:
    run_id = _run_id(id_)
    run = find_own_run(connection, scope, run_id) if run_id else None
    if run is None or run.kind != "chat" or not run.stored:
        raise not_found("chat completion", id_)
    return run


def _run_id(id_: str) -> str | None:
    """Return the run id in a completion's id, or `None`."""
    name = re.fullmatch(r"chatcmpl-([0-9a-f]{24})(x\d+)?", id_)
    return f"run_{name[1]}" if name else None


def _stored_object(connection: Connection, run: RunRow) -> Object:
    try:
        answer = completion(run, read_events(connection, run.id, run.told))
    except ApiError:
        answer = {"id": completion_id(run), "object": "chat.completion", "choices": []}
    return {**answer, "metadata": run.metadata}
