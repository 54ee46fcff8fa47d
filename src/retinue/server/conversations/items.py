"""Storage of conversation items, in insertion order."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, insert, select

from ...store.tables import conversations, items
from ...store.tenant_view import Kept, Page, TenantView
from ..http.api_errors import ApiError
from ..http.objects import Object, new_id
from .compaction import TYPE, expand_compactions
from .schemas import kind_of
from .views import PREFIXES, stored_item


def found_conversation(connection: Connection, scope: TenantView, conversation_id: str, *, lock: bool = False) -> Kept:
    """Return the row of this conversation, locked as `TenantView.find` does. Raises `ApiError` (404) if it does not
    exist."""
    row = scope.find(connection, conversations, conversation_id, lock=lock)
    if row is None:
        raise ApiError(404, f"Conversation with id '{conversation_id}' not found.")
    return row


def find_item(connection: Connection, scope: TenantView, conversation_id: str, item_id: str) -> Kept | None:
    """Return the row of the item that clients know by this id, or `None`."""
    where = (items.c.conversation_id == conversation_id, items.c.item_id == item_id)
    rows, _ = scope.page(connection, items, Page(1), *where)
    return rows[0] if rows else None


def items_of(connection: Connection, scope: TenantView, conversation_id: str) -> list[Object]:
    """Return the conversation's items, oldest first. Raises `ApiError` (404) if it does not exist."""
    found_conversation(connection, scope, conversation_id)
    query = select(items.c.body).where(items.c.tenant == scope.tenant, items.c.conversation_id == conversation_id)
    return list(connection.execute(query.order_by(items.c.number)).scalars())


def append_items(
    connection: Connection, tenant: str, conversation_id: str, given: Sequence[Object], run_id: str | None = None
) -> list[Object]:
    """Add items to a conversation, within the caller's transaction. Return the added items, each with an id and, where
    its type has one, a status.

    With `run_id`, the run that produced them, duplicates are skipped, and nothing is added if the conversation was
    deleted meanwhile. Otherwise raises `ApiError`: 404 if the conversation or a referenced item does not exist, 400 if
    the conversation already has an item or a compaction item was not created for the tenant.
    """
    scope = TenantView(tenant)
    if run_id is None:
        found_conversation(connection, scope, conversation_id, lock=True)
    elif scope.find(connection, conversations, conversation_id, lock=True) is None:
        return []
    new = _new(
        connection, conversation_id, [_identified(connection, tenant, one) for one in given], strict=run_id is None
    )
    common = {"tenant": tenant, "created_at": int(time.time()), "conversation_id": conversation_id, "run_id": run_id}
    rows = [{**common, "id": new_id("item"), "item_id": one["id"], "body": one} for one in new]
    if rows:
        connection.execute(insert(items), rows)
    return new


def _new(connection: Connection, conversation_id: str, given: Sequence[Object], *, strict: bool) -> list[Object]:
    """Return the items that the conversation does not have yet. With `strict`, duplicates are an error."""
    ids = [one["id"] for one in given]
    there = select(items.c.item_id).where(items.c.conversation_id == conversation_id, items.c.item_id.in_(ids))
    seen = set(connection.execute(there).scalars())
    new: list[Object] = []
    for one in given:
        if one["id"] not in seen:
            seen.add(one["id"])
            new.append(one)
        elif strict:
            message = f"Duplicate item found with id {one['id']}. Remove duplicate items from your input and try again."
            raise ApiError(400, message, param="items")
    return new


def _identified(connection: Connection, tenant: str, item: Mapping[str, Any]) -> Object:
    """Return an item in its stored form."""
    if kind_of(item) == "item_reference":
        return _referred(connection, tenant, item["id"])
    form = stored_item(item)
    if form["type"] == TYPE:
        expand_compactions(connection, tenant, [form])  # raises if it is of another tenant
    return {**form, "id": item.get("id") or new_id(PREFIXES[form["type"]])}


def _referred(connection: Connection, tenant: str, id_: str) -> Object:
    body = kept_item(connection, tenant, id_)
    if body is None:
        raise ApiError(404, f"Item with id '{id_}' not found.", param="items")
    return body


def kept_item(connection: Connection, tenant: str, id_: str) -> Object | None:
    """Return the tenant's latest item that clients know by this id, from any conversation, or `None`."""
    query = select(items.c.body).where(items.c.tenant == tenant, items.c.item_id == id_)
    body: Object | None = connection.execute(query.order_by(items.c.number.desc()).limit(1)).scalar()
    return body
