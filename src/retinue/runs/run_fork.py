"""Forks of stored runs: a new run begins with a part of another one's log, and goes on with the agent of today.

A fork of a suspended run takes its place. Any other run stays as it is, and its fork is a run of its own, without a
thread.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection

from .._internal.message_text import suggest_name
from ..core.events import Started
from ..core.run_result import find_last_version
from ..errors import UsageError
from ..run.fork import ForkPoint, KeptEvent, find_last_step, fork_log
from ..store.clock import CLOCK
from ..store.event_log import Entry, append_entries, read_events
from ..store.run_belongings import copy_belongings
from ..store.run_queries import find_run, insert_run
from ..store.run_row import REGARDLESS, RunRow
from ..store.usage_sums import count_run, mark_counted
from ..store.workspaces import copy_version, find_version, place_of
from .cancellation import cancel_run


@dataclass(frozen=True, slots=True)
class ForkEdits:
    """What is other in a fork.

    Args:
        point: Where it begins, and what is edited there. New instructions are those of the request, to which the
            agent's are added.
        agent: The agent that goes on; by default the run's.
        tools: The names of the tools that it keeps; by default all.
        without_tools: The names of tools that it does not keep.
        known_tools: Names that may be among these besides those that the run had.
        metadata: That of the fork.
        key_id: The API key that requests it.
    """

    point: ForkPoint = field(default_factory=ForkPoint)
    agent: str | None = None
    tools: Collection[str] | None = None
    without_tools: Collection[str] = ()
    known_tools: Collection[str] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    key_id: str | None = None


def fork_run(connection: Connection, run_id: str, ttl: int, edits: ForkEdits = ForkEdits()) -> RunRow:
    """Insert a run that begins with the log of another one, and goes on within `ttl` seconds. Return its row.

    A suspended run is cancelled, and its fork takes its place. A person who was asked about a call without an outcome
    is asked again, and members at work begin anew. Raises `UsageError` if it cannot be forked there, `DataError` if the
    log cannot be read, and `StoreConflict` if the run is being changed."""
    run = find_run(connection, run_id, lock=True)
    if run is None:
        raise UsageError(f"there is no run {run_id[:80]!r}")
    if run.kind == "imported":
        raise UsageError(f"the run {run.id} was imported: nobody here decided what is in it, so it cannot go on")
    if run.suspended and run.parent_id is not None:
        raise UsageError(f"the run {run.id} is that of a team's member: fork the run at the top, {run.root_id}")
    log = read_events(connection, run.id)
    point = edits.point
    if point.instructions is not None or edits.agent not in (None, run.agent):
        point = replace(point, rewritten=True)
    kept = fork_log([entry.event for entry in log], point)
    fork = _row(run, edits, kept, ttl)
    if run.suspended:
        cancel_run(connection, run)
    insert_run(connection, fork)
    count_run(connection, fork.tenant, fork.created_at, "forks", fork.user)
    copy_belongings(connection, run.id, fork.id)
    files = place_of(connection, run).id
    copy_version(connection, files, _files_version(connection, files, log, kept), fork, history=True)
    append_entries(connection, fork, _entries(log, kept))
    mark_counted(connection, fork.id, len(kept))
    return fork


def _row(run: RunRow, edits: ForkEdits, kept: Sequence[KeptEvent], ttl: int) -> RunRow:
    """Return the row of a fork."""
    now = int(CLOCK.now())
    fork = RunRow(
        id=f"{run.id.partition('_')[0]}_{secrets.token_hex(12)}",
        tenant=run.tenant,
        thread_id=None,
        created_at=now,
        status="queued",
        holds=True,
        expires_at=now + ttl,
        epoch=1,
        request=_request(run, edits, kept),
        key_id=edits.key_id or run.key_id,
        kind="fork",
        agent=edits.agent or run.agent,
        metadata=dict(edits.metadata),
        stored=True,
        snapshot=REGARDLESS,
        forked_from=run.id,
        user=run.user,
    )
    if not run.suspended:
        return fork
    place = {name: getattr(run, name) for name in ("thread_id", "holds", "key_id", "kind", "started_at", "stored")}
    return fork._replace(**place, metadata=dict(edits.metadata) or run.metadata)


def _request(run: RunRow, edits: ForkEdits, kept: Sequence[KeptEvent]) -> dict[str, Any]:
    """Return the request of a fork: that of the run, with what is edited."""
    request = {**run.request, "forked_from": {"run_id": run.id, "step": find_last_step(kept)}}
    if edits.agent is not None:
        request["model"] = edits.agent
    if edits.point.instructions is not None:
        request["instructions"] = edits.point.instructions
    if edits.tools is None and not edits.without_tools:
        return request
    had = next((one.event.tools for one in kept if isinstance(one.event, Started)), ())
    known = {*had, *edits.known_tools}
    for name in (*(edits.tools or ()), *edits.without_tools):
        if name not in known:
            raise UsageError(f"the run has no tool {name[:80]!r}; {suggest_name(name, sorted(known))}")
    left = edits.tools if edits.tools is not None else had
    request["only_tools"] = [name for name in left if name not in edits.without_tools]
    return request


def _files_version(connection: Connection, files: str, log: Sequence[Entry], kept: Sequence[KeptEvent]) -> int:
    """Return the version of the run's files where its fork begins. What its members wrote, and what was there before,
    only the times tell; clocks of processes may differ, so it is no other one than its own calls leave open."""
    last = max((one.place for one in kept if one.place is not None), default=0)
    done = find_last_version(entry.event for entry in log[: last + 1])
    later = filter(None, (find_last_version([entry.event]) for entry in log[last + 1 :]))
    return max(done, min(find_version(connection, files, log[last].at), next(later, sys.maxsize) - 1))


def _entries(log: Sequence[Entry], kept: Sequence[KeptEvent]) -> list[Entry]:
    """Return the entries of a fork's log, with the times of the other one's."""
    found: list[Entry] = []
    for seq, (place, event) in enumerate(kept, 1):
        at = log[place].at if place is not None else CLOCK.now()
        found.append(Entry(seq, at, event))
    return found
