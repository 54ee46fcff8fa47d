"""`Runs`: `drive(run_id)` replays a run's log and continues from there. It may be called at any time and repeatedly:
each drive acquires the run's next epoch, and only the latest epoch may write."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from .._internal.concurrency import supervise
from ..core.run_context import STORED_ID, current_run, enter_run_context
from ..errors import StoreConflict, StoreUnavailable
from ..limits.quotas import QuotaWatch
from ..store.database import Database
from ..store.event_log import Entry, Fenced
from ..store.run_belongings import SnapshotWriter
from ..store.run_queries import find_run, runs_to_interrupt
from ..store.run_row import RunRow
from .cancellation import discard_run
from .concurrency_limits import ConcurrencyLimits
from .dispatcher import Dispatcher
from .drive import Drive, DriveEnd
from .drive_context import DriveContext
from .failpoints import failpoint
from .fair_scheduler import FairScheduler
from .leases import Lease, acquire_epoch, park_runs
from .lost_traces import LostTraces
from .notifier import notifier_of
from .run_input import RunInput
from .subscriptions import Subscriptions

if TYPE_CHECKING:
    from .run_metrics import LogMetrics, RunMetrics

logger = logging.getLogger(__name__)


class Runs:
    """Drives the runs of one process. `dispatch` has a run driven: by this process, unless it is replaced by that of
    another `Dispatcher`.

    Args:
        assign: Resolves a run to its agent and input. Raises `RetinueError` if the run cannot be served.
        ended: Called after a run has ended.
        human_ttl: Seconds that a run waits for a person, or for its agent, before it expires.
        conclude: Writes further rows when a run ends or pauses, in the same transaction.
        turns: Limits how many runs are driven concurrently.
    """

    def __init__(
        self,
        database: Database,
        assign: Callable[[RunRow], Awaitable[RunInput]],
        ended: Callable[[RunRow], None] = lambda run: None,
        human_ttl: int = 86_400,
        conclude: Callable[[Connection, RunRow, Sequence[Entry]], None] = lambda connection, run, log: None,
        turns: FairScheduler | None = None,
    ) -> None:
        self.database = database
        self.assign = assign
        self.turns = turns or FairScheduler()
        self.dispatch: Dispatcher = self.start
        self.dispatches: Callable[[], bool] | None = None  # whether what dispatches for others takes runs
        self._live: dict[str, Drive] = {}
        self.notifier = notifier_of(database, self._live.keys())
        self.followers = Subscriptions(database, self.notifier)
        self.snapshots = SnapshotWriter()
        self.limits: ConcurrencyLimits | None = None
        self.meter: RunMetrics | None = None
        self._when_ended = ended
        self.quotas = QuotaWatch(database)
        self._context = DriveContext(
            database,
            self.followers,
            assign,
            self.ended,
            human_ttl,
            conclude,
            self.snapshots,
            self._go_on,
            self._has_room,
            self.interrupt_members,
            self._drive_meter,
            self.quotas,
            self._live,
        )
        self.parked = self._context.parked
        self.traces = LostTraces(database)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._acquired: dict[str, Lease] = {}  # by the transactions that let these runs begin, or go on
        self.here = self._tasks.keys()  # the runs that this process drives, or is about to
        self._wanted: set[str] = set()  # to be driven again
        self._interrupted: set[str] = set()
        self._beside: set[asyncio.Task[None]] = set()

    def start(self, run_id: str, run: RunRow | None = None) -> asyncio.Task[None]:
        """Drive the run in a background task once it is scheduled. If it is already being driven, drive it again
        afterwards, since new input may have arrived. Passing its row saves a query."""
        task = self._tasks.get(run_id)
        self._wanted.add(run_id)
        if task is None or task.done():
            work = supervise(f"driving the run {run_id}", partial(self._keep_driving, run_id, run))
            task = self._tasks[run_id] = asyncio.create_task(work, name=run_id)
            task.add_done_callback(lambda done: self._forget(run_id, done))
            self.followers.starts(run_id)
        return task

    def _go_on(self, run: RunRow) -> None:
        """Have a run driven that may begin, or go on. If this process has acquired it already, it drives it."""
        if run.driver == self.database.process:
            self._acquired[run.id] = Lease(run, begins=run.epoch == 1)
            self.start(run.id, run)
        else:
            self.dispatch(run.id, run)

    def _has_room(self) -> bool:
        """Whether this process should acquire a run without asking for its turn, and whether there is room for it."""
        return self.limits is None and not self.turns.queued and not self._context.parking.is_set()

    async def _dispatch_next(self, limits: ConcurrencyLimits) -> None:
        """Have the runs driven for which there is room by now."""
        chosen = partial(limits.next_runs, process=self.database.process, most=self.turns.at_once)
        with suppress(StoreUnavailable):  # the next end of a run, or recovery, tries again
            for run_id in await self.database.read(chosen):
                if run_id not in self._live and not self._context.parking.is_set():
                    self.dispatch(run_id)

    @property
    def stopping(self) -> bool:
        """Whether this process leaves its runs to the next one."""
        return self._context.parking.is_set()

    def beside(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run background work beside the runs; `close` cancels it."""
        task = asyncio.create_task(supervise(name, work))
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    def interrupt(self, run_id: str) -> bool:
        """Interrupt the run's current work. Return whether this process was driving it."""
        if run_id in self._live:
            self._live[run_id].cancel()
        elif run_id in self._tasks:  # about to start
            self._interrupted.add(run_id)
            self.turns.let_by(run_id)
        return run_id in self._tasks

    async def interrupt_cancelled(self) -> None:
        """Interrupt the runs that were cancelled, or expired, otherwise than through this object."""
        for run_id in await self.database.read(partial(runs_to_interrupt, process=self.database.process)):
            self.interrupt(run_id)

    def interrupt_members(self) -> None:
        """Interrupt the members, if any are driven, of runs that have ended."""
        if any(drive.caller is not None for drive in self._live.values()):
            self.beside("interrupting members", self.interrupt_cancelled)

    async def close(self, grace: float) -> None:
        """Give running drives `grace` seconds to finish, then park the rest; parked runs resume at the next start."""
        for task in list(self._beside):
            task.cancel()
        for run_id in self.turns.waiting:
            self._tasks[run_id].cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=grace)
        self._context.parking.set()
        parked = dict(self._tasks)
        for task in parked.values():
            task.cancel()
        await asyncio.gather(*parked.values(), return_exceptions=True)
        with suppress(StoreUnavailable):
            await self.database.write(partial(park_runs, run_ids=list(parked), process=self.database.process))

    def _forget(self, run_id: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(run_id) is task:
            del self._tasks[run_id]
            self.followers.has_ended(run_id)
            self._interrupted.discard(run_id)

    async def _keep_driving(self, run_id: str, run: RunRow | None) -> None:
        """Drive the run, with backoff while the database is unavailable."""
        enter_run_context(replace(current_run().of_run(run_id), parks=self._context.parking.is_set))
        tries = 0
        while run_id in self._wanted and not self._context.parking.is_set():
            try:
                if (run := run or await self.database.submit(partial(find_run, run_id=run_id))) is None:
                    self._wanted.discard(run_id)
                    return
                waits = run_id not in self._interrupted and run.status != "cancelling"  # else it only has to end
                async with self.turns.turn(run, waits=waits):
                    self._wanted.discard(run_id)
                    await self.drive(run_id, run.request)
                if self.limits is not None:
                    await self._dispatch_next(self.limits)
            except StoreUnavailable as error:
                self._wanted.add(run_id)
                await self.parked.wait(run_id, error, tries)
                tries += 1
            except Exception as error:  # the row holds data that we did not write
                logger.exception("the run %s cannot be driven", run_id)
                problem = f"the stored data of this run cannot be read ({type(error).__name__})"
                self._wanted.add(run_id)  # until the failure is written
                await self.database.write(partial(discard_run, run_id=run_id, problem=problem))
                self._wanted.discard(run_id)
                self.followers.look(run_id)

    async def drive(self, run_id: str, request: Mapping[str, Any] | None = None) -> DriveEnd:
        """Drive the run, and return how that ended. Passing its `request` saves reading it.

        The run has "ended", or is "waiting" for a person or its client; there was nothing to drive, or another drive
        took it over ("fenced"); this process stops and leaves it to the next one ("parked"); or its agent changed
        ("suspended"). Raises `StoreUnavailable` if the database is unavailable, or others were first again and again;
        the run can be resumed."""
        failpoint("before claim")
        try:
            lease = self._acquired.pop(run_id, None)
            if lease is None:
                with suppress(StoreConflict):
                    lease = await self.database.submit(self._claim_of(run_id, request))
            if lease is None:
                settle, settled = self._context.settling(run_id)
                await self.database.write(settle)
                self._context.settled(settled)
                return "fenced"
            failpoint("after claim")
            self.followers.publish(run_id, [lease.run])
            if self.meter is not None:
                self.meter.acquired(lease.run, begins=lease.begins, taken_over=lease.taken_over)
            return await self._driven(lease)
        except Fenced:
            logger.info("the run %s was taken over", run_id)
            return "fenced"
        except StoreConflict as error:
            raise StoreUnavailable(str(error)) from error

    def ended(self, run: RunRow) -> None:
        """Take note of a run that this process has ended."""
        if self.meter is not None:
            self.meter.ended(run)
        self._when_ended(run)

    def _drive_meter(self, run: RunRow, log: Sequence[Entry]) -> LogMetrics | None:
        return None if self.meter is None else self.meter.drive(run, log)

    async def _driven(self, lease: Lease) -> DriveEnd:
        """Drive the run that was leased."""
        run_id, began = lease.run.id, time.perf_counter()
        context = current_run()
        if context.run == run_id and not context.request:  # it was requested of another process, or before a restart
            enter_run_context(replace(context, request=str(lease.run.request.get(STORED_ID, ""))))
        end: DriveEnd = "parked"
        drive = self._live[run_id] = Drive(self._context, lease)
        if run_id in self._interrupted:
            drive.cancel()
        try:
            end = await drive.run()
            return end
        except Fenced:
            end = "fenced"
            raise
        finally:
            self._live.pop(run_id, None)
            if self.meter is not None:
                self.meter.drove(end, time.perf_counter() - began)

    def _claim_of(self, run_id: str, request: Mapping[str, Any] | None) -> Callable[[Connection], Lease | None]:
        return partial(
            acquire_epoch,
            run_id=run_id,
            process=self.database.process,
            request=request,
            snapshots=self.snapshots,
            limits=self.limits,
        )
