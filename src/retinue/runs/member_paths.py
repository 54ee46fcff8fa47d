"""Paths to the calls of members' runs, such as `call_1_0/call_2_0`: the call of a member, and a call in its run."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from sqlalchemy import Connection

from ..core.events import Paused, Resumed
from ..core.run_result import pending
from ..core.values import Decision
from ..store.clock import CLOCK
from ..store.event_log import Entry, read_events
from ..store.run_row import RunRow


def member_run_id(run_id: str, call: str) -> str:
    """Return the id of the run of a member, which its caller's run and the call determine."""
    return f"run_{hashlib.sha256(f'{run_id}/{call}'.encode()).hexdigest()[:24]}"


def resume_entries(connection: Connection, run: RunRow, decisions: Mapping[str, Decision]) -> list[Entry]:
    """Return the entries for decisions on members' calls, which the caller's log gets."""
    log = read_events(connection, run.id)
    waiting = {action.id for action in pending(entry.event for entry in log)}
    steps = {entry.event.action.id: entry.event.step for entry in log if isinstance(entry.event, Paused)}
    given = [(call, one) for call, one in decisions.items() if "/" in call and call in waiting]
    first = log[-1].seq + 1 if log else 1
    return [Entry(first + at, CLOCK.now(), Resumed(steps[call], call, one)) for at, (call, one) in enumerate(given)]


def by_member(run_id: str, decisions: Mapping[str, Decision]) -> dict[str, dict[str, Decision]]:
    """Return the decisions on members' calls, by the id of the member's run, and then by the call in its log."""
    found: dict[str, dict[str, Decision]] = {}
    for path, decision in decisions.items():
        call, inside, rest = path.partition("/")
        if inside:
            found.setdefault(member_run_id(run_id, call), {})[rest] = decision
    return found


def decided_members(run: RunRow) -> list[str]:
    """Return the ids of the runs, below this one, that the last submission concerns."""
    found: dict[str, None] = {}
    for path in run.submissions[-1].decisions if run.submissions else ():
        below = run.id
        for call in path.split("/")[:-1]:
            below = member_run_id(below, call)
            found[below] = None
    return list(found)
