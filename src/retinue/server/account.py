"""What a key may do, and what its tenant may and did: `/key`, `/quotas` and `/audit`. These routes are an extension."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from sqlalchemy import Connection

from ..limits.quotas import Standing, standings
from ..store.audit_log import AuditFilter
from ..store.tables import audit_entries
from ..store.tenant_view import Kept, TenantView
from .context import ContextDep
from .http.authentication import sees_prompts
from .http.objects import Object, Wanted, list_rows
from .http.request_body import JsonRoute

router = APIRouter(route_class=JsonRoute)


@router.get("/key")
async def retrieve_key(context: ContextDep) -> Object:
    """Retrieve the tenant, the user and the scopes of the key. `prompts` says whether it sees the prompts of agents."""
    scopes = context.scope.scopes
    return {
        "id": context.scope.key_id,
        "object": "key",
        "tenant": context.scope.tenant,
        "user": context.scope.user,
        "scopes": ["all"] if scopes is None else list(scopes),
        "prompts": sees_prompts(scopes),
    }


@router.get("/quotas")
async def list_quotas(context: ContextDep) -> Object:
    """List the limits of the tenant's quota, and what is used of each. Without a quota the list is empty."""

    def work(connection: Connection, scope: TenantView) -> Object:
        return {"object": "list", "data": [_make_quota(one) for one in standings(connection, scope.tenant)]}

    return await context.read(work)


def _make_quota(one: Standing) -> Object:
    limit = one.limit
    return {
        "object": "quota",
        "type": limit.what,
        "period": limit.period or None,
        "limit": limit.amount(limit.most),
        "used": limit.amount(one.used),
        "remaining": limit.amount(one.left),
        "resets_at": one.resets_at,
    }


@router.get("/audit")
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
        lambda connection, scope: list_rows(connection, scope, audit_entries, page, _make_entry, *where),
    )


def _make_entry(row: Kept) -> Object:
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
