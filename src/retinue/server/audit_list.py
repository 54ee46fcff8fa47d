"""`/audit`: what was done with what is the tenant's, and by whom. This route is an extension."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from ..store.audit_log import AuditFilter
from ..store.tables import audit_entries
from ..store.tenant_view import Kept
from .context import ContextDep
from .wire.lookup import Wanted, list_rows
from .wire.objects import Object
from .wire.request_body import JsonRoute

router = APIRouter(prefix="/audit", route_class=JsonRoute)


@router.get("")
async def list_entries(
    context: ContextDep,
    page: Wanted,
    action: Annotated[str | None, Query(max_length=32)] = None,
    since: Annotated[int | None, Query(ge=0, lt=2**53)] = None,
) -> Object:
    """List the entries of the tenant's audit log, newest first: since a time in Unix seconds, and of an action
    (`run.cancelled`) or all of a kind (`run`)."""
    where = AuditFilter(since=since, action=action).conditions()
    return await context.read(
        lambda connection, scope: list_rows(connection, scope, audit_entries, page, entry_object, *where),
    )


def entry_object(row: Kept) -> Object:
    """Return an entry as JSON."""
    return {
        "id": row.id,
        "object": "audit.entry",
        "created_at": row.created_at,
        "actor": row.actor,
        "action": row.action,
        "target": row.target,
        "detail": row.detail,
        "request_id": row.request_id,
        "address": row.address,
    }
