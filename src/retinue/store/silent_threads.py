"""Threads and conversations in which nothing was said for a long time: they are found, and deleted with all of it."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import ColumnElement, Connection, Select, exists, select

from .memory_states import forget_thread
from .run_queries import delete_thread_runs
from .run_row import ACTIVE
from .tables import conversations, items, messages, runs, threads
from .tenant_view import TenantView

_SAID = ((threads, messages, messages.c.thread_id), (conversations, items, items.c.conversation_id))


def silent_threads(connection: Connection, before: int, most: int) -> list[str]:
    """Return the ids of at most `most` threads and conversations that have only messages, items and runs from before
    this time, in Unix seconds, and no run that is active."""
    found: list[str] = []
    for at in range(len(_SAID)):
        query = _silent(at, before).limit(most - len(found))
        found += [id_ for _, id_ in connection.execute(query)]
    return found


def delete_silent(connection: Connection, before: int, ids: Collection[str]) -> int:
    """Delete those of the threads and conversations that are still silent, with all that belongs to them. Return how
    many."""
    deleted = 0
    for at, (table, parts, owner) in enumerate(_SAID):
        query = _silent(at, before).where(table.c.id.in_(ids)).with_for_update(of=table)
        for tenant, id_ in connection.execute(query).all():
            scope = TenantView(tenant)
            delete_thread_runs(connection, scope, id_)
            scope.remove(connection, parts, owner == id_)
            scope.remove(connection, table, table.c.id == id_)
            forget_thread(connection, tenant, id_)
            deleted += 1
    return deleted


def _silent(at: int, before: int) -> Select[str, str]:
    table, parts, owner = _SAID[at]
    late_run: ColumnElement[bool] = (runs.c.created_at >= before) | runs.c.status.in_(ACTIVE)
    news = (
        exists().where(owner == table.c.id, parts.c.created_at >= before),
        exists().where(runs.c.thread_id == table.c.id, late_run),
    )
    return select(table.c.tenant, table.c.id).where(table.c.created_at < before, *(~one for one in news))
