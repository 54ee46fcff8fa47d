"""`/policies`: what people always allow users' agents, to be seen and revoked. An extension."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from sqlalchemy import ColumnElement, Connection

from ..store.audit_log import record
from ..store.tables import policies
from ..store.tenant_view import Kept, TenantView
from .context import ContextDep
from .http.api_errors import not_found
from .http.objects import Object, Wanted, deletion_object, list_rows

router = APIRouter(prefix="/policies")


def _own(scope: TenantView, user: str | None = None) -> list[ColumnElement[bool]]:
    """Return the conditions of what a request may see: of a user's key, that user's."""
    return [policies.c.user == one for one in {scope.user, user} if one is not None]


@router.get("")
async def list_policies(
    context: ContextDep, page: Wanted, user: Annotated[str | None, Query(min_length=1)] = None
) -> Object:
    """List what is always allowed: to a `user`, or to all of them."""
    return await context.read(
        lambda connection, scope: list_rows(connection, scope, policies, page, _object, *_own(scope, user)),
    )


@router.delete("/{policy_id}")
async def revoke_policy(context: ContextDep, policy_id: str) -> Object:
    """Revoke a policy: people are asked again."""

    def remove(connection: Connection, scope: TenantView) -> None:
        if not scope.remove(connection, policies, policies.c.id == policy_id, *_own(scope)):
            raise not_found("policy", policy_id)
        record(connection, scope.author, scope.tenant, "policy.revoked", policy_id)

    await context.write(remove)
    return deletion_object(policy_id, "policy")


def _object(row: Kept) -> Object:
    body = row.body
    return {
        "id": row.id,
        "object": "policy",
        "created_at": row.created_at,
        "user": row.user,
        "model": body["agent"],
        "tool": body["tool"],
        "hook": body["asker"] or None,
        "arguments": body["tool_input"],
        "always": body["always"],
        "run_id": body["run"],
    }
