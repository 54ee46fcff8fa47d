"""Submissions: the calls a paused run waits for, and the decisions or tool outputs that resume it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from ..core.tools.tool import Tool
from ..core.values import AgentAction, Decision, Usage
from ..store.clock import CLOCK
from ..store.event_log import append_entries, length
from ..store.run_belongings import show_files
from ..store.run_queries import find_run, insert_submission, update_run
from ..store.run_row import RunRow, RunValues, Submission
from .member_paths import by_member, resume_entries


class Pending(NamedTuple):
    """A pending call: its action, its arguments by name, and how often a person was asked about it so far. It is asked
    again whenever its outcome was lost; an answer counts only for the time it was given for."""

    action: AgentAction
    arguments: Mapping[str, Any]
    asked: int = 1


def pending_calls(run: RunRow) -> list[Pending]:
    """Return the calls that a run waits for."""
    return [
        Pending(AgentAction(one["tool"], one["tool_input"], id=one["id"]), one["arguments"], one["asked"])
        for one in run.waiting
    ]


def stored_calls(waiting: Iterable[Pending], tools: Mapping[str, Tool] = {}) -> list[dict[str, Any]]:
    """Convert pending calls to the JSON stored in the run's row, with the schemas of their arguments as far as their
    tools are among `tools`."""
    return [
        {"id": one.id, "tool": one.tool, "tool_input": one.tool_input, "arguments": arguments, "asked": asked}
        | ({"schema": tools[one.tool].signature.parameters} if one.tool in tools else {})
        for one, arguments, asked in waiting
    ]


def arguments_of(action: AgentAction, tools: Mapping[str, Tool]) -> dict[str, Any]:
    """Return a call's arguments by name. Plain text becomes the tool's text argument."""
    given, tool = action.tool_input, tools.get(action.tool)
    if isinstance(given, dict):
        return given
    name = tool.signature.text_argument if tool is not None else None
    return {name or "input": given}


class FurtherRequest(NamedTuple):
    """A request that is answered by a run that it resumes: its parameters as its response echoes them, its input items,
    its `include`, and the client's ids of the calls that it answers."""

    asked: Mapping[str, Any]
    input: Sequence[Mapping[str, Any]]
    include: Sequence[str] | None
    calls: Sequence[str]


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
    values = RunValues(expires_at=None if run.parent_id else now + ttl, waiting=(), turns=submission.number)
    show_files(connection, run.tenant, run.id, [file.id for one in decisions.values() for file in one.files])
    inside = by_member(run.id, decisions)
    if sum(map(len, inside.values())) < len(decisions) or not decisions:  # whichever process is first goes on with it
        values |= RunValues(status="queued", driver=None, attempts=0, progress=None)
    else:
        values |= RunValues(status="in_progress")
    if inside:
        run = _resumed(connection, run, decisions)
    run = update_run(connection, run, **values)
    for member_id, some in inside.items():
        member = find_run(connection, member_id, lock=True)
        if member is not None and member.status == "requires_action":
            submit_decisions(connection, member, some, ttl, mark)
    return insert_submission(connection, run, submission)


def _resumed(connection: Connection, run: RunRow, decisions: Mapping[str, Decision]) -> RunRow:
    """Append the decisions on members' calls to their caller's log."""
    run = update_run(connection, run, epoch=run.epoch + 1)
    append_entries(connection, run, resume_entries(connection, run, decisions))
    return run
