"""Runs of members: each call of an agent that is a tool is a run of its own, below the run that called it.

The caller holds nothing while its members work: its row says that they have it. Whatever ends a member, or makes it
wait for a person, updates its caller in the same transaction. A member's questions stand in its caller's log, under the
path of their calls (`call_1_0/call_2_0`), so that the client of the run at the top sees and answers them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, replace
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import Connection

from ..core.budgets import Budget
from ..core.events import Asked, Called, Event, Observed, Paused, Replied, Resumed, Started, Stopped
from ..core.protocols import Task
from ..core.run_context import STATE_HEADER, STORED_ID, TRACE_HEADER
from ..core.run_result import Ending, find_ending, pending, sum_usage
from ..core.tools.delegation import MemberAnswer, MemberCall, Pending, answer_of, with_effects
from ..core.tools.helpers import RESULT
from ..core.values import AgentAction, Decision, StopReason
from ..errors import DataError, StoreConflict, StoreUnavailable
from ..store.clock import CLOCK
from ..store.database import Database
from ..store.event_log import Change, Entry, Fenced, append_entries, read_events, read_kinds, read_outcome
from ..store.run_queries import active_members, find_run, insert_run
from ..store.run_row import BY_MEMBERS, RunRow, RunValues, Status
from .leases import acquired_again
from .log_writer import LogWriter
from .status import TOLD, final_values, take_step
from .thread_messages import messages_of

HELPER = "helper"  # where the request of a helper's run says what the helper is


def member_run_id(run_id: str, call: str) -> str:
    """Return the id of the run of a member, which its caller's run and the call determine."""
    return f"run_{hashlib.sha256(f'{run_id}/{call}'.encode()).hexdigest()[:24]}"


def resume_entries(connection: Connection, run: RunRow, decisions: Mapping[str, Decision]) -> list[Entry]:
    """Return the entries for decisions on members' calls, which the caller's log gets."""
    log = read_events(connection, run.id)
    waiting = {action.id for action in pending(entry.event for entry in log)}
    steps = {entry.event.action.id: entry.event.step for entry in log if isinstance(entry.event, Paused)}
    given = [(call, one) for call, one in decisions.items() if "/" in call and call in waiting]
    first = log[-1].seq + 1 if log else 1
    return [Entry(first + at, CLOCK.now(), Resumed(steps[call], call, one)) for at, (call, one) in enumerate(given)]


def by_member(run_id: str, decisions: Mapping[str, Decision]) -> dict[str, dict[str, Decision]]:
    """Return the decisions on members' calls, by the id of the member's run, and then by the call in its log."""
    found: dict[str, dict[str, Decision]] = {}
    for path, decision in decisions.items():
        call, inside, rest = path.partition("/")
        if inside:
            found.setdefault(member_run_id(run_id, call), {})[rest] = decision
    return found


def decided_members(run: RunRow) -> list[str]:
    """Return the ids of the runs, below this one, that the last submission concerns."""
    found: dict[str, None] = {}
    for path in run.submissions[-1].decisions if run.submissions else ():
        below = run.id
        for call in path.split("/")[:-1]:
            below = member_run_id(below, call)
            found[below] = None
    return list(found)


Conclude = Callable[[Connection, RunRow, Sequence[Entry]], None]
Acquire = Callable[[Connection, RunRow], RunRow]


class Found(NamedTuple):
    """A member's run, and its outcome (`read_outcome`) if it has ended; `problem` says why that cannot be read."""

    run: RunRow
    outcome: Sequence[Entry] = ()
    problem: str = ""


class Caller(NamedTuple):
    """A run that calls members: its row as it was acquired, the path of its agent, its task, the names of its members,
    and by their calls the runs of members of which it has not observed how they ended."""

    run: RunRow
    path: str
    task: Task
    members: Set[str]
    found: Mapping[str, Found]


def find_members(connection: Connection, run_id: str, calls: Iterable[str]) -> dict[str, Found]:
    """Return the runs of these calls of members, by the calls, as far as they are there."""
    found: dict[str, Found] = {}
    for call in calls:
        if (member := find_run(connection, member_run_id(run_id, call))) is not None:
            found[call] = Found(member) if member.active else _ended(connection, member)
    return found


def read_with_members(connection: Connection, run_id: str) -> tuple[list[Entry], dict[str, Found]]:
    """Return the log of a run, and the members that its drive finds (`Caller.found`). Raises `DataError` if a row of
    the log holds no valid event."""
    log = read_events(connection, run_id)
    called = [entry.event.action.id for entry in log if isinstance(entry.event, Called)]
    observed = {entry.event.observation.call_id for entry in log if isinstance(entry.event, Observed)}
    return log, find_members(connection, run_id, [call for call in called if call not in observed])


def _ended(connection: Connection, member: RunRow) -> Found:
    try:
        return Found(member, read_outcome(connection, member.id))
    except DataError as error:
        return Found(member, problem=str(error))


def new_member(by: Caller, member: MemberCall, budget: Budget) -> RunRow:
    """Return the row of a member's run, which has yet to be inserted."""
    caller = by.run
    agent = f"{by.path}/{member.tool.name}"
    task = by.task if member.passes_conversation else Task(member.question)
    history = [{"role": one.role, "content": one.content} for one in task.history]
    asked = {
        "question": task.question,
        "history": history,
        "budget": {name: getattr(budget, name) for name in Budget.__slots__},
    }
    if member.order is not None:
        asked[HELPER] = asdict(member.order)
    return RunRow(
        id=member_run_id(caller.id, member.call),
        tenant=caller.tenant,
        thread_id=None,
        created_at=int(CLOCK.now()),
        status="queued",
        holds=True,
        expires_at=None,  # it expires with the run at the top
        epoch=0,
        request={"model": agent, **asked, **_origin(caller)},
        kind="member",
        agent=agent,
        parent_id=caller.id,
        root_id=caller.root_id or caller.id,
        call_id=member.call,
        stored=True,
        user=caller.user,
    )


def begin_members(connection: Connection, caller: RunRow, new: Sequence[RunRow], acquire: Acquire) -> list[RunRow]:
    """Insert the runs of members while the run acquired as `caller` goes on, unless it has to end. Return their rows.
    Raises `Fenced` if another drive has the caller's run by now."""
    now = find_run(connection, caller.id, caller.request, lock=True)
    if now is None or now.epoch != caller.epoch:
        raise Fenced(caller.id)
    return insert_members(connection, new, acquire) if now.status == "in_progress" and not now.ending else []


def insert_members(connection: Connection, new: Sequence[RunRow], acquire: Acquire) -> list[RunRow]:
    """Insert the runs of members. Return their rows, which `acquire` may have changed."""
    rows = [acquire(connection, run) for run in new]
    for row in rows:
        insert_run(connection, row)
    return rows


def _origin(caller: RunRow) -> dict[str, Any]:
    """Return where a member's run came from: the agent at the top, the servers' runs that called that, the
    request that began it all, and their trace."""
    kept = {
        name: said for name in ("callers", STORED_ID, TRACE_HEADER, STATE_HEADER) if (said := caller.request.get(name))
    }
    return {"top": caller.request.get("top", caller.agent), "said": read_origin(caller), **kept}


def read_origin(run: RunRow) -> dict[str, Any]:
    """Return the thread and the metadata of a run; of a member, those of the run at the top as it began."""
    said = run.request.get("said") if run.kind == "member" else None
    return dict(said or {"thread": run.thread_id or "", "metadata": dict(run.metadata)})


def settle_caller(
    connection: Connection, run_id: str, human_ttl: int, conclude: Conclude, process: str | None = None
) -> Iterator[RunRow]:
    """Update a run whose members have it: it goes on once none of them is active, and waits for a person when they
    do. `process` then acquires it, if one is given. Yield the new rows of this run and of those above it, as far as
    they changed."""
    run = find_run(connection, run_id, lock=True)
    if run is None or run.driver != BY_MEMBERS or not run.active:
        return
    members = _select_awaited(connection, run_id, active_members(connection, run_id))
    if not members:
        values = RunValues()
        if process is not None and (run.expires_at is None or run.expires_at > CLOCK.now()):
            values = acquired_again(connection, run, process)
        yield take_step(connection, run, "return", **values)
        return
    if run.status == "requires_action":  # further questions wait until its client has answered those that it was told
        return
    waiting = [find_run(connection, one) for one, status in members.items() if status == "requires_action"]
    if not waiting:
        return
    log = read_events(connection, run_id)
    questions = list(_questions([member for member in waiting if member is not None], log))
    if not questions:
        return
    first = log[-1].seq + 1
    told: list[Event] = [*questions, Stopped(StopReason.AWAITING_HUMAN, "members of the team wait for a person")]
    entries = [Entry(first + at, CLOCK.now(), event) for at, event in enumerate(told)]
    whole = [*log, *entries]

    def change(now: RunRow) -> Change:
        values = final_values(now, whole, {})
        values["waiting"] = _with_schemas(values["waiting"], waiting)
        values["expires_at"] = None if now.parent_id else int(CLOCK.now()) + human_ttl
        said = list(messages_of(now, whole, values["status"]))
        return Change(values, said, lambda connection, after: conclude(connection, after, whole))

    held = take_step(connection, run, "fence")
    after = append_entries(connection, held, entries, change)
    assert after is not None
    yield after
    if after.parent_id is not None:
        yield from settle_caller(connection, after.parent_id, human_ttl, conclude)


def _select_awaited(connection: Connection, run_id: str, members: Mapping[str, Status]) -> Mapping[str, Status]:
    """Return those of a run's members for which it waits: not the helpers in the background, unless a call reads the
    answer of one."""
    rows = [row for one in members if (row := find_run(connection, one)) is not None]
    beside = {row.id for row in rows if (row.request.get(HELPER) or {}).get("background")}
    if not beside:
        return members
    reads: dict[str, str] = {}
    for _, event in read_kinds(connection, [run_id], ("called", "observed")):
        if isinstance(event, Called) and event.action.tool == RESULT and isinstance(event.action.tool_input, Mapping):
            reads[event.action.id] = member_run_id(run_id, str(event.action.tool_input.get("helper")))
        elif isinstance(event, Observed):
            reads.pop(event.observation.call_id, None)
    return {member: status for member, status in members.items() if member not in beside or member in reads.values()}


def _with_schemas(calls: Sequence[Mapping[str, Any]], members: Sequence[RunRow | None]) -> list[dict[str, Any]]:
    """Return members' calls with the schemas that the members' own rows have of them."""
    rows = [one for one in members if one is not None]
    schemas = {
        f"{one.call_id}/{call['id']}": call["schema"] for one in rows for call in one.waiting if "schema" in call
    }
    return [{**call, "schema": schemas[call["id"]]} if call["id"] in schemas else dict(call) for call in calls]


def _questions(members: Sequence[RunRow], log: Sequence[Entry]) -> Iterator[Paused]:
    """Yield the members' questions to a person that their caller's log does not have yet."""
    asked = [entry.event.action.id for entry in log if isinstance(entry.event, Paused)]
    steps = {entry.event.action.id: entry.event.step for entry in log if isinstance(entry.event, Called)}
    for member in members:
        for call in member.waiting:
            path = f"{member.call_id}/{call['id']}"
            if asked.count(path) < call["asked"]:
                action = AgentAction(call["tool"], dict(call["arguments"]), id=path)
                yield Paused(steps.get(member.call_id or "", 0), action, f"{call['tool']} of {member.agent}")


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

    def learn(self, started: Started) -> None:
        """Note the caller's question, as hooks left it."""
        task = replace(self._caller.task, question=started.question, history=started.history)
        self._caller = self._caller._replace(task=task)

    def can_continue(self, call: str) -> bool:
        """Return `True`: the run is found by its id, or was never begun."""
        return True

    async def run(self, member: MemberCall) -> MemberAnswer:
        """Return how the member's run ended. Raises `Pending` if it is under way, or is about to begin."""
        found = self._caller.found.get(member.call)
        if found is not None and not found.run.active:
            return _read_answer(member, found)
        if member.in_background:
            self.settles = True  # it may have ended by now
        elif found is None:
            await self._add(member, at_once=self._works_beside())
        elif found.run.driver is None:
            self._start(found.run)
        raise Pending(StopReason.AWAITING_MEMBER, f"{member.name} is at work")

    async def begin_helper(self, helper: MemberCall) -> None:
        """Begin the run of a helper in the background, unless an earlier drive did."""
        if helper.call not in self._caller.found:
            await self._add(helper, at_once=True)

    async def find_ended(self, helpers: Sequence[MemberCall]) -> dict[str, MemberAnswer | None]:
        """Return how those helpers ended that have, as far as the database says now."""
        calls = [one.call for one in helpers]
        try:
            found = await self._database.read(partial(find_members, run_id=self._caller.run.id, calls=calls))
        except StoreUnavailable:  # the next observation tells of them
            return {}
        for one in found.values():
            if one.run.active and one.run.driver is None:
                self._start(one.run)
        return {
            one.call: None if at is None else _read_answer(one, at)
            for one in helpers
            if (at := found.get(one.call)) is None or not at.run.active
        }

    async def _add(self, member: MemberCall, *, at_once: bool) -> None:
        self._new.append(new_member(self._caller, member, member.budget(member.run_spec().budget)))
        if at_once:
            await self._begin_at_once(member.name)

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


def _read_answer(member: MemberCall, found: Found) -> MemberAnswer:
    log = [entry.event for entry in found.outcome]
    seconds = sum(event.reply.seconds for event in log if isinstance(event, Replied))
    seconds += sum(event.observation.seconds for event in log if isinstance(event, Observed))
    end, used = find_ending(log), sum_usage(log)
    error = found.run.error
    if end.answer and found.run.status not in ("completed", "incomplete"):  # such as one that was cancelled
        end = Ending(StopReason.CANCELLED if end.answered else end.reason, detail=found.run.status)
    elif found.problem or (error is not None and error.cause in TOLD):  # an engine's own words are the operator's
        end = end._replace(detail=found.problem or (error.message if error else ""))
    return with_effects(answer_of(member.name, end, used, seconds), member, log)
