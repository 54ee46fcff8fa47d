"""Forks of suspended runs: a new run begins with a part of another one's log, and goes on with the agent of today."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from itertools import takewhile

from sqlalchemy import Connection

from ..core.events import Paused, Resumed, Stopped
from ..errors import UsageError
from ..store.clock import CLOCK
from ..store.event_log import Entry, append_entries, read_events
from ..store.run_copies import copy_belongings
from ..store.run_row import REGARDLESS, RunRow
from ..store.run_store import find_run, insert_run
from .cancellation import cancel_run


def fork_run(connection: Connection, run_id: str, ttl: int, step: int | None = None) -> RunRow:
    """Cancel a suspended run, and insert one that goes on in its place, within `ttl` seconds: with its log up to the
    end of `step`, or with all of it. Return the new row.

    A person who was asked about a call of that step is asked again. Members at work begin anew. Raises `UsageError` if
    there is nothing to fork, `DataError` if the log cannot be read, and `StoreConflict` if the run is being changed."""
    run = find_run(connection, run_id, lock=True)
    if run is None:
        raise UsageError(f"there is no run {run_id[:80]!r}")
    if not run.suspended:
        raise UsageError(f"the run {run.id} is not suspended: its status is {run.status!r}")
    if run.parent_id is not None:
        raise UsageError(f"the run {run.id} is that of a team's member: fork the run at the top, {run.root_id}")
    log = _until(read_events(connection, run.id), step)
    cancel_run(connection, run)
    fork = run._replace(
        id=f"{run.id.partition('_')[0]}_{secrets.token_hex(12)}",
        created_at=int(CLOCK.now()),
        expires_at=int(CLOCK.now()) + ttl,
        epoch=1,
        driver=None,
        attempts=0,
        progress=None,
        error=None,
        waiting=(),
        turns=0,
        deleted=(),
        submissions=(),
        snapshot=REGARDLESS,
    )
    insert_run(connection, fork)
    copy_belongings(connection, run.id, fork.id)
    append_entries(connection, fork, log)
    return fork


def _until(log: Sequence[Entry], step: int | None) -> list[Entry]:
    """Return the entries up to the end of a step, without those that stop or resume the run there."""
    steps = [number for entry in log if (number := getattr(entry.event, "step", None)) is not None]
    if step is not None and step not in steps:
        raise UsageError(f"the run has no step {step}: its last one is {max(steps, default=0)}")
    kept = list(takewhile(lambda entry: step is None or (getattr(entry.event, "step", None) or 0) <= step, log))
    while kept and isinstance(kept[-1].event, Paused | Resumed | Stopped):
        kept.pop()
    return kept
