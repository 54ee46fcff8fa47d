"""`/quotas`: the tenant's own quota, and what is used of it. This route is an extension."""

from __future__ import annotations

from fastapi import APIRouter
from sqlalchemy import Connection

from ..store.quota_usage import Standing, standing
from ..store.tenant_view import TenantView
from ..store.usage_sums import NANOS
from .context import ContextDep
from .wire.objects import Object
from .wire.request_body import JsonRoute

router = APIRouter(prefix="/quotas", route_class=JsonRoute)


@router.get("")
async def list_quotas(context: ContextDep) -> Object:
    """List the limits of the tenant's quota, and what is used of each. Without a quota the list is empty."""

    def work(connection: Connection, scope: TenantView) -> Object:
        return {"object": "list", "data": [_object(one) for one in standing(connection, scope.tenant)]}

    return await context.read(work)


def _object(one: Standing) -> Object:
    limit = one.limit
    unit = NANOS if limit.what == "cost" else 1

    def shown(number: int | None) -> float | None:
        return number if number is None or unit == 1 else number / unit

    return {
        "object": "quota",
        "type": limit.what,
        "period": limit.period or None,
        "limit": shown(limit.most),
        "used": shown(one.used),
        "remaining": shown(one.left),
        "resets_at": one.resets_at,
    }
