"""`/runs/{id}/cancel` and `/submit_tool_outputs`: for a person who looks at a run, whatever API it came from. An
extension.
"""

from __future__ import annotations

from fastapi import APIRouter
from sqlalchemy import Connection

from ...store.run_row import RunRow
from ...store.tenant_view import TenantView
from ..context import ContextDep
from ..http.api_errors import ApiError
from ..http.common_schemas import SubmitToolOutputs
from ..http.objects import Object, own_run
from ..http.request_body import JsonRoute
from ..run_session import RunSession, cancel_active
from .answers import answer_run
from .list import summary_object

router = APIRouter(prefix="/runs", route_class=JsonRoute)


@router.post("/{run_id}/submit_tool_outputs")
async def submit_tool_outputs(run_id: str, body: SubmitToolOutputs, context: ContextDep) -> Object:
    """Answer the calls that a run waits for, or decide on them. The run then goes on; repeating this has no effect."""

    def work(connection: Connection, scope: TenantView) -> tuple[RunRow, bool]:
        run = own_run(connection, scope, run_id, lock=True)
        _check_top(run, "answer")
        return answer_run(connection, scope.author, run, body.outputs, context.server.options.run_ttl)

    run, new = await context.write(work)
    RunSession(context.server, run).begin(new=new)
    return summary_object(run)


@router.post("/{run_id}/cancel")
async def cancel(run_id: str, context: ContextDep) -> Object:
    """Cancel a run."""

    def work(connection: Connection, scope: TenantView) -> RunRow:
        run = own_run(connection, scope, run_id, lock=True)
        _check_top(run, "cancel")  # of a member, its caller would not be told
        return cancel_active(connection, scope.author, run)

    run = await context.write(work)
    context.server.halted(run)
    return summary_object(run)


def _check_top(run: RunRow, act: str) -> None:
    """Raise `ApiError` for a member's run."""
    if run.parent_id is not None:
        raise ApiError(400, f"The run {run.id} was called by {run.root_id}: {act} that one.")
