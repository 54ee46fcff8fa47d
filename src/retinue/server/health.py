"""Health and readiness, open to everybody; statistics, for clients with a key."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from sqlalchemy import select

from ..errors import StoreUnavailable
from ..store.run_queries import count_by_status
from ..store.tables import versions
from .context import ContextDep
from .http.api_errors import ApiError
from .http.objects import Object

router = APIRouter()
opea = APIRouter()
_SECONDS = 5.0  # for the database to answer


@router.get("/health")
@router.head("/health", include_in_schema=False)  # which monitors and proxies ask
async def health() -> Object:
    """The process is alive."""
    return {"status": "ok"}


@router.get("/ready")
@router.head("/ready", include_in_schema=False)
async def ready(request: Request) -> Object:
    """The server is ready: it is not stopping, and its database answers, takes what is written, and is locked by this
    server."""
    state = request.app.state
    if state.stopping:
        raise ApiError(503, "The server is stopping.", kind="server_error")
    state.server.database.check()
    state.server.database.check_writes()
    try:
        async with asyncio.timeout(_SECONDS):
            await state.server.database.read(lambda connection: connection.execute(select(versions.c.version)).all())
    except TimeoutError as error:
        raise StoreUnavailable(f"the database does not answer within {_SECONDS:g} s") from error
    return {"status": "ready"}


@opea.get("/health_check")
async def health_check(context: ContextDep) -> Object:
    """The process is alive, in the form that OPEA's clients expect."""
    return {"Service Title": "retinue", "Service Description": ", ".join(context.server.deployment.agents)}


@opea.get("/statistics")
async def statistics(context: ContextDep) -> Object:
    """Return the number of runs by status."""

    return {"runs": await context.read(count_by_status)}
