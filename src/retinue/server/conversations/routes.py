"""`/conversations`: the input and output items of successive responses."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field
from sqlalchemy import Connection

from ...store.memory_states import forget_thread
from ...store.run_queries import thread_holder
from ...store.tables import conversations, items
from ...store.tenant_view import Kept, TenantView
from ..context import ContextDep
from ..http.api_errors import ApiError
from ..http.common_schemas import MetadataUpdate, Wire
from ..http.objects import Include, Object, Wanted, deletion_object, list_rows, listed, new_id
from ..http.request_body import JsonRoute
from .items import append_items, find_conversation, find_item, item_view, locked_conversation
from .schemas import InputItem

router = APIRouter(prefix="/conversations", route_class=JsonRoute)


class ConversationCreate(MetadataUpdate):
    """`POST /conversations`."""

    items: Annotated[list[InputItem], Field(max_length=20)] | None = None


class ItemsCreate(Wire):
    """`POST /conversations/{id}/items`."""

    items: Annotated[list[InputItem], Field(min_length=1, max_length=20)]


@router.post("")
async def create_conversation(context: ContextDep, given: ConversationCreate | None = None) -> Object:
    """Create a conversation with its first items."""
    given = given or ConversationCreate()

    def add(connection: Connection, scope: TenantView) -> Object:
        values = {"id": new_id("conv"), "created_at": int(time.time()), "body": {"metadata": given.metadata or {}}}
        row = scope.add(connection, conversations, values)
        append_items(connection, scope, row.id, [one.sent() for one in given.items or ()])
        return _conversation_object(row)

    return await context.write(add)


@router.get("/{conversation_id}")
async def retrieve_conversation(context: ContextDep, conversation_id: str) -> Object:
    """Retrieve a conversation."""
    return await context.read(
        lambda connection, scope: _conversation_object(find_conversation(connection, scope, conversation_id))
    )


@router.post("/{conversation_id}")
async def update_conversation(context: ContextDep, conversation_id: str, given: MetadataUpdate) -> Object:
    """Replace a conversation's metadata."""

    def change(connection: Connection, scope: TenantView) -> Object:
        row = find_conversation(connection, scope, conversation_id, lock=True)
        if "metadata" in given.model_fields_set:
            body = {**row.body, "metadata": given.metadata or {}}
            row = scope.change(connection, conversations, conversation_id, {"body": body}) or row
        return _conversation_object(row)

    return await context.write(change)


@router.delete("/{conversation_id}")
async def delete_conversation(context: ContextDep, conversation_id: str) -> Object:
    """Delete a conversation and its items."""

    def remove(connection: Connection, scope: TenantView) -> Object:
        _lock_idle(connection, scope, conversation_id)
        scope.remove(connection, conversations, conversations.c.id == conversation_id)
        forget_thread(connection, scope.tenant, conversation_id)
        return deletion_object(conversation_id, "conversation")

    return await context.write(remove)


@router.get("/{conversation_id}/items")
async def list_items(context: ContextDep, conversation_id: str, page: Wanted, include: Include = ()) -> Object:
    """List a conversation's items, newest first."""

    def read(connection: Connection, scope: TenantView) -> Object:
        find_conversation(connection, scope, conversation_id)
        ends = (end and find_item(connection, scope, conversation_id, end) for end in (page.after, page.before))
        after, before = (row.id if row else None for row in ends)
        asked = page._replace(after=after, before=before)
        mine = items.c.conversation_id == conversation_id
        return list_rows(connection, scope, items, asked, lambda row: item_view(row.body, include), mine)

    return await context.read(read)


@router.post("/{conversation_id}/items")
async def create_items(context: ContextDep, conversation_id: str, given: ItemsCreate, include: Include = ()) -> Object:
    """Add items to a conversation, and return them as stored."""

    def add(connection: Connection, scope: TenantView) -> Object:
        _lock_idle(connection, scope, conversation_id)
        added = append_items(connection, scope, conversation_id, [one.sent() for one in given.items])
        return listed([item_view(one, include) for one in added], False)

    return await context.write(add)


@router.get("/{conversation_id}/items/{item_id}")
async def retrieve_item(context: ContextDep, conversation_id: str, item_id: str, include: Include = ()) -> Object:
    """Retrieve an item."""

    def read(connection: Connection, scope: TenantView) -> Object:
        find_conversation(connection, scope, conversation_id)
        return item_view(_get_item(connection, scope, conversation_id, item_id).body, include)

    return await context.read(read)


@router.delete("/{conversation_id}/items/{item_id}")
async def delete_item(context: ContextDep, conversation_id: str, item_id: str) -> Object:
    """Delete an item, and return the conversation."""

    def remove(connection: Connection, scope: TenantView) -> Object:
        row = _lock_idle(connection, scope, conversation_id)
        scope.remove(connection, items, items.c.id == _get_item(connection, scope, conversation_id, item_id).id)
        return _conversation_object(row)

    return await context.write(remove)


def _lock_idle(connection: Connection, scope: TenantView, conversation_id: str) -> Kept:
    """Return the row of a conversation without an active run, which may be changed. A run that waits for its client or
    a person does not count as active."""
    row = find_conversation(connection, scope, conversation_id, lock=True)
    run = thread_holder(connection, conversation_id)
    if run is not None and run.status != "requires_action":
        raise locked_conversation()
    return row


def _get_item(connection: Connection, scope: TenantView, conversation_id: str, item_id: str) -> Kept:
    row = find_item(connection, scope, conversation_id, item_id)
    if row is None:
        raise ApiError(404, f"Item with id '{item_id}' not found.")
    return row


def _conversation_object(row: Kept) -> Object:
    return {"id": row.id, "object": "conversation", "created_at": row.created_at, **row.body}
