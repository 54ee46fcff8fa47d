"""What people do to runs that are there: they decide on calls, and cancel. The audit log says who did."""

from __future__ import annotations

from sqlalchemy import Connection

from ..runs.cancellation import cancel_run
from ..runs.submissions import FurtherRequest, submit_decisions
from ..store.audit_log import Action, Author, record
from ..store.run_row import RunRow
from .tool_outputs import ParsedOutputs

_ACTIONS: dict[str, Action] = {
    "approve": "call.approve",
    "edit": "call.edit",
    "reject": "call.reject",
    "respond": "call.respond",
}


def resume_run(
    connection: Connection,
    author: Author,
    run: RunRow,
    answer: ParsedOutputs,
    ttl: int,
    further: FurtherRequest | None = None,
) -> RunRow:
    """Let a waiting run go on, as `submit_decisions` does. Decisions of people are recorded; the outputs of a client's
    own functions are not decisions."""
    for call, decision in answer.decisions.items():
        if call not in answer.outputs:
            tool = next((one["tool"] for one in run.waiting if one["id"] == call), "")
            detail = {"call": call, "tool": tool[:64]}
            record(connection, author, run.tenant, _ACTIONS[decision.kind], run.id, detail)
    return submit_decisions(connection, run, answer.decisions, ttl, answer.mark, further)


def cancel_for(connection: Connection, author: Author, run: RunRow) -> RunRow:
    """Cancel a run, as `cancel_run` does, and record who did."""
    record(connection, author, run.tenant, "run.cancelled", run.id)
    return cancel_run(connection, run)
