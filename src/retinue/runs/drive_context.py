"""What the drives of a process have in common."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from ..errors import RetinueError
from ..limits.places import Room
from ..limits.quotas import QuotaWatch
from ..store.database import Database
from ..store.event_log import Entry
from ..store.run_belongings import SnapshotWriter
from ..store.run_row import RunRow
from ..store.tenant_view import Quota
from .follow import Notifier, Subscriptions
from .leases import acquired_new
from .log_writer import LogWriter, ParkedRuns
from .run_input import RunInput
from .teams import Conclude, Found, settle_caller

if TYPE_CHECKING:
    from .run_metrics import RunMetrics


class DriveContext(ABC):
    """The process as its drives see it. `Runs` is the only one, and documents the arguments.

    `parking` is set when the process stops, and `drives` says whether it takes runs. `live` are the runs that it
    drives, by their ids.
    """

    def __init__(
        self,
        database: Database,
        assign: Callable[[RunRow], Awaitable[RunInput]],
        human_ttl: int,
        conclude: Conclude,
        room: Room,
        live: Mapping[str, object],
    ) -> None:
        self.database = database
        self.assign = assign
        self.human_ttl = human_ttl
        self.conclude = conclude
        self.room = room
        self.live = live
        self.drives = True
        self.notifier = Notifier(database, live.keys())
        self.followers = Subscriptions(database, self.notifier)
        self.snapshots = SnapshotWriter()
        self.quotas = QuotaWatch(database)
        self.storage: Quota | None = None  # what a tenant may keep
        self.meter: RunMetrics | None = None
        self.failed: Callable[[str, RetinueError], None] = lambda run_id, error: None  # told why a run cannot go on
        self.parking = asyncio.Event()
        self.set_aside: set[str] = set()  # suspended runs that this process has tried, or suspended itself
        self.parked = ParkedRuns()

    @abstractmethod
    def go_on(self, run: RunRow) -> None:
        """Have a run driven that may begin, or go on. Its row says whether this process has acquired it."""

    @abstractmethod
    def ended(self, run: RunRow) -> None:
        """Take note of a run that this process has ended."""

    @abstractmethod
    def interrupt_members(self) -> None:
        """Interrupt the members, if any are driven, of runs that have ended."""

    def writer(self, run: RunRow, log: Sequence[Entry], found: Mapping[str, Found]) -> LogWriter:
        """Return the `LogWriter` of an acquired run. `log`: its entries so far; `found`: its members' runs by call."""
        writer = LogWriter(self.database, self.followers, run, log, found.keys(), self.parked)
        writer.live = self.live
        writer.meter = None if self.meter is None else self.meter.drive(run, log)
        return writer

    def acquire(self, connection: Connection, run: RunRow) -> RunRow:
        """Return the row of a run that is to be inserted, acquired by this process if it has room."""
        return acquired_new(connection, run, self.database.process, self.snapshots) if self._has_room(run) else run

    def settling(self, run_id: str, *, acquires: bool = False) -> tuple[Callable[..., None], list[RunRow]]:
        """Return what updates a run that its members have, in a transaction, and the rows that this changes. With
        `acquires`, this process acquires a run that goes on, if it has room."""
        changed: list[RunRow] = []

        def settle(connection: Connection) -> None:
            process = self.database.process if acquires and self._has_room() else None
            changed[:] = settle_caller(connection, run_id, self.human_ttl, self.conclude, process)

        return settle, changed

    def settled(self, changed: Sequence[RunRow]) -> None:
        """See to what follows from changes of runs that their members have, or had."""
        for row in changed:
            self.followers.look(row.id)
            if row.status == "in_progress":
                self.go_on(row)

    def _has_room(self, run: RunRow | None = None) -> bool:
        """Whether this process should acquire a run in passing."""
        if not self.drives or self.parking.is_set() or self.room.waiting:
            return False
        return self.room.admits(run) if run is not None else self.room.free > 0 and not self.room.limits.concern(None)
