"""Submissions: the calls a paused run waits for, and the decisions or tool outputs that resume it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

from sqlalchemy import Connection

from ..core.tool import Tool
from ..core.values import AgentAction, Decision
from ..store.clock import CLOCK
from ..store.event_log import length, update_run
from ..store.run_row import RunRow


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
        for one in run.state.get("waiting", ())
    ]


def stored_calls(waiting: Iterable[Pending]) -> list[dict[str, Any]]:
    """Convert pending calls to the JSON stored in the run's state."""
    return [
        {"id": one.id, "tool": one.tool, "tool_input": one.tool_input, "arguments": arguments, "asked": asked}
        for one, arguments, asked in waiting
    ]


def arguments_of(action: AgentAction, tools: Mapping[str, Tool]) -> dict[str, Any]:
    """Return a call's arguments by name. Plain text becomes the tool's text argument."""
    given, tool = action.tool_input, tools.get(action.tool)
    if isinstance(given, dict):
        return given
    name = tool.signature.text_argument if tool is not None else None
    return {name or "input": given}


def submit_decisions(
    connection: Connection, run: RunRow, decisions: Mapping[str, Decision], ttl: int, mark: str
) -> None:
    """Queue the run with `decisions`, which then has at most `ttl` seconds to finish.

    `decisions` are by call id. `mark` is a fingerprint of the submission, by which a repeated one is recognized.
    `state["told"]` is set to the length of the log; `state["turns"]` gains the time and the calls that were answered
    rather than decided on."""
    given = {**run.state.get("decisions", {}), **{call: asdict(one) for call, one in decisions.items()}}
    state = {**run.state, "decisions": given, "waiting": [], "marks": [*run.state.get("marks", ()), mark]}
    state |= {"told": length(connection, run.id), "usage_told": run.state.get("usage", {})}
    now = int(CLOCK.now())
    answered = [call for call, one in decisions.items() if one.kind == "respond"]
    state["turns"] = [*run.state.get("turns", ()), [now, answered]]
    update_run(connection, run, status="queued", state=state, expires_at=now + ttl)
