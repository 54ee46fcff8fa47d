"""`/memories`: what the agents remember of users and threads, to be seen and deleted."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from sqlalchemy import ColumnElement, Connection

from ..store.audit_log import record
from ..store.memory_states import forget, thread_name, user_name
from ..store.tables import memories
from ..store.tenant_view import Kept, TenantView
from .context import ContextDep
from .wire.api_errors import ApiError, not_found
from .wire.lookup import Wanted, deletion_object, find_row, list_rows
from .wire.objects import Object

router = APIRouter(prefix="/memories")
_OURS = ("retinue", "memory")


def _chosen(
    user: Annotated[str | None, Query(min_length=1)] = None,
    thread_id: Annotated[str | None, Query(min_length=1)] = None,
    model: str | None = None,
) -> list[ColumnElement[bool]]:
    if user is not None and thread_id is not None:
        raise ApiError(400, "Invalid 'thread_id': name either a user or a thread.", param="thread_id")
    where = [] if user is None else [memories.c.owner == user_name(user)]
    where += [] if thread_id is None else [memories.c.owner == thread_name(thread_id)]
    return where + ([] if model is None else [memories.c.agent == model])


Chosen = Annotated[list[ColumnElement[bool]], Depends(_chosen)]


@router.get("")
async def list_memories(context: ContextDep, page: Wanted, chosen: Chosen) -> Object:
    """List what is remembered: of a `user`, of a `thread_id`, by a `model`, or all of it."""
    return await context.read(
        lambda connection, scope: list_rows(connection, scope, memories, page, _object, *chosen),
    )


@router.get("/{memory_id}")
async def retrieve_memory(context: ContextDep, memory_id: str) -> Object:
    """Retrieve one memory."""
    return await context.read(
        lambda connection, scope: _object(find_row(connection, scope, memories, memory_id, "memory")),
    )


@router.delete("")
async def delete_memories(context: ContextDep, chosen: Chosen, model: str | None = None) -> Object:
    """Delete what is remembered of a `user` or a `thread_id`, by all models or by one."""
    if len(chosen) == (model is not None):
        raise ApiError(400, "Missing required parameter: 'user'.", param="user", code="missing_required_parameter")

    def remove(connection: Connection, scope: TenantView) -> int:
        number = forget(connection, scope.tenant, *chosen)
        if number:
            record(connection, scope.author, scope.tenant, "memory.deleted", "", {"number": number})
        return number

    number = await context.write(remove)
    return {"object": "memory.deleted", "deleted": number > 0, "number": number}


@router.delete("/{memory_id}")
async def delete_memory(context: ContextDep, memory_id: str) -> Object:
    """Delete one memory."""

    def remove(connection: Connection, scope: TenantView) -> int:
        number = forget(connection, scope.tenant, memories.c.id == memory_id)
        if number:
            record(connection, scope.author, scope.tenant, "memory.deleted", memory_id)
        return number

    if not await context.write(remove):
        raise not_found("memory", memory_id)
    return deletion_object(memory_id, "memory")


def _object(row: Kept) -> Object:
    whose, _, name = row.owner.partition(":")
    state: dict[str, Any] = json.loads(row.body)
    return {
        "id": row.id,
        "object": "memory",
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "model": row.agent,
        "user": name if whose == "user" else None,
        "thread_id": name if whose == "thread" else None,
        "kind": row.kind,
        "bytes": row.bytes,
        "content": {key: value for key, value in state.items() if key not in _OURS},
    }
