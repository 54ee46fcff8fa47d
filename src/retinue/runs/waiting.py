"""What a run waits for, and the answers: one pause, whether a person decides or a client runs its own tool."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict

from sqlalchemy import Connection, update

from ..schema import AgentAction, Decision
from ..store.log import length
from ..store.rows import RunRow
from ..store.tables import runs


def waiting_for(run: RunRow) -> list[AgentAction]:
    """The calls that a run waits for."""
    return [AgentAction(one["tool"], one["tool_input"], id=one["id"]) for one in run.state.get("waiting", ())]


def decide(connection: Connection, run: RunRow, decisions: Mapping[str, Decision], ttl: int, mark: str) -> None:
    """Let the run go on with `decisions`, by the calls' ids in its log, for at most `ttl` seconds. `mark` stands for
    what was said, so that the same, said again, is known. `state["told"]` is then the log's length so far."""
    given = {**run.state.get("decisions", {}), **{call: asdict(one) for call, one in decisions.items()}}
    state = {**run.state, "decisions": given, "waiting": [], "marks": [*run.state.get("marks", ()), mark]}
    state |= {"told": length(connection, run.id), "usage_told": run.state.get("usage", {})}
    values = {"status": "queued", "state": state, "expires_at": int(time.time()) + ttl}
    connection.execute(update(runs).where(runs.c.id == run.id).values(values))
