"""`/models`: the file's agents and pipelines, and the embedding model."""

from __future__ import annotations

from collections.abc import Iterable

from fastapi import APIRouter

from ..agents.deployment import Deployment
from ..context import Context, ContextDep
from ..http.api_errors import ApiError, missing_parameter, no_model
from ..http.objects import Object
from ..http.request_body import JsonRoute
from . import embeddings

router = APIRouter(route_class=JsonRoute)


@router.get("/models")
async def list_models(context: ContextDep) -> Object:
    """List the models."""
    return {"object": "list", "data": [_model_object(context.server.deployment, name) for name in _names(context)]}


@router.get("/models/{model:path}")
async def retrieve_model(context: ContextDep, model: str) -> Object:
    """Retrieve a model. Its name may contain slashes and colons."""
    if model not in _names(context):
        raise no_model(model, _names(context))
    return _model_object(context.server.deployment, model)


@router.delete("/models/{model:path}")
async def delete_model(context: ContextDep, model: str) -> None:
    """Refused: the server's file defines the models."""
    if model not in _names(context):
        raise no_model(model, _names(context))
    raise ApiError(403, f"The model '{model}' is defined in the server's file and cannot be deleted through the API.")


def named_or_only(deployment: Deployment, model: str | None) -> str:
    """Return the name of the agent that a request names, or of the only one. Raises `ApiError`."""
    name = deployment.only if model is None else model
    if name is None:
        there_are = ", ".join(deployment.agents)
        raise missing_parameter("model", f"This server has several models; name one of: {there_are}.")
    if name not in deployment.agents:
        raise no_agent(name, deployment.agents)
    return name


def no_agent(name: str, agents: Iterable[str]) -> ApiError:
    """Return the error for a model that is asked to answer, and is not an agent."""
    if name == embeddings.MODEL:
        message = f"The model '{name}' embeds texts; it is used with POST /v1/embeddings only."
        return ApiError(404, message, param="model", code="model_not_found")
    return no_model(name, agents)


def _names(context: Context) -> list[str]:
    """Return the names of agents, pipelines, and the embedding model if it is installed."""
    return list(
        dict.fromkeys([*context.server.deployment.agents, *([embeddings.MODEL] if embeddings.is_here() else ())])
    )


def _model_object(deployment: Deployment, name: str) -> Object:
    return {"id": name, "object": "model", "created": deployment.created, "owned_by": "retinue"}
