"""One drive of a run: its log is replayed, the run goes on from the log's end, and its events are written."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence, Set
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Literal

from sqlalchemy import Connection

from ..agent import Run
from ..core.events import ENDINGS, Finished, Said, Stopped, find_started, make_stopped
from ..core.protocols import Task
from ..core.run_context import current_run, enter_run_context
from ..core.tools.delegation import is_member, makes_helpers
from ..core.tools.tool import Tool
from ..core.values import StopReason
from ..errors import AgentChanged, DataError, LogMismatch, RetinueError, StoreConflict, StoreUnavailable
from ..harness import wants_workspace
from ..limits.quotas import QuotaStop
from ..run.run import Earlier
from ..store.event_log import Change, Entry, Fenced
from ..store.run_row import REGARDLESS, RunRow, RunValues
from ..store.user_records import StoredRecords
from .cancellation import cancel_members, fail_drive
from .drive_context import DriveContext
from .failpoints import failpoint
from .leases import Lease, is_new, is_suspect
from .log_writer import LogWriter
from .run_texts import StoredTexts
from .run_traces import trace_run
from .status import decisions, final_values, step_values
from .stored_workspace import StoredWorkspace
from .submissions import suspend_run
from .teams import Caller, ChildRuns, Found, read_with_members
from .thread_messages import messages_of

logger = logging.getLogger(__name__)
DriveEnd = Literal["ended", "waiting", "fenced", "parked", "suspended"]


class Drive:
    """Drives the run that was leased."""

    def __init__(self, context: DriveContext, lease: Lease) -> None:
        self._context = context
        self._run = lease.run
        self._give_up = lease.give_up
        self._live: Run | None = None
        self._cancelled = False
        self._found: Mapping[str, Found] = {}  # its members that are at work, or have ended since
        self.caller = lease.run.parent_id
        self.root = lease.run.root_id

    def cancel(self) -> None:
        """Interrupt the run's current work."""
        self._cancelled = True
        if self._live is not None:
            self._live.cancel()

    async def run(self) -> DriveEnd:
        """Drive the run. Raises `Fenced` if another drive has it by now, `StoreConflict` if others were first again and
        again, and `StoreUnavailable`."""
        run = self._run
        try:
            log: Sequence[Entry] = []
            if not is_new(run):
                log, self._found = await self._context.database.read(partial(read_with_members, run_id=run.id))
        except DataError as error:
            logger.error("the run %s failed: %s", run.id, error)
            failed = await self._context.database.write(partial(fail_drive, held=run, problem=str(error)))
            self._context.followers.publish(run.id, [failed])
            self._context.ended(failed)
            return "ended"
        writer = self._context.writer(run, log, self._found)
        try:
            return await self._go_on(writer)
        except (StoreUnavailable, StoreConflict, Fenced):
            raise
        except Exception as error:  # no run may be left without a driver
            logger.exception("the run %s failed", run.id)
            problem = f"{type(error).__name__}: {error}"
            return await self._end(writer, Stopped(StopReason.ERROR, problem, code="server_error"))

    async def _go_on(self, writer: LogWriter) -> DriveEnd:
        if (end := self._ends_at_once()) is not None:
            return await self._end(writer, end)
        try:
            live, tools, children = await self._begin(writer)
        except StoreUnavailable:
            raise
        except RetinueError as error:  # the request cannot be served
            return await self._cannot(writer, error, Stopped(StopReason.ERROR, str(error)), "invalid_prompt")
        self._live = live
        if self._cancelled:
            live.cancel()
        try:
            event = await self._follow(writer, live, tools, children.members)
            match event:
                case None:
                    return "parked"
                case Stopped(reason=StopReason.AWAITING_MEMBER):
                    return await self._hand_over(writer, children)
                case Stopped(reason=StopReason.AWAITING_HUMAN):
                    await children.begin()  # they do not wait for the person
            return await self._end(writer, event, tools=tools)
        except (StoreUnavailable, StoreConflict, Fenced):
            raise
        except RetinueError as error:  # the log is of another agent, or the model's capabilities are unknown
            return await self._cannot(writer, error, make_stopped(error))

    def _ends_at_once(self) -> Stopped | None:
        """Return the run's end if it is not to be driven at all."""
        if self._give_up:
            logger.error("the run %s failed: %s", self._run.id, self._give_up)
            return Stopped(StopReason.ERROR, self._give_up)
        if self._run.status == "cancelling" or self._run.ending:
            return Stopped(StopReason.CANCELLED)
        return None

    async def _cannot(
        self, writer: LogWriter, error: RetinueError, end: Stopped, code: str = "server_error"
    ) -> DriveEnd:
        """Suspend the run if its agent has changed, and end it otherwise."""
        self._context.failed(self._run.id, error)
        if isinstance(error, AgentChanged) or (self._run.snapshot and isinstance(error, LogMismatch)):
            return await self._suspend(writer, error)
        logger.warning("the run %s failed: %s", self._run.id, error)
        return await self._end(writer, end, code)

    async def _begin(self, writer: LogWriter) -> tuple[Run, Mapping[str, Tool], ChildRuns]:
        """Return the replayed run, its tools, and what runs its members."""
        run = self._run
        assigned = await self._context.assign(run)
        writer.trace = trace_run(run, writer.log, assigned.agent.model)
        log = [entry.event for entry in writer.log if not isinstance(entry.event, Said)]
        asked = find_started(log) or assigned  # what it started with, if it has
        live = Run(assigned.agent, asked.question, asked.history, Earlier(log, decisions(run, log)), run.id)
        stored = StoredRecords(self._context.database, run.tenant, run.user, writer.count_at_once)
        context, parts = self._context, assigned.agent.run_spec()
        in_folder = parts.harness is not None and parts.harness.folder is not None
        files = None
        if wants_workspace(parts.harness, parts.tools) and not in_folder:
            files = StoredWorkspace(context.database, run, context.storage)
        texts = StoredTexts(context.database, run, context.parked)
        enter_run_context(replace(current_run(), confirm=writer.confirm, stored=stored, texts=texts, workspace=files))
        live.files, live.keep_files, live.given = assigned.files, assigned.keep_files, assigned.given
        live.regardless, live.recorded = run.snapshot == REGARDLESS, True
        task = Task(asked.question, history=tuple(asked.history))
        tools = {tool.name: tool for tool in assigned.agent.tools}
        members = {name for name, one in tools.items() if is_member(one) or makes_helpers(one)}
        caller = Caller(run, assigned.path or run.agent, task, members, self._found)
        children = ChildRuns(context.database, caller, writer, context.acquire, context.go_on)
        live.delegate = children
        return live, tools, children

    async def _follow(
        self, writer: LogWriter, live: Run, tools: Mapping[str, Tool], members: Set[str]
    ) -> Finished | Stopped | None:
        """Persist the events of `live` as they occur, and return the last. Return `None` if the process stops first."""
        trusted = not is_suspect(self._run.attempts)  # else calls are written first: one of them kills the process
        free = {name for name, one in tools.items() if one.effects == "read" and trusted} - members
        quota = writer.quota = QuotaStop(self._context.quotas, self._run.tenant)
        async with aclosing(live.events()) as events:
            async for event in events:
                if isinstance(event, ENDINGS):
                    event = quota.end_of(event)
                    rests = isinstance(event, Finished) or event.reason is StopReason.AWAITING_MEMBER
                    return event if rests or not self._is_left() else None
                if not await writer.note(event, free, members):
                    live.cancel()
        return None

    def _is_left(self) -> bool:
        """Whether this process leaves the run to others, so that its interruption is not its end."""
        task = asyncio.current_task()
        return self._context.parking.is_set() or (task is not None and task.cancelling() > 0)

    async def _hand_over(self, writer: LogWriter, children: ChildRuns) -> DriveEnd:
        """Leave the run to its members, holding nothing. Whatever ends them lets it go on."""
        if children.problem is not None:
            raise children.problem
        failpoint("before members have it")
        settle, settled = self._context.settling(self._run.id)
        begun: list[RunRow] = []

        def also(connection: Connection, after: RunRow) -> None:
            if after.status == "in_progress" and not after.ending:
                begun[:] = children.insert(connection)
            if children.settles:  # they may have ended by now, or ask something
                settle(connection)

        def change(now: RunRow) -> Change:
            ends = now.status == "cancelling" or now.ending  # by this drive, or by the next if this one dies here
            return Change(RunValues(driver=now.driver) if ends else step_values(now, "leave"), (), also)

        after = await writer.written(change)
        if after.status == "cancelling" or after.ending:
            return await self._end(writer, Stopped(StopReason.CANCELLED))
        failpoint("after members have it")
        for row in begun:
            self._context.go_on(row)
        self._context.settled(settled)
        return "waiting"

    async def _suspend(self, writer: LogWriter, problem: RetinueError) -> DriveEnd:
        """Suspend the run as it is, since it cannot go on with its agent."""
        run = self._run
        words = f"the agent {run.agent} is not what it was when this run began, so the run waits: {problem}"
        work = partial(suspend_run, held=run, problem=words, ttl=self._context.human_ttl)
        self._context.set_aside.add(run.id)
        row = await self._context.database.write(work)
        if row is None:
            return await self._end(writer, Stopped(StopReason.CANCELLED))
        logger.error("the run %s is suspended: %s; see retinue runs --help", run.id, words)
        self._context.followers.publish(run.id, [row])
        return "suspended"

    async def _end(
        self,
        writer: LogWriter,
        event: Finished | Stopped,
        code: str = "server_error",
        tools: Mapping[str, Tool] | None = None,
    ) -> DriveEnd:
        failpoint("before the end")
        run = self._run
        writer.trace = writer.trace or trace_run(run, writer.log)
        writer.put(event)
        settle, settled = self._context.settling(run.parent_id or "", acquires=True)
        left = [False]  # members that were still at work
        stops, there = isinstance(event, Stopped), (tools or {}).values()
        teams = (stops and (tools is None or any(map(is_member, there)))) or any(map(makes_helpers, there))

        def change(now: RunRow) -> Change:
            values = final_values(now, writer.log, tools or {}, code)
            if values["status"] == "requires_action" and run.parent_id is None:
                values["expires_at"] = int(writer.log[-1].at) + self._context.human_ttl
            said = list(messages_of(now, writer.log, values["status"]))
            return Change(values, said, also)

        def also(connection: Connection, after: RunRow) -> None:
            self._context.conclude(connection, after, writer.log)
            left[0] = teams and not after.active and cancel_members(connection, run.id)
            if run.parent_id is not None:
                settle(connection)

        after = await writer.written(change)
        failpoint("after the end")
        if left[0]:
            self._context.interrupt_members()
        self._context.settled(settled)
        if after.active:
            return "waiting"
        self._context.ended(after)
        return "ended"
