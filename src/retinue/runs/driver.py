"""`Runs`: `drive(run_id)` replays a run's log and continues from there. It may be called at any time and repeatedly:
each drive acquires the run's next epoch, and only the latest epoch may write."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from sqlalchemy import Connection

from .._internal.supervision import supervise
from ..agent import Agent, Run
from ..core.events import Finished, Said, Started, Stopped, stopped_by
from ..core.log_context import LogContext, current_context, enter_context
from ..core.tool import Tool
from ..core.values import Image, Message, StopReason
from ..errors import AgentChanged, DataError, LogMismatch, RetinueError, StoreConflict, StoreUnavailable
from ..store.database import Database
from ..store.event_log import Change, Entry, Fenced, read_events
from ..store.run_row import REGARDLESS, RunRow
from ..store.run_store import find_run
from ..store.snapshots import SnapshotWriter
from .cancellation import discard_run, fail_drive
from .failpoints import failpoint
from .fair_scheduler import FairScheduler
from .leases import Lease, acquire_epoch, is_new, is_suspect, park_runs
from .log_writer import BACK_OFF, LogWriter
from .notifier import notifier_of
from .run_status import decisions, final_values
from .subscriptions import Subscriptions
from .suspension import suspend_run
from .thread_messages import messages_of

logger = logging.getLogger(__name__)
DriveEnd = Literal["ended", "waiting", "fenced", "parked", "suspended"]


@dataclass(frozen=True, slots=True)
class RunInput:
    """The agent and input of a run. A resumed run takes its question and history from its log, which has its `images`
    without their bytes."""

    agent: Agent
    question: str = ""
    history: Sequence[Message] = ()
    images: Sequence[Image] = ()


class Runs:
    """Drives the runs of one process.

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
        self.turns = turns or FairScheduler()
        self._live: dict[str, Run] = {}
        self.followers = Subscriptions(database, notifier_of(database, self._live.keys()))
        self.snapshots = SnapshotWriter()
        self._assign = assign
        self._ended = ended
        self._human_ttl = human_ttl
        self._conclude = conclude
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.here = self._tasks.keys()  # the runs that this process drives, or is about to
        self._wanted: set[str] = set()  # to be driven again
        self._interrupted: set[str] = set()
        self._beside: set[asyncio.Task[None]] = set()
        self._parking = False

    def start(self, run_id: str, run: RunRow | None = None) -> asyncio.Task[None]:
        """Drive the run in a background task once it is scheduled. If it is already being driven, drive it again
        afterwards, since new input may have arrived. Passing its row saves a query."""
        task = self._tasks.get(run_id)
        self._wanted.add(run_id)
        if task is None or task.done():
            work = supervise(f"driving the run {run_id}", partial(self._keep_driving, run_id, run))
            task = self._tasks[run_id] = asyncio.create_task(work, name=run_id)
            task.add_done_callback(lambda done: self._forget(run_id, done))
        return task

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

    async def close(self, grace: float) -> None:
        """Give running drives `grace` seconds to finish, then park the rest; parked runs resume at the next start."""
        for task in list(self._beside):
            task.cancel()
        for run_id in self.turns.waiting:
            self._tasks[run_id].cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=grace)
        self._parking = True
        parked = dict(self._tasks)
        for task in parked.values():
            task.cancel()
        await asyncio.gather(*parked.values(), return_exceptions=True)
        with suppress(StoreUnavailable):
            await self.database.write(partial(park_runs, run_ids=list(parked), process=self.database.process))

    def _forget(self, run_id: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(run_id) is task:
            del self._tasks[run_id]
            self._interrupted.discard(run_id)

    async def _keep_driving(self, run_id: str, run: RunRow | None) -> None:
        """Drive the run, with backoff while the database is unavailable."""
        enter_context(LogContext(run_id, current_context().request))
        tries = 0
        while run_id in self._wanted and not self._parking:
            try:
                if (run := run or await self.database.submit(partial(find_run, run_id=run_id))) is None:
                    self._wanted.discard(run_id)
                    return
                waits = run_id not in self._interrupted and run.status != "cancelling"  # else it only has to end
                async with self.turns.turn(run, waits=waits):
                    self._wanted.discard(run_id)
                    await self.drive(run_id, run.request)
            except StoreUnavailable as error:
                seconds = BACK_OFF[min(tries, len(BACK_OFF) - 1)]
                tries += 1
                self._wanted.add(run_id)
                logger.warning("the run %s is parked for %.1f s: %s", run_id, seconds, error)
                await asyncio.sleep(seconds)
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
        ("suspended"). Raises `StoreUnavailable` if the database is unavailable; the run can be resumed."""
        failpoint("before claim")
        lease: Lease | None = None
        with suppress(StoreConflict):
            process, snapshots = self.database.process, self.snapshots
            claim = partial(acquire_epoch, run_id=run_id, process=process, request=request, snapshots=snapshots)
            lease = await self.database.submit(claim)
        if lease is None:
            return "fenced"
        failpoint("after claim")
        self.snapshots.committed(lease.run)
        self.followers.publish(run_id, [lease.run])
        try:
            return await self._drive(lease)
        except Fenced:
            logger.info("the run %s was taken over", run_id)
            return "fenced"
        finally:
            self._live.pop(run_id, None)

    async def _drive(self, lease: Lease) -> DriveEnd:
        run = lease.run
        try:
            log = [] if is_new(run) else await self.database.read(partial(read_events, run_id=run.id))
        except DataError as error:
            logger.error("the run %s failed: %s", run.id, error)
            failed = await self.database.write(partial(fail_drive, held=run, problem=str(error)))
            self.followers.publish(run.id, [failed])
            self._ended(failed)
            return "ended"
        writer = LogWriter(self.database, self.followers, run, log)
        try:
            return await self._go_on(lease, writer)
        except (StoreUnavailable, Fenced):
            raise
        except Exception as error:  # no run may be left without a driver
            logger.exception("the run %s failed", run.id)
            problem = f"{type(error).__name__}: {error}"
            return await self._end(run, writer, Stopped(StopReason.ERROR, problem, code="server_error"))

    async def _go_on(self, lease: Lease, writer: LogWriter) -> DriveEnd:
        run = lease.run
        if lease.give_up:
            logger.error("the run %s failed: %s", run.id, lease.give_up)
            return await self._end(run, writer, Stopped(StopReason.ERROR, lease.give_up))
        if run.status == "cancelling" or run.ending:
            return await self._end(run, writer, Stopped(StopReason.CANCELLED))
        try:
            live, tools = await self._begin(run, writer)
        except StoreUnavailable:
            raise
        except AgentChanged as error:
            return await self._suspend(run, writer, error)
        except RetinueError as error:  # the request cannot be served
            logger.warning("the run %s failed: %s", run.id, error)
            return await self._end(run, writer, Stopped(StopReason.ERROR, str(error)), "invalid_prompt")
        self._live[run.id] = live
        if run.id in self._interrupted:
            live.cancel()
        try:
            return await self._follow(run, writer, live, tools)
        except (StoreUnavailable, StoreConflict, Fenced):
            raise
        except RetinueError as error:  # the log is of another agent, or the model's capabilities are unknown
            if run.snapshot and isinstance(error, LogMismatch):
                return await self._suspend(run, writer, error)
            logger.warning("the run %s failed: %s", run.id, error)
            return await self._end(run, writer, stopped_by(error))

    async def _begin(self, run: RunRow, writer: LogWriter) -> tuple[Run, Mapping[str, Tool]]:
        """Return the replayed run and its tools."""
        assigned = await self._assign(run)
        log = [entry.event for entry in writer.log if not isinstance(entry.event, Said)]
        asked: RunInput | Started = assigned
        if log and isinstance(log[0], Started):  # the input it started with, whatever changed since
            asked = log[0]
        live = Run(assigned.agent, asked.question, asked.history, log, decisions(run, log), key=run.id)
        live.images = assigned.images
        live.regardless = run.snapshot == REGARDLESS
        return live, {tool.name: tool for tool in assigned.agent.tools}

    async def _follow(self, run: RunRow, writer: LogWriter, live: Run, tools: Mapping[str, Tool]) -> DriveEnd:
        """Persist the events of `live` as they occur."""
        trusted = not is_suspect(run.attempts)  # else calls are written first, to know which one kills the process
        free = {name for name, tool in tools.items() if tool.effects == "read" and trusted}
        async with aclosing(live.events()) as events:
            async for event in events:
                if self._parking and isinstance(event, Stopped):
                    break
                if isinstance(event, Finished | Stopped):
                    return await self._end(run, writer, event, tools=tools)
                if not await writer.note(event, free):
                    live.cancel()
        return "parked"

    async def _suspend(self, run: RunRow, writer: LogWriter, problem: RetinueError) -> DriveEnd:
        """Suspend the run as it is, since it cannot go on with its agent."""
        words = f"the agent {run.agent} is not what it was when this run began, so the run waits: {problem}"
        work = partial(suspend_run, held=run, problem=words, ttl=self._human_ttl)
        row = await self.database.write(work)
        if row is None:
            return await self._end(run, writer, Stopped(StopReason.CANCELLED))
        logger.error("the run %s is suspended: %s; see retinue runs --help", run.id, words)
        self.followers.publish(run.id, [row])
        return "suspended"

    async def _end(
        self,
        run: RunRow,
        writer: LogWriter,
        event: Finished | Stopped,
        code: str = "server_error",
        tools: Mapping[str, Tool] | None = None,
    ) -> DriveEnd:
        failpoint("before the end")
        writer.put(event)

        def change(now: RunRow) -> Change:
            values = final_values(now, writer.log, tools or {}, code)
            if values["status"] == "requires_action":
                values["expires_at"] = int(writer.log[-1].at) + self._human_ttl
            said = list(messages_of(now, writer.log, values["status"]))
            return Change(values, said, lambda connection, after: self._conclude(connection, after, writer.log))

        after = await writer.written(change)
        failpoint("after the end")
        if after.active:
            return "waiting"
        self._ended(after)
        return "ended"
