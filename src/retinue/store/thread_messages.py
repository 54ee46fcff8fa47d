"""Queries about the messages of a thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, select

from .prepared_statements import Prepared
from .tables import messages, threads
from .tenant_view import Kept, TenantView

_IN_ORDER = Prepared(
    select(messages.c.run_id, messages.c.body)
    .where(messages.c.thread_id == bindparam("thread"))
    .order_by(messages.c.number)
)
_NEWEST = Prepared(
    select(messages.c.body)
    .where(messages.c.tenant == bindparam("tenant"), messages.c.thread_id == bindparam("thread"))
    .order_by(messages.c.number.desc())
    .limit(bindparam("most"))
)


def messages_on(connection: Connection, thread_id: str | None) -> Sequence[tuple[str | None, dict[str, Any]]]:
    """Return the messages on a thread, oldest first: the run that wrote each, if one did, and its body."""
    return _IN_ORDER.rows(connection, {"thread": thread_id})


def newest_messages(connection: Connection, tenant: str, thread_id: str, most: int) -> list[dict[str, Any]]:
    """Return the bodies of the newest messages on a thread, newest first."""
    return [body for (body,) in _NEWEST.rows(connection, {"tenant": tenant, "thread": thread_id, "most": most})]


def find_thread_id(connection: Connection, tenant: str, given: str) -> str | None:
    """Return the id of the thread with this id or key, or `None`."""
    row = TenantView(tenant).find(connection, threads, given) or thread_by_key(connection, tenant, given)
    return None if row is None else str(row.id)


def thread_by_key(connection: Connection, tenant: str, key: str, *, lock: bool = False) -> Kept | None:
    """Return the thread with this key, or `None`; `lock` as in `TenantView.find`."""
    own = select(threads).where(threads.c.tenant == tenant, threads.c.key == key)
    return connection.execute(own.with_for_update(key_share=True) if lock else own).first()
