"""Runs of members as stored runs: started, or found again, by the drive of their caller, which does not wait."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..core.delegation import MemberAnswer, MemberCall, Pending, answer_of
from ..core.events import Observed, Replied
from ..core.run_result import result
from ..core.values import StopReason, Usage
from ..errors import DataError, StoreConflict, StoreUnavailable
from ..store.database import Database
from ..store.event_log import Fenced
from ..store.run_row import RunRow
from .member_runs import Caller, Found, find_or_add_member


class ChildRuns:
    """Runs the members of `caller`; `start` drives a run in the background.

    `problem` is what kept a member from being started or found, for the caller's drive to raise: it is the database's
    problem, and not an observation.
    """

    def __init__(self, database: Database, caller: Caller, start: Callable[[str, RunRow], object]) -> None:
        self._database = database
        self._caller = caller
        self._start = start
        self.problem: Exception | None = None

    def knows(self, call: str) -> bool:
        """Return `True`: the run is found by its id, or was never begun."""
        return True

    async def run(self, member: MemberCall) -> MemberAnswer:
        """Return how the member's run ended. Raises `Pending` if it is under way, perhaps since now."""
        budget = member.budget(member.tool.something.run_spec().budget)
        work = partial(find_or_add_member, by=self._caller, member=member, budget=budget)
        try:
            found = await self._database.write(work)
        except DataError as error:
            return answer_of(member.tool.name, StopReason.ERROR, "", str(error), Usage(), 0.0)
        except (StoreUnavailable, StoreConflict, Fenced) as error:
            self.problem = StoreUnavailable(str(error)) if isinstance(error, StoreConflict) else error
            raise Pending(StopReason.AWAITING_MEMBER, f"{member.tool.name} cannot be reached") from error
        if found is None or found.run.active:
            if found is not None and found.run.driver is None:
                self._start(found.run.id, found.run)
            raise Pending(StopReason.AWAITING_MEMBER, f"{member.tool.name} is at work")
        return _answer(member, found)


def _answer(member: MemberCall, found: Found) -> MemberAnswer:
    log = [entry.event for entry in found.log]
    seconds = sum(event.reply.seconds for event in log if isinstance(event, Replied))
    seconds += sum(event.observation.seconds for event in log if isinstance(event, Observed))
    done = result(log, seconds)
    problem = found.run.error.message if found.run.error else ""
    if done.answer and found.run.status not in ("completed", "incomplete"):  # such as one that was cancelled
        return answer_of(member.tool.name, done.stop_reason, "", found.run.status, done.usage, seconds)
    return answer_of(member.tool.name, done.stop_reason, done.answer, problem or done.error, done.usage, seconds)
