"""`/key`: what the request's key may do. This route is an extension."""

from __future__ import annotations

from fastapi import APIRouter

from .context import ContextDep
from .middleware.scopes import sees_prompts
from .wire.objects import Object
from .wire.request_body import JsonRoute

router = APIRouter(prefix="/key", route_class=JsonRoute)


@router.get("")
async def retrieve(context: ContextDep) -> Object:
    """Retrieve the tenant and the scopes of the key. `prompts` says whether it sees the prompts of agents."""
    scopes = context.scope.scopes
    return {
        "id": context.scope.key_id,
        "object": "key",
        "tenant": context.scope.tenant,
        "scopes": ["all"] if scopes is None else list(scopes),
        "prompts": sees_prompts(scopes),
    }
