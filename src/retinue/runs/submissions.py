"""How runs that rest go on: with decisions or tool outputs, or, if they were suspended since their agents changed, when
these are back or an operator decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from ..core.tools.signature import InvalidInput, build_schema_signature
from ..core.values import Decision, Usage
from ..errors import UsageError
from ..store.clock import CLOCK
from ..store.event_log import Fenced, append_entries, length
from ..store.run_belongings import show_files
from ..store.run_queries import find_run, insert_submission, update_run
from ..store.run_row import REGARDLESS, RunError, RunRow, RunValues, Submission
from .status import take_step
from .teams import by_member, resume_entries

AGENT_CHANGED = "agent_changed"  # the `cause` of a suspended run's error


class FurtherRequest(NamedTuple):
    """A request that is answered by a run that it resumes: its parameters as its response echoes them, its input items,
    its `include`, and the client's ids of the calls that it answers."""

    asked: Mapping[str, Any]
    input: Sequence[Mapping[str, Any]]
    include: Sequence[str] | None
    calls: Sequence[str]


def describe_bad_edit(run: RunRow, decisions: Mapping[str, Decision]) -> str:
    """Return what is wrong with edited arguments that do not fit their tool, which nobody would see otherwise; empty
    if nothing is."""
    for call in run.waiting:
        edited = decisions[call["id"]].tool_input if call["id"] in decisions else None
        if edited is not None and "schema" in call:
            try:
                build_schema_signature(call["schema"]).arguments(edited)
            except InvalidInput as error:
                return f"The edited arguments of {call['tool']} are not valid: {error}"
    return ""


def submit_decisions(
    connection: Connection,
    run: RunRow,
    decisions: Mapping[str, Decision],
    ttl: int,
    mark: str,
    further: FurtherRequest | None = None,
) -> RunRow:
    """Queue a waiting run with the decisions on its calls. Return its new row.

    Raises `StoreConflict` if the run is no longer as it was read: of two submissions at once, one is accepted.

    Args:
        connection: A connection in a transaction.
        run: The run, as it was read in this transaction.
        decisions: The decisions, by call id in the log.
        ttl: Seconds that the run then has to finish.
        mark: A fingerprint of the submission, by which a repeated one is recognized.
        further: The request, if the run answers it with a response of its own.
    """
    now = int(CLOCK.now())
    submission = Submission(
        number=len(run.submissions) + 1,
        at=now,
        mark=mark,
        told=length(connection, run.id),
        decisions=decisions,
        answered=tuple(call for call, one in decisions.items() if one.kind == "respond"),
        usage=run.usage or Usage(),
        **({} if further is None else further._asdict()),
    )
    given = RunValues(expires_at=None if run.parent_id else now + ttl, turns=submission.number)
    show_files(connection, run.tenant, run.id, [file.id for one in decisions.values() for file in one.files])
    inside = by_member(run.id, decisions)
    own = sum(map(len, inside.values())) < len(decisions) or not decisions
    if inside:
        run = take_step(connection, run, "fence")
        append_entries(connection, run, resume_entries(connection, run, decisions))
    run = take_step(connection, run, "answer" if own else "decide", **given)
    for member_id, some in inside.items():
        member = find_run(connection, member_id, lock=True)
        if member is not None and member.status == "requires_action":
            submit_decisions(connection, member, some, ttl, mark)
    return insert_submission(connection, run, submission)


def suspend_run(connection: Connection, held: RunRow, problem: str, ttl: int) -> RunRow | None:
    """Suspend the run acquired as `held` because of `problem`; it expires in `ttl` seconds. Return its new row, or
    `None` if it has to end instead. Raises `Fenced` if another drive has it by now."""
    run = find_run(connection, held.id, held.request, lock=True)
    if run is None or run.epoch != held.epoch:
        raise Fenced(held.id)
    if run.status == "cancelling" or run.ending:
        return None
    error = RunError("server_error", problem, AGENT_CHANGED)
    return take_step(connection, run, "suspend", error=error, expires_at=int(CLOCK.now()) + ttl)


def continue_run(connection: Connection, run_id: str, ttl: int, *, regardless: bool = False) -> RunRow:
    """Let a suspended run go on within `ttl` seconds: if it can by now, or `regardless` of what changed. A run that
    waits for a person goes on regardless when the person has decided. Return its new row.

    Raises `UsageError` if there is nothing to continue, and `StoreConflict` if the run is being changed."""
    run = find_run(connection, run_id, lock=True)
    if run is None:
        raise UsageError(f"there is no run {run_id[:80]!r}")
    if not run.suspended and not (regardless and run.status == "requires_action"):
        raise UsageError(f"the run {run.id} is not suspended: its status is {run.status!r}")
    values = RunValues(snapshot=REGARDLESS) if regardless else RunValues()
    if not run.suspended:
        return update_run(connection, run, **values)
    return take_step(connection, run, "resume", **(values | RunValues(expires_at=int(CLOCK.now()) + ttl)))
