"""What a run waits for, and the answers: one pause, whether a person decides or a client runs its own tool."""

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
    """A call that a run waits for, what it gives its tool, by argument name, and how often a person was asked about
    it by now: again whenever its outcome was lost. An answer counts for the time it was given for."""

    action: AgentAction
    arguments: Mapping[str, Any]
    asked: int = 1


def pending_calls(run: RunRow) -> list[Pending]:
    """The calls that a run waits for."""
    return [
        Pending(AgentAction(one["tool"], one["tool_input"], id=one["id"]), one["arguments"], one["asked"])
        for one in run.state.get("waiting", ())
    ]


def stored_calls(waiting: Iterable[Pending]) -> list[dict[str, Any]]:
    """Calls as they are kept while they wait."""
    return [
        {"id": one.id, "tool": one.tool, "tool_input": one.tool_input, "arguments": arguments, "asked": asked}
        for one, arguments, asked in waiting
    ]


def arguments_of(action: AgentAction, tools: Mapping[str, Tool]) -> dict[str, Any]:
    """What a call gives its tool, by argument name: also where the model wrote a text, if the tool takes one."""
    given, tool = action.tool_input, tools.get(action.tool)
    if isinstance(given, dict):
        return given
    name = tool.signature.text_argument if tool is not None else None
    return {name or "input": given}


def submit_decisions(
    connection: Connection, run: RunRow, decisions: Mapping[str, Decision], ttl: int, mark: str
) -> None:
    """Let the run go on with `decisions`, by the calls' ids in its log, for at most `ttl` seconds. `mark` stands for
    what was said, so that the same, said again, is known. `state["told"]` is then the log's length so far;
    `state["turns"]` has for each time when, and which calls were answered (and not decided on)."""
    given = {**run.state.get("decisions", {}), **{call: asdict(one) for call, one in decisions.items()}}
    state = {**run.state, "decisions": given, "waiting": [], "marks": [*run.state.get("marks", ()), mark]}
    state |= {"told": length(connection, run.id), "usage_told": run.state.get("usage", {})}
    now = int(CLOCK.now())
    answered = [call for call, one in decisions.items() if one.kind == "respond"]
    state["turns"] = [*run.state.get("turns", ()), [now, answered]]
    update_run(connection, run, status="queued", state=state, expires_at=now + ttl)
