"""`POST /runs/{run_id}/fork`: a new run, which begins with the log of another one."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field
from sqlalchemy import Connection

from ..._internal.message_text import suggest_name
from ...errors import UsageError
from ...run.fork import ForkPoint, fork_log
from ...run.recorded_effects import NumberedEvent
from ...run.replay import Recording
from ...runs.run_fork import ForkEdits, fork_run
from ...runs.run_view import read_run
from ...store.audit_log import record
from ...store.run_row import RunRow
from ...store.tenant_view import TenantView
from ...store.usage_sums import texts_kept
from ..context import Context, ContextDep
from ..http.api_errors import ApiError, not_found
from ..http.authentication import allowed
from ..http.common_schemas import Id, Instructions, Metadata, Wire
from ..http.limits import check_texts
from ..http.objects import Object, own_run
from ..http.request_body import JsonRoute
from ..run_session import RunSession, check_room
from .list import check_shown, run_detail, summary_object
from .replays import replay_log, spec_of

router = APIRouter(prefix="/runs", route_class=JsonRoute)


class RunFork(Wire):
    """`POST /runs/{id}/fork`."""

    step: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    observations: Annotated[dict[Id, Instructions], Field(max_length=128)] | None = None
    instructions: Instructions | None = None
    model: Id | None = None
    tools: Annotated[list[Id], Field(max_length=1_000)] | None = None
    metadata: Metadata | None = None


@router.post("/{run_id}/fork")
async def fork(run_id: str, body: RunFork, context: ContextDep) -> Object:
    """Fork a run: a new one begins with its log up to the end of `step`, and goes on with the agent of today. Of a
    suspended run it takes the place; any other one stays as it is."""
    edits = ForkEdits(
        ForkPoint(body.step, body.observations or {}, body.instructions),
        body.model,
        body.tools,
        metadata=body.metadata or {},
        key_id=context.scope.key_id,
    )
    agents = context.server.deployment.agents
    if body.model is not None and body.model not in agents:
        message = f"The model '{body.model}' does not exist; {suggest_name(body.model, agents)}"
        raise ApiError(400, message, param="model", code="model_not_found")
    edits = await _checked(context, run_id, edits)

    def work(connection: Connection, scope: TenantView) -> tuple[RunRow, Object]:
        check_shown(own_run(connection, scope, run_id, lock=True))
        check_room(connection, scope)
        before = texts_kept(connection, scope.tenant)
        try:
            run = fork_run(connection, run_id, context.server.options.run_ttl, edits)
        except UsageError as error:
            raise ApiError(400, f"{error}.") from error
        check_texts(connection, scope, before)
        record(connection, scope.author, scope.tenant, "run.forked", run.id, {"from": run_id})
        return run, _detail(connection, scope, run)

    run, shown = await context.write(work)
    context.server.runs.followers.look(run_id)  # it may have been cancelled
    RunSession(context.server, run).begin()
    return shown


def _detail(connection: Connection, scope: TenantView, run: RunRow) -> Object:
    """Return what the key may read of a fork: it holds what the run said and saw."""
    if not allowed(scope.scopes, "read"):
        return summary_object(run)
    view = read_run(connection, scope, run.id)
    if view is None:
        raise not_found("run", run.id)
    return run_detail(view)


async def _checked(context: Context, run_id: str, edits: ForkEdits) -> ForkEdits:
    """Return the edits with the tools that the agent has. Raise `ApiError` for a fork that could not go on: there is no
    such run, step, call or tool, the agent refuses what is edited, or another agent would not have come to where it
    begins."""

    def work(connection: Connection, scope: TenantView) -> tuple[RunRow, list[NumberedEvent]]:
        view = read_run(connection, scope, run_id)
        if view is None:
            raise not_found("run", run_id)
        check_shown(view.run)
        return view.run, [NumberedEvent(entry.seq, entry.event) for entry in view.log]

    run, log = await context.read(work)
    if run.kind == "imported":
        raise ApiError(400, f"The run '{run.id}' was imported: nobody here decided what is in it, so it cannot go on.")
    if edits.agent is None and edits.tools is None and edits.point.instructions is None:
        return edits
    try:
        kept = [one.event for one in fork_log([one.event for one in log], edits.point)]
    except UsageError as error:
        raise ApiError(400, f"{error}.") from error
    request = dict(run.request)
    request |= {"model": edits.agent} if edits.agent else {}
    request |= {"instructions": edits.point.instructions} if edits.point.instructions is not None else {}
    spec = await spec_of(context, run._replace(agent=edits.agent or run.agent, request=request, snapshot=""))
    known = [tool.name for tool in spec.tools]
    for name in edits.tools or ():
        if name not in known:
            message = f"The agent '{spec.name}' has no tool '{name}'; {suggest_name(name, known)}"
            raise ApiError(400, message, param="tools")
    edits = replace(edits, known_tools=known)
    if edits.agent is None:
        return edits
    recording = Recording([NumberedEvent(at, event) for at, event in enumerate(kept, 1)], spec.budget, kept=2**31)
    found = await replay_log(context, spec, run, recording)
    if found.differs is not None:
        message = f"The agent '{edits.agent}' would not have come to that step: at event {found.differs.event}"
        raise ApiError(400, f"{message}, it decides otherwise.", param="model")
    return edits
