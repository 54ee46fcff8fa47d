"""Recorded runs for the commands that replay them or keep them: from a server's database, or from a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.events import Started
from ..core.serialization import from_json
from ..errors import DataError, UsageError
from ..run.recorded_effects import NumberedEvent, number_events
from ..run.replay import Recording, Replay, replay_run
from .server_database import server_database

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from ..agent import Agent
    from ..runs.run_export import RunExport
    from ..store.run_row import RunRow

_HOSTED = ("file_search", "code_interpreter")  # tools of a server, which a file does not have
_MOST_BYTES = 100_000_000


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run that is recorded.

    Args:
        name: How it is told from others.
        agent: The path of its agent.
        log: Its events.
        row: Its row, if it is of a database.
        kept: The last step that was another run's, of which it is a fork; -1 if there is none.
        path: That of its call, if it is a member's: `call_1_0/call_2_0`.
        is_anonymous: Whether the log may be of an agent under another name than that in the file.
    """

    name: str
    agent: str
    log: Sequence[NumberedEvent]
    row: RunRow | None = None
    kept: int = -1
    path: str = ""
    is_anonymous: bool = False

    async def replay(self, agent: Agent) -> Replay:
        """Replay it with `agent`, as the run's request wanted it."""
        adapted = agent if self.row is None else _adapted(agent, self.row)
        spec = adapted.run_spec()
        return await replay_run(spec, Recording(self.log, spec.budget, kept=self.kept))


def run_of_file(path: Path) -> list[RecordedRun]:
    """Return the run in a file, and those of its members. Raises `DataError` if the file holds none."""
    if path.stat().st_size > _MOST_BYTES:
        raise DataError(f"{path}: the file is larger than {_MOST_BYTES:,} bytes")
    text = path.read_text("utf-8", errors="replace")
    if '"run.export"' in text[:200]:
        return _of_export(text, path)
    events = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                events.append(from_json(line))
            except DataError as error:
                raise DataError(f"{path}:{number}: {error}") from error
    started = events[0] if events else None
    if not isinstance(started, Started):
        raise DataError(f"{path}: want the JSON lines of a run, which begin with the event 'started'")
    return [RecordedRun(str(path), started.agent, number_events(events), is_anonymous=True)]


def _of_export(text: str, path: Path) -> list[RecordedRun]:
    from ..runs.run_export import events_of, parse_export

    try:
        given: RunExport = parse_export(text)
        return [
            RecordedRun(
                f"{path}{f' ({place})' if place else ''}",
                one.run.model,
                [NumberedEvent(entry.seq, entry.event) for entry in events_of(one)],
                kept=-1 if one.run.forked_from is None else one.run.forked_from.step,
                path=place,
                is_anonymous=not place,
            )
            for place, one in given.each()
        ]
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def runs_of_database(db: str, run_id: str) -> list[RecordedRun]:
    """Return a run of a database, and those of its members. Raises `UsageError` if there is none."""
    with server_database(db) as connection:
        from ..store.run_queries import find_run

        run = find_run(connection, run_id)
        if run is None:
            raise UsageError(f"there is no run {run_id[:80]!r}; retinue runs list shows those that there are")
        return _with_members(connection, run)


def _with_members(connection: Connection, run: RunRow, path: str = "") -> list[RecordedRun]:
    from ..store.event_log import read_events
    from ..store.run_queries import member_runs

    log = [NumberedEvent(entry.seq, entry.event) for entry in read_events(connection, run.id)]
    origin = (run.request.get("imported_from") or run.request).get("forked_from") or {"step": -1}
    found = [RecordedRun(run.id, run.agent, log, run, origin["step"], path)] if log else []
    for member in member_runs(connection, run.id):
        found += _with_members(connection, member, f"{path}/{member.call_id}".lstrip("/"))
    return found


def _adapted(agent: Agent, run: RunRow) -> Agent:
    """Return the agent as the run's request wanted it. Raises `UsageError` for tools that only a server has."""
    from ..server.agent_resolver import within_budget
    from ..server.agents.overrides import override_agent

    request: Any = run.request
    if hosted := [one["type"] for one in request.get("tools") or () if one.get("type") in _HOSTED]:
        there = f"replay it there, by POST /v1/runs/{run.id}/replay"
        raise UsageError(f"the run {run.id} had the server's own tool {hosted[0]!r}: {there}")
    if "budget" in request:  # a member's
        agent = within_budget(agent, request["budget"])
        return agent if run.kind == "member" else override_agent(agent, request)
    return override_agent(agent, request)
