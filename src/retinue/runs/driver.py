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
from typing import Any, Protocol

from sqlalchemy import Connection

from .._internal.concurrency import supervise
from ..core.run_context import STORED_ID, current_run, enter_run_context
from ..errors import StoreConflict, StoreUnavailable
from ..limits.places import Room
from ..store.database import Database
from ..store.due import Due, Reason
from ..store.event_log import Entry, Fenced
from ..store.run_queries import find_run
from ..store.run_row import RunRow
from ..store.sealed_secrets import SecretOwner, secrets_for
from .cancellation import discard_run
from .drive import Drive, DriveEnd
from .drive_context import DriveContext
from .failpoints import failpoint
from .leases import Lease, acquire_epoch, claim_runs, park_runs
from .run_input import RunInput
from .run_traces import LostTraces
from .teams import read_origin

logger = logging.getLogger(__name__)


class Dispatcher(Protocol):
    """Tells workers of runs, by another way than the database, where they find them as well."""

    def dispatch(self, run_id: str) -> None:
        """Have a worker drive the run, and once more if one is at it."""
        ...

    @property
    def is_up(self) -> bool:
        """Whether this way is open."""
        ...


class Runs(DriveContext):
    """Drives the runs of one process.

    Args:
        assign: Resolves a run to its agent and input. Raises `RetinueError` if the run cannot be served.
        ended: Called after a run has ended.
        human_ttl: Seconds that a run waits for a person, or for its agent, before it expires.
        conclude: Writes further rows when a run ends or pauses, in the same transaction.
        room: The places for runs that are driven at once.
    """

    def __init__(
        self,
        database: Database,
        assign: Callable[[RunRow], Awaitable[RunInput]],
        ended: Callable[[RunRow], None] = lambda run: None,
        human_ttl: int = 86_400,
        conclude: Callable[[Connection, RunRow, Sequence[Entry]], None] = lambda connection, run, log: None,
        room: Room | None = None,
    ) -> None:
        self._live: dict[str, Drive] = {}
        super().__init__(database, assign, human_ttl, conclude, room or Room(), self._live)
        self._when_ended = ended
        self.dispatcher: Dispatcher | None = None  # another way to workers than the database
        self.traces = LostTraces(database)
        self.news = asyncio.Event()  # a run waits, or a place is free
        self.alive_at = time.monotonic()  # when others were last shown that this process is
        self.is_to_look = False  # whether there may be runs due of which this process does not know
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._acquired: dict[str, Lease] = {}  # by the transactions that claimed these runs, or let them go on
        self.here = self._tasks.keys()  # the runs that this process drives, or is about to
        self._wanted: set[str] = set()  # to be driven again
        self._interrupted: set[str] = set()
        self._beside: set[asyncio.Task[None]] = set()
        self._closing = False
        self.notifier.when_due = partial(self.wake, looks=True)

    def dispatch(self, run_id: str, run: RunRow | None = None) -> None:
        """Have the run driven soon, by this process or another one, and once more if it is being driven, since it has
        news: it was created or cancelled, a person or its client answered, or the last of its members ended. Return at
        once, and raise nothing. Call it in the event loop. Passing the run's row saves a query.

        A dispatch carries nothing but the run's id: what is to be done stands in the run's row and log, which were
        committed before. So it may be repeated, late or lost: `DueRuns` finds the run."""
        if run_id in self._tasks or (self.drives and not self.parking.is_set()):
            self.start(run_id, run)
        elif self.dispatcher is not None:
            self.dispatcher.dispatch(run_id)
        else:
            self.notifier.announce_due()

    def start(self, run_id: str, run: RunRow | None = None) -> asyncio.Task[None]:
        """Drive the run in a background task, if there is room. If it is already being driven, drive it again
        afterwards, since new input may have arrived. Passing its row saves a query."""
        task = self._tasks.get(run_id)
        self._wanted.add(run_id)
        if task is None or task.done():
            work = supervise(f"driving the run {run_id}", partial(self._keep_driving, run_id, run))
            task = self._tasks[run_id] = asyncio.create_task(work, name=run_id)
            task.add_done_callback(lambda done: self._forget(run_id, done))
            self.followers.starts(run_id)
        return task

    async def claim(self) -> int:
        """Begin the next of the runs that are known to wait, as far as there are places for them. Return how many."""
        if not self.drives or self._closing or not self.room.waiting:
            return 0
        offer = self.room.offer()
        if not offer.choose():
            return 0
        work = partial(claim_runs, offer=offer, process=self.database.process, snapshots=self.snapshots)
        claimed = await self.database.write(work)
        for run_id in claimed.chosen:  # the others have them
            self.room.waiting.pop(run_id, None)
        for lease in claimed.leases:
            self._acquired[lease.run.id] = lease
            self.room.take(lease.run)
            self.start(lease.run.id, lease.run)
        for run_id in claimed.unreadable:
            self.start(run_id)
        return len(claimed.leases) + len(claimed.unreadable)

    def go_on(self, run: RunRow) -> None:
        """Have a run driven that may begin, or go on. Its row says whether this process has acquired it."""
        if run.driver == self.database.process:
            self._acquired[run.id] = Lease(run, begins=run.epoch == 1)
            self.start(run.id, run)
        else:
            self.dispatch(run.id, run)

    def wake(self, *, looks: bool = False) -> None:
        """Have `DueRuns` begin the runs that wait, and look for others if need be."""
        self.is_to_look = self.is_to_look or looks
        self.news.set()

    @property
    def stopping(self) -> bool:
        """Whether this process leaves its runs to the next one."""
        return self.parking.is_set()

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
        return run_id in self._tasks

    def interrupt_members(self) -> None:
        """Interrupt the members, if any are driven, of runs that have ended."""
        if any(drive.caller is not None for drive in self._live.values()):
            self.wake(looks=True)

    async def leave(self, run_id: str) -> None:
        """Stop driving a run and its members, and leave them to whoever goes on with them."""
        mine = [run_id, *(one for one, drive in self._live.items() if drive.root == run_id)]
        tasks = [self._tasks[one] for one in mine if one in self._tasks]
        self._wanted.difference_update(mine)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.database.write(partial(park_runs, run_ids=mine, process=self.database.process))

    def halted(self, run: RunRow | None) -> None:
        """See to what follows when a run was ended from outside: it is interrupted, and its readers are told."""
        if run is None:
            return
        self.room.waiting.pop(run.id, None)
        self.followers.look(run.id)
        driven = self.interrupt(run.id)
        self.interrupt_members()
        if not run.active:
            if self.meter is not None:
                self.meter.ended(run)
            if self.traces.is_on:
                self.beside("spans of a run that was ended", partial(self.traces.send_ended, run))
        elif run.status in ("in_progress", "cancelling") and not driven:
            self.notifier.announce_due()  # whoever drives it interrupts it
            self.wake(looks=True)  # or it has died

    async def settle(self, run_id: str) -> None:
        """Let a run go on, or wait for a person, if its members have it and none of them is at work."""
        settle, settled = self.settling(run_id)
        await self.database.write(settle)
        self.settled(settled)

    async def close(self, grace: float) -> None:
        """Give running drives `grace` seconds to finish, then park the rest; parked runs resume at the next start."""
        self._closing = True
        for task in list(self._beside):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=grace)
        self.parking.set()
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
            if self.room.leave(run_id):
                self.wake()

    async def _keep_driving(self, run_id: str, run: RunRow | None) -> None:
        """Drive the run, with backoff while the database is unavailable."""
        enter_run_context(replace(current_run().of_run(run_id), parks=self.parking.is_set))
        tries = 0
        while run_id in self._wanted and not self.parking.is_set():
            try:
                if (run := run or await self.database.submit(partial(find_run, run_id=run_id))) is None:
                    self._wanted.discard(run_id)
                    return
                self._wanted.discard(run_id)
                if run_id not in self._acquired and run_id not in self._interrupted and not self.room.admits(run):
                    self._queue(run)
                    return
                self.room.take(run)
                await self.drive(run_id, run.request)
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

    def _queue(self, run: RunRow) -> None:
        """Leave a run for which there is no room to whoever has a place first."""
        tier = run.request.get("service_tier")
        due = Due(Reason.DRIVE, run.id, run.tenant, run.agent, run.key_id, tier=tier)
        self.room.waiting[run.id] = due
        self.wake()
        self.notifier.announce_due()

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
                work = partial(
                    acquire_epoch,
                    run_id=run_id,
                    process=self.database.process,
                    request=request,
                    snapshots=self.snapshots,
                )
                with suppress(StoreConflict):
                    lease = await self.database.submit(work)
            if lease is None:
                await self.settle(run_id)
                return "fenced"
            failpoint("after claim")
            self.followers.publish(run_id, [lease.run])
            if self.meter is not None:
                self.meter.acquired(lease.run, begins=lease.begins, taken_over=lease.taken_over)
            return await self._drive_leased(lease)
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

    async def _drive_leased(self, lease: Lease) -> DriveEnd:
        run_id, began = lease.run.id, time.perf_counter()
        context = current_run()
        if context.run == run_id:  # perhaps it was requested of another process, or before a restart
            known = context.request or str(lease.run.request.get(STORED_ID, ""))
            whose = SecretOwner(lease.run.tenant, lease.run.user)
            finds = secrets_for(self.database, whose)
            told = {"tenant": whose.tenant, "user": whose.user or "", **read_origin(lease.run)}
            enter_run_context(replace(context, request=known, find_secret=finds, revealed=set(), **told))
        end: DriveEnd = "parked"
        drive = self._live[run_id] = Drive(self, lease)
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
