"""`/models`: the agents and pipelines of the file."""

from __future__ import annotations

from fastapi import APIRouter

from .context import At
from .deployment import Deployment
from .wire.bodies import JsonRoute
from .wire.errors import ApiError, no_model
from .wire.objects import Object

router = APIRouter(route_class=JsonRoute)


@router.get("/models")
async def list_models(at: At) -> Object:
    """All that can be asked."""
    deployment = at.server.deployment
    return {"object": "list", "data": [_model_object(deployment, name) for name in deployment.agents]}


@router.get("/models/{model:path}")
async def retrieve_model(at: At, model: str) -> Object:
    """One of them; its name may have slashes and colons."""
    if model not in at.server.deployment.agents:
        raise no_model(model)
    return _model_object(at.server.deployment, model)


@router.delete("/models/{model:path}")
async def delete_model(at: At, model: str) -> None:
    """Refused: what there is, the server's file says."""
    if model not in at.server.deployment.agents:
        raise no_model(model)
    raise ApiError(403, f"The model '{model}' is defined in the server's file and cannot be deleted here.")


def _model_object(deployment: Deployment, name: str) -> Object:
    return {"id": name, "object": "model", "created": deployment.created, "owned_by": "retinue"}
