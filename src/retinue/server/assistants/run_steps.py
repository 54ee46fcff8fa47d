"""Run steps, projected from a run's log."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter
from sqlalchemy import Connection

from ...runs import Followed
from ...runs.run_view import read_run
from ...store.tenant_view import TenantView
from ..agents.overrides import tools_of
from ..context import Context, ContextDep
from ..http.api_errors import not_found
from ..http.lookup import Include, Wanted, list_objects
from ..http.objects import Object
from ..http.request_body import JsonRoute
from .hosted_steps import included, step_view
from .runs import run_of
from .step_projection import StepProjection

router = APIRouter(route_class=JsonRoute)


@router.get("/threads/{thread_id}/runs/{run_id}/steps")
async def list_all(thread_id: str, run_id: str, context: ContextDep, page: Wanted, include: Include = ()) -> Object:
    """List the steps of a run."""
    return list_objects(await _steps(context, thread_id, run_id, include), page)


@router.get("/threads/{thread_id}/runs/{run_id}/steps/{step_id}")
async def retrieve(thread_id: str, run_id: str, step_id: str, context: ContextDep, include: Include = ()) -> Object:
    """Retrieve a step of a run."""
    steps = await _steps(context, thread_id, run_id, include)
    for step in steps:
        if step["id"] == step_id:
            return step
    raise not_found("run step", step_id)


async def _steps(context: Context, thread_id: str, run_id: str, include: Sequence[str]) -> list[Object]:
    """Return the run's steps so far, oldest first."""

    def work(connection: Connection, scope: TenantView) -> list[Object]:
        run_of(connection, scope, thread_id, run_id)
        view = read_run(connection, scope, run_id)
        if view is None:
            raise not_found("run", run_id)
        run = view.run
        progress = StepProjection(run, tools_of(context.server.deployment, run), context.server.options, include)
        items: list[Followed] = [*view.log, run]
        for item in items:
            list(progress.tell(item))
        return [step_view(run.request, step, content=included(include)) for step in progress.steps]

    return await context.read(work)
