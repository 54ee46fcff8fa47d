"""`/policies`: what people always allow users' agents, to be seen and revoked. An extension."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from sqlalchemy import Connection

from ..store.audit_log import record
from ..store.tables import policies
from ..store.tenant_view import Kept, TenantView
from .context import ContextDep
from .http.api_errors import not_found
from .http.objects import Object, Wanted, deletion_object, list_rows

router = APIRouter(prefix="/policies")


@router.get("")
async def list_policies(
    context: ContextDep, page: Wanted, user: Annotated[str | None, Query(min_length=1)] = None
) -> Object:
    """List what is always allowed: to a `user`, or to all of them."""
    where = () if user is None else (policies.c.user == user,)
    return await context.read(lambda connection, scope: list_rows(connection, scope, policies, page, _object, *where))


@router.delete("/{policy_id}")
async def revoke_policy(context: ContextDep, policy_id: str) -> Object:
    """Revoke a policy: people are asked again."""

    def remove(connection: Connection, scope: TenantView) -> None:
        if not scope.remove(connection, policies, policies.c.id == policy_id):
            raise not_found("policy", policy_id)
        record(connection, scope.author, scope.tenant, "policy.revoked", policy_id)

    await context.write(remove)
    return deletion_object(policy_id, "policy")


def _object(row: Kept) -> Object:
    body = row.body
    told = {"model": body["agent"], "tool": body["tool"], "hook": body["asker"] or None, "always": body["always"]}
    head = {"id": row.id, "object": "policy", "created_at": row.created_at, "user": row.user}
    return head | told | {"arguments": body["tool_input"], "run_id": body["run"]}
