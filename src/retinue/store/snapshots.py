"""Snapshots of agents: the specifications with which runs began, each stored once per tenant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from sqlalchemy import Connection, select
from sqlalchemy.dialects import postgresql, sqlite

from .run_row import RunRow
from .tables import snapshots

_INSERT: Mapping[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


Snapshot: TypeAlias = tuple[str, Mapping[str, Any]]
"""The hash of an agent's specification, and that as JSON."""


class SnapshotWriter:
    """Stores the snapshots with which runs begin; `snapshot_of` gives that of a run's agent, if there is one."""

    def __init__(self, snapshot_of: Callable[[RunRow], Snapshot | None] = lambda run: None) -> None:
        self._snapshot_of = snapshot_of
        self._committed: set[tuple[str, str]] = set()

    def write(self, connection: Connection, run: RunRow) -> str | None:
        """Store the snapshot of a run that begins now, unless it is there. Return its hash."""
        snapshot = self._snapshot_of(run)
        if snapshot is None:
            return None
        digest, body = snapshot
        if (run.tenant, digest) not in self._committed:
            statement = _INSERT[connection.dialect.name](snapshots)
            values = {"tenant": run.tenant, "hash": digest, "body": body}
            connection.execute(statement.values(values).on_conflict_do_nothing())
        return digest

    def committed(self, run: RunRow) -> None:
        """Note that a run's snapshot is on the disk and need not be written again."""
        if run.snapshot:
            self._committed.add((run.tenant, run.snapshot))


def find_snapshot(connection: Connection, run: RunRow) -> Mapping[str, Any] | None:
    """Return the specification with which a run began; `None` if none was stored. It may hold anything if somebody else
    wrote it."""
    wanted = (snapshots.c.tenant == run.tenant, snapshots.c.hash == run.snapshot)
    body: Mapping[str, Any] | None = connection.execute(select(snapshots.c.body).where(*wanted)).scalar()
    return body
