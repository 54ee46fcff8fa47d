"""The items of conversations."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, insert, select

from ..store.scope import Scope
from ..store.tables import conversations, items
from .finding import found
from .ids import new_id
from .objects import Object


def items_of(connection: Connection, scope: Scope, conversation_id: str) -> list[Object]:
    """The items of a conversation, oldest first. Raises `ApiError` (404) if there is no such conversation."""
    found(connection, scope, conversations, conversation_id)
    query = select(items.c.id, items.c.body).where(
        items.c.tenant == scope.tenant, items.c.conversation_id == conversation_id
    )
    return [{"id": id_, **body} for id_, body in connection.execute(query.order_by(items.c.number))]


def append_items(
    connection: Connection,
    tenant: str,
    conversation_id: str,
    items_: Sequence[Mapping[str, Any]],
    run_id: str | None = None,
) -> None:
    """Add items to a conversation; those without an id or a status get them."""
    for item in items_:
        body = {name: value for name, value in item.items() if name != "id"}
        values = {"tenant": tenant, "id": item.get("id") or new_id("item"), "created_at": int(time.time())}
        more = {"conversation_id": conversation_id, "run_id": run_id, "body": {"status": "completed", **body}}
        connection.execute(insert(items).values(**values, **more))
