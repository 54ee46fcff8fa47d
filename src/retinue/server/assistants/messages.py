"""`/threads/{id}/messages`: the messages of a thread."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter
from sqlalchemy import Connection

from ...store.run_queries import thread_holder
from ...store.tables import messages, threads
from ...store.tenant_view import Kept, TenantView
from ..context import ContextDep
from ..http.api_errors import ApiError, not_found
from ..http.ids import new_id
from ..http.lookup import Wanted, deletion_object, find_row, list_rows
from ..http.objects import Object, message_object
from ..http.request_body import JsonRoute
from .schemas import MessageCreate, MessageUpdate
from .tool_resources import attach_to_thread, bring_files, check_images

router = APIRouter(route_class=JsonRoute)


@router.post("/threads/{thread_id}/messages")
async def create_message(context: ContextDep, thread_id: str, given: MessageCreate) -> Object:
    """Create a message, unless a run is active on the thread."""

    def add(connection: Connection, scope: TenantView) -> Object:
        find_row(connection, scope, threads, thread_id, lock=True)
        if (run := thread_holder(connection, thread_id)) is not None:
            raise ApiError(400, f"Can't add messages to {thread_id} while a run {run.id} is active.")
        return message_object(add_messages(connection, scope, thread_id, [given])[0])

    made = await context.write(add)
    if bring_files([given]):
        context.server.indexing.wake()
    return made


@router.get("/threads/{thread_id}/messages")
async def list_messages(context: ContextDep, thread_id: str, page: Wanted, run_id: str | None = None) -> Object:
    """List a thread's messages, newest first. `run_id` selects those created by a run."""

    def read(connection: Connection, scope: TenantView) -> Object:
        find_row(connection, scope, threads, thread_id)
        where = [messages.c.thread_id == thread_id]
        if run_id is not None:
            where.append(messages.c.run_id == run_id)
        return list_rows(connection, scope, messages, page, message_object, *where)

    return await context.read(read)


@router.get("/threads/{thread_id}/messages/{message_id}")
async def retrieve_message(context: ContextDep, thread_id: str, message_id: str) -> Object:
    """Retrieve a message."""
    return await context.read(
        lambda connection, scope: message_object(_message(connection, scope, thread_id, message_id)),
    )


@router.post("/threads/{thread_id}/messages/{message_id}")
async def modify_message(context: ContextDep, thread_id: str, message_id: str, given: MessageUpdate) -> Object:
    """Replace a message's metadata."""

    def change(connection: Connection, scope: TenantView) -> Object:
        row = _message(connection, scope, thread_id, message_id, lock=True)
        if "metadata" in given.model_fields_set:
            body = {**row.body, "metadata": given.metadata or {}}
            row = scope.change(connection, messages, message_id, {"body": body}) or row
        return message_object(row)

    return await context.write(change)


@router.delete("/threads/{thread_id}/messages/{message_id}")
async def delete_message(context: ContextDep, thread_id: str, message_id: str) -> Object:
    """Delete a message."""

    def remove(connection: Connection, scope: TenantView) -> Object:
        _message(connection, scope, thread_id, message_id)
        scope.remove(connection, messages, messages.c.id == message_id)
        return deletion_object(message_id, "thread.message")

    return await context.write(remove)


def add_messages(
    connection: Connection, scope: TenantView, thread_id: str, given: Sequence[MessageCreate]
) -> list[Mapping[str, Any]]:
    """Add messages to an existing thread, within the caller's transaction. Return the values of their columns."""
    check_images(connection, scope, given)
    attach_to_thread(connection, scope, thread_id, given)
    now = int(time.time())
    same = {"created_at": now, "thread_id": thread_id, "run_id": None}
    added: list[Mapping[str, Any]] = [{**same, "id": new_id("msg"), "body": _body(one, now)} for one in given]
    for values in added:
        scope.insert(connection, messages, values)
    return added


def _message(connection: Connection, scope: TenantView, thread_id: str, message_id: str, *, lock: bool = False) -> Kept:
    find_row(connection, scope, threads, thread_id)
    row = find_row(connection, scope, messages, message_id, lock=lock)
    if row.thread_id != thread_id:
        raise not_found("message", message_id)
    return row


def _body(given: MessageCreate, now: int) -> dict[str, Any]:
    """Return the stored body of a message, without its ids."""
    sent = given.sent()
    content = sent["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {
        "role": given.role,
        "content": [_said(part) for part in parts],
        "assistant_id": given.assistant_id,
        "attachments": sent.get("attachments") or [],
        "metadata": given.metadata or {},
        "status": "completed",
        "completed_at": now,
        "incomplete_at": None,
        "incomplete_details": None,
    }


def _said(part: Object) -> Object:
    """Return a content part in its stored form, in which the text is an object."""
    if part["type"] == "text":
        return {"type": "text", "text": {"value": part["text"], "annotations": []}}
    kind = part["type"]
    return {"type": kind, kind: {"detail": "auto"} | part[kind]}
