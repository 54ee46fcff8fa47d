"""Runs of members as stored runs: begun, or found again, by the drive of their caller, which does not wait."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sqlalchemy import Connection

from ..core.events import Asked, Called, Observed, Replied
from ..core.run_result import Ending, find_ending, sum_usage
from ..core.tools.delegation import MemberAnswer, MemberCall, Pending, answer_of, with_effects
from ..core.values import StopReason
from ..errors import StoreConflict, StoreUnavailable
from ..store.database import Database
from ..store.event_log import Fenced
from ..store.run_row import RunRow
from .log_writer import LogWriter
from .member_runs import Acquire, Caller, Found, begin_members, insert_members, new_member
from .status import TOLD


class ChildRuns:
    """Runs the members of `caller`, whose events `writer` writes.

    A new member's run is inserted by the transaction that writes its call and leaves the caller to its members
    (`insert`). If tools of other kinds were called before it in the same step, it does not wait for them (`begin`).

    Args:
        acquire: Returns the row of a run that is inserted, acquired by this process if it has room.
        start: Has a run driven, in the background.
    """

    def __init__(
        self,
        database: Database,
        caller: Caller,
        writer: LogWriter,
        acquire: Acquire,
        start: Callable[[RunRow], object],
    ) -> None:
        self._database = database
        self._caller = caller
        self._writer = writer
        self._acquire = acquire
        self._start = start
        self.members = caller.members
        self._new: list[RunRow] = []
        self.settles = bool(caller.found)  # members may have ended before their caller is left to them
        self.problem: Exception | None = None
        """What kept a member from being begun. It is the database's problem, not an observation."""

    def can_continue(self, call: str) -> bool:
        """Return `True`: the run is found by its id, or was never begun."""
        return True

    async def run(self, member: MemberCall) -> MemberAnswer:
        """Return how the member's run ended. Raises `Pending` if it is under way, or is about to begin."""
        found = self._caller.found.get(member.call)
        if found is not None and not found.run.active:
            return with_effects(_answer(member, found), member, [entry.event for entry in found.outcome])
        if found is None:
            budget = member.budget(member.tool.something.run_spec().budget)
            self._new.append(new_member(self._caller, member, budget))
            if self._works_beside():
                await self._begin_at_once(member.tool.name)
        elif found.run.driver is None:
            self._start(found.run)
        raise Pending(StopReason.AWAITING_MEMBER, f"{member.tool.name} is at work")

    async def _begin_at_once(self, name: str) -> None:
        try:
            await self.begin()
        except (StoreUnavailable, StoreConflict, Fenced) as error:
            self.problem = error
            raise Pending(StopReason.AWAITING_MEMBER, f"{name} cannot be reached") from error

    def _works_beside(self) -> bool:
        """Whether the current step has called other tools, too."""
        for entry in reversed(self._writer.log):
            match entry.event:
                case Called(action=action) if action.tool not in self.members:
                    return True
                case Asked() | Replied():
                    return False
        return False

    async def begin(self) -> None:
        """Begin the new runs, if there are any, after their calls were written. Raises `problem`, if there is one."""
        if self.problem is not None:
            raise self.problem
        new, self._new = self._new, []
        if not new:
            return
        self.settles = True
        await self._writer.written()
        caller = self._caller.run
        for run in await self._database.write(partial(begin_members, caller=caller, new=new, acquire=self._acquire)):
            self._start(run)

    def insert(self, connection: Connection) -> list[RunRow]:
        """Insert the new runs and return their rows, which are to be started after the commit."""
        return insert_members(connection, self._new, self._acquire)


def _answer(member: MemberCall, found: Found) -> MemberAnswer:
    log = [entry.event for entry in found.outcome]
    seconds = sum(event.reply.seconds for event in log if isinstance(event, Replied))
    seconds += sum(event.observation.seconds for event in log if isinstance(event, Observed))
    end, used = find_ending(log), sum_usage(log)
    error = found.run.error
    if end.answer and found.run.status not in ("completed", "incomplete"):  # such as one that was cancelled
        end = Ending(StopReason.CANCELLED if end.answered else end.reason, detail=found.run.status)
    elif found.problem or (error is not None and error.cause in TOLD):  # an engine's own words are the operator's
        end = end._replace(detail=found.problem or (error.message if error else ""))
    return answer_of(member.tool.name, end, used, seconds)
