"""What the drives of a process have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from ..limits.quotas import QuotaWatch
from ..store.database import Database
from ..store.event_log import Entry
from ..store.run_belongings import SnapshotWriter
from ..store.run_row import RunRow
from .caller_logs import CallerLogs
from .leases import acquired_new
from .log_writer import LogWriter
from .member_runs import Conclude, Found, settle_caller
from .parked_runs import ParkedRuns
from .run_input import RunInput
from .subscriptions import Subscriptions

if TYPE_CHECKING:
    from .run_metrics import LogMetrics


@dataclass(frozen=True, slots=True)
class DriveContext:
    """What drives have in common: `Runs` documents it. `start` drives another run in the background, whose row says
    whether this process has acquired it. `has_room` says whether it should acquire further ones. `left` interrupts the
    members of a run that has ended. `meter` returns what counts a drive, if anything does. `quotas` says whether a
    tenant's runs may ask models. `live` are the drives of this process. `parking` is set when the process stops."""

    database: Database
    followers: Subscriptions
    assign: Callable[[RunRow], Awaitable[RunInput]]
    ended: Callable[[RunRow], None]
    human_ttl: int
    conclude: Conclude
    snapshots: SnapshotWriter
    start: Callable[[RunRow], object]
    has_room: Callable[[], bool]
    left: Callable[[], None]
    meter: Callable[[RunRow, Sequence[Entry]], LogMetrics | None]
    quotas: QuotaWatch
    live: Sized
    parking: asyncio.Event = field(default_factory=asyncio.Event)
    callers: CallerLogs = field(default_factory=CallerLogs)
    parked: ParkedRuns = field(default_factory=ParkedRuns)

    def writer(self, run: RunRow, log: Sequence[Entry], found: Mapping[str, Found]) -> LogWriter:
        """Return what writes the log of an acquired run, which is `log` so far; `found` are its members."""
        writer = LogWriter(self.database, self.followers, run, log, found.keys(), self.parked)
        writer.live = self.live
        writer.meter = self.meter(run, log)
        return writer

    def acquire(self, connection: Connection, run: RunRow) -> RunRow:
        """Return the row of a run that is to be inserted, acquired by this process if it has room."""
        return acquired_new(connection, run, self.database.process, self.snapshots) if self.has_room() else run

    def settling(self, run_id: str, *, acquires: bool = False) -> tuple[Callable[..., None], list[RunRow]]:
        """Return what updates a run that its members have, in a transaction, and the rows that this changes. With
        `acquires`, this process acquires a run that goes on, if it has room."""
        changed: list[RunRow] = []

        def settle(connection: Connection) -> None:
            process = self.database.process if acquires and self.has_room() else None
            changed[:] = settle_caller(connection, run_id, self.human_ttl, self.conclude, process)

        return settle, changed

    def settled(self, changed: Sequence[RunRow]) -> None:
        """See to what follows from changes of runs that their members have, or had."""
        for row in changed:
            self.followers.look(row.id)
            if row.status == "in_progress":
                self.start(row)
