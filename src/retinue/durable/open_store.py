"""A store of runs as one event loop of this process has it open, where it drives runs with the agents that began them.

The first run on a loop opens the store; it is closed when the loop ends, or by `close_here`. Each loop is to the others
what another process is: it has a lease on its runs, and what it leaves may be taken by any of them.
"""

from __future__ import annotations

import asyncio
import copy
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import URL, Connection

from .._internal.concurrency import run_in_thread
from .._internal.processes import call_in_forked_child, keep_from_parent
from ..agent import Agent
from ..core.budgets import Budget
from ..core.events import Started
from ..core.serialization import load
from ..core.values import Decision, File, Message
from ..errors import AgentChanged, RetinueError, StoreConflict, StoreUnavailable, UsageError
from ..runs import DueRuns, RunInput, Runs
from ..runs.agent_versions import AgentVersions, find_agent
from ..runs.cancellation import cancel_run
from ..runs.leases import acquire_epoch, acquired_new, is_new
from ..runs.run_fork import ForkEdits, fork_run
from ..runs.status import take_step
from ..runs.submissions import describe_bad_edit, submit_decisions
from ..runs.teams import decided_members
from ..runs.thread_messages import derived_id, message_body
from ..store.clock import CLOCK
from ..store.database import Database
from ..store.due import Due, Reason, due_runs
from ..store.processes import forget_ended
from ..store.run_belongings import (
    Snapshot,
    SnapshotWriter,
    conversation_of,
    files_of_run,
    is_beside,
    keep_files,
    put_messages,
    shorten_request,
    show_files,
)
from ..store.run_queries import active_team, find_run, insert_run, next_waiting_run, thread_holder
from ..store.run_row import RunError, RunRow
from ..store.tables import messages, threads
from ..store.tenant_view import TenantView
from ..store.thread_messages import find_thread_id, messages_on
from ..store.usage_sums import count_run

TENANT = "default"
CLOSED = "the store was closed"
WAITS = 10 * 365 * 86_400  # seconds that a run waits for a person: nobody is told if it expires
T = TypeVar("T")
_LONGEST = 256  # characters of a thread's id


class Holder(NamedTuple):
    """An agent with which runs are driven, as it was when it was given, and what the context of its code is told."""

    agent: Agent[Any, Any]
    versions: AgentVersions
    given: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run to be added: its row, without a thread, the thread's id as the user gave it, and the bytes of its files."""

    row: RunRow
    thread: str
    files: Sequence[File]


class OpenStore:
    """A store that is open on the running loop."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.runs = Runs(database, self._assign, self._ended, WAITS)
        self.runs.snapshots = SnapshotWriter(self._snapshot_of)
        self.runs.failed = self._failed
        self.due = DueRuns(self.runs, self._admit, serves=self._serves)
        self.problems: dict[str, RetinueError] = {}  # why runs that are followed here could not go on
        self._given: dict[str, Holder] = {}  # by run: those that this loop began, or lets go on, and has not seen end
        self._recovers: dict[str, Holder] = {}  # by the agent's name: whose runs are taken from those who left them
        self._held: dict[str, Holder] = {}  # by the agent's name, the last

    def hold(self, agent: Agent[Any, Any], given: Mapping[str, Any]) -> Holder:
        """Return what drives runs with an agent as it is now."""
        held = self._held.get(agent.name)
        if held is None or held.agent.spec is not agent.spec:
            own = copy.copy(agent)
            held = self._held[agent.name] = Holder(own, AgentVersions({agent.name: own}, self.database))
        return held._replace(given=given)

    async def begin(self, new: NewRun, holder: Holder) -> RunRow:
        """Add a run and drive it. If it is there already, it is the same one, and goes on if its process died. Raises
        `UsageError` if its key was another run's."""
        self._given[new.row.id] = holder
        return self._go_on(*await self._write(partial(self._add, new=new)))

    async def take(self, run_id: str, holder: Holder) -> RunRow:
        """Drive a run if nobody else does. Return its row."""
        self._given[run_id] = holder

        def work(connection: Connection) -> tuple[RunRow, Sequence[RunRow]]:
            if (run := find_run(connection, run_id, lock=True)) is None:
                raise unknown(run_id)
            return run, self._acquire(connection, *_team(connection, run_id))

        return self._go_on(*await self._write(work))

    async def resume(self, run_id: str, decisions: Mapping[str, Decision], holder: Holder) -> RunRow:
        """Let a run go on that waits for decisions on its calls. Raises `UsageError` if it does not, or for decisions
        that do not fit."""
        self._given[run_id] = holder
        return self._go_on(*await self._write(partial(self._decide, run_id=run_id, decisions=decisions)))

    async def fork(self, run_id: str, edits: ForkEdits, holder: Holder) -> RunRow:
        """Add a run that begins as another one did, and drive it. Raises as `fork_run` does."""

        def work(connection: Connection) -> tuple[RunRow, Sequence[RunRow]]:
            fork = fork_run(connection, run_id, WAITS, edits)
            self._given[fork.id] = holder
            return fork, self._acquire(connection, fork.id)

        return self._go_on(*await self._write(work))

    async def cancel(self, run_id: str) -> RunRow:
        """Cancel a run, wherever it is driven. Return its row."""

        def work(connection: Connection) -> RunRow:
            run = find_run(connection, run_id, lock=True)
            if run is None:
                raise unknown(run_id)
            return cancel_run(connection, run) if run.active and run.status != "cancelling" else run

        row = await self._write(work)
        self.runs.halted(row)
        return row

    async def leave(self, run_id: str) -> None:
        """Drive a run no longer: its caller is gone. It stays as it is, for whoever goes on with it."""
        self._given.pop(run_id, None)
        with suppress(StoreUnavailable):
            await self.runs.leave(run_id)

    def take_over(self, holder: Holder, *, lasts: bool = False) -> Callable[[], None]:
        """Have runs of an agent taken from processes that died or left them. Return what ends that."""
        name = holder.agent.name
        before = self._recovers.get(name)
        self._recovers[name] = holder
        if before is None or not lasts:
            self.runs.wake(looks=True)

        def end() -> None:
            if before is None and not lasts:
                self._recovers.pop(name, None)

        return end

    async def find_left(self, name: str) -> list[str]:
        """Return the ids of the runs of an agent that nobody drives and that are not waiting, oldest first."""
        await self.database.write_apart(forget_ended)

        def read(connection: Connection) -> list[str]:
            due = due_runs(connection, self.database.process, int(CLOCK.now()), 10_000)
            left = (Reason.DRIVE, Reason.LEFT, Reason.SUSPENDED)
            found = [one.root for one in due if one.reason in left and _is_of(one.agent, name)]
            return [one for one in dict.fromkeys(found) if one not in self._given]

        return await self.database.read(read)

    async def close(self) -> None:
        """Leave the runs to others, tell those who follow some, and close the store."""
        await self.runs.close(0.0)
        for run_id in self.runs.followers.followed:
            gone = RunRow(run_id, TENANT, None, 0, "queued", False, None, 0, {}, error=RunError(CLOSED, CLOSED))
            self.runs.followers.end(run_id, gone)
        await asyncio.sleep(0)
        await self.due.leave()
        await self.database.close_async()

    async def _write(self, work: Callable[[Connection], T]) -> T:
        try:
            return await self.database.write(work)
        except StoreConflict as error:
            raise UsageError(f"{error}; try again") from error

    def _go_on(self, run: RunRow, acquired: Iterable[RunRow]) -> RunRow:
        for row in acquired:
            self.runs.go_on(row)
        self.runs.followers.look(run.id)
        return run

    def _add(self, connection: Connection, new: NewRun) -> tuple[RunRow, Sequence[RunRow]]:
        row, process = new.row, self.database.process
        if (there := find_run(connection, row.id, lock=True)) is not None:
            if there.agent != row.agent or there.request.get("question") != row.request["question"]:
                raise UsageError(f"the key of this run is that of another one, {row.id}; a key is for one question")
            return there, self._acquire(connection, *_team(connection, row.id))
        if new.thread:
            row = row._replace(thread_id=_thread_id(connection, row, new.thread))
            holds = thread_holder(connection, row.thread_id or "", lock=True) is None
            row = row._replace(holds=holds and next_waiting_run(connection, row.thread_id or "") is None)
        if row.holds:
            row = acquired_new(connection, row, process, self.runs.snapshots)
        short = row._replace(request=shorten_request(row.request))
        insert_run(connection, short)
        if is_beside(short):
            put_messages(connection, short, row.request["messages"])
        if row.holds and row.thread_id:
            _say_question(connection, row)
        keep_files(connection, row.tenant, new.files)
        show_files(connection, row.tenant, row.id, [one.id for one in new.files])
        count_run(connection, row.tenant, row.created_at, process, row.user)
        return row, [row] if row.holds else []

    def _decide(
        self, connection: Connection, run_id: str, decisions: Mapping[str, Decision]
    ) -> tuple[RunRow, Sequence[RunRow]]:
        run = find_run(connection, run_id, lock=True)
        if run is None:
            raise unknown(run_id)
        if run.status != "requires_action":
            raise UsageError(f"the run {run_id} waits for no decision: its status is {run.status!r}")
        waiting = [call["id"] for call in run.waiting]
        if other := [call for call in decisions if call not in waiting]:
            raise UsageError(f"decisions: the run waits for {', '.join(waiting)}, not for {other[0][:80]!r}")
        if problem := describe_bad_edit(run, decisions):
            raise UsageError(f"decisions: {problem}")
        for decision in decisions.values():
            keep_files(connection, run.tenant, decision.files)
        run = submit_decisions(connection, run, decisions, WAITS, secrets.token_hex(16))
        return run, self._acquire(connection, *decided_members(run), run_id)

    def _acquire(self, connection: Connection, *run_ids: str) -> list[RunRow]:
        """Acquire those of the runs that are to be driven, and that no living process has. Return their rows."""
        found = []
        for one in run_ids:
            lease = acquire_epoch(connection, one, self.database.process, snapshots=self.runs.snapshots)
            found += [] if lease is None or lease.give_up else [lease.run]
        return found

    def _admit(self, connection: Connection, run_id: str) -> bool:
        """Let a run have its thread, for which it waited."""
        run = find_run(connection, run_id, lock=True)
        if run is None or run.status != "queued" or run.thread_id is None or thread_holder(connection, run.thread_id):
            return False
        _say_question(connection, take_step(connection, run, "admit", expires_at=None))
        return True

    def _serves(self, due: Due) -> bool:
        return due.mine or due.root in self._given or self._recoverer(due.agent) is not None

    def _recoverer(self, path: str) -> Holder | None:
        return next((one for name, one in self._recovers.items() if _is_of(path, name)), None)

    def _holder(self, run: RunRow) -> Holder | None:
        return self._given.get(run.root_id or run.id) or self._recoverer(run.agent)

    def _snapshot_of(self, run: RunRow) -> Snapshot | None:
        holder = self._holder(run)
        return None if holder is None else holder.versions.snapshot_of(run)

    def _failed(self, run_id: str, error: RetinueError) -> None:
        if run_id in self._given:
            self.problems[run_id] = error

    def _ended(self, run: RunRow) -> None:
        self._given.pop(run.id, None)
        if run.thread_id is not None:  # another one may wait for it
            self.runs.wake(looks=True)

    async def _assign(self, run: RunRow) -> RunInput:
        holder = self._holder(run)
        if holder is None:
            raise AgentChanged("this process has no such agent")

        async def find(run: RunRow) -> Agent[Any, Any]:
            agent = await holder.versions.agent_of(run)
            given = None if run.kind == "member" else run.request.get("params")
            return agent.with_params(given) if given else agent

        agent = await find_agent(run, self.database, find)
        top, question, history, files = await self.database.read(partial(_read_input, run=run, begins=is_new(run)))
        if (budget := run.request.get("budget")) is not None:  # of a member, or a fork of a member's run
            human = agent.human or holder.agent.human
            agent = agent.with_memory(())
            agent.budget, agent.human = Budget(**budget), human
        told = {"thread": top.request.get("thread"), "user": run.user, "metadata": dict(top.metadata)}
        context = {**holder.given, **{name: one for name, one in told.items() if one}}
        return RunInput(agent, question, history, files=files, keep_files=partial(self._keep, run), given=context)

    async def _keep(self, run: RunRow, files: Sequence[File]) -> str:
        def work(connection: Connection) -> None:
            keep_files(connection, run.tenant, files)
            show_files(connection, run.tenant, run.id, [one.id for one in files])

        await self.database.write(work)
        return ""


def _team(connection: Connection, run_id: str) -> list[str]:
    """Return the ids of a run and of its members that have not ended."""
    return [run_id, *(one.id for one in active_team(connection, run_id))]


def _is_of(path: str, name: str) -> bool:
    return path == name or path.startswith(f"{name}/")


def unknown(run_id: str) -> UsageError:
    """Return the error for a run that is not there."""
    return UsageError(f"the store has no run {run_id[:80]!r}")


def _read_input(connection: Connection, run: RunRow, *, begins: bool) -> tuple[RunRow, str, list[Message], list[File]]:
    """Return the run at the top of a run's team, and what it is asked, unless its log has that."""
    top = run if run.root_id is None else find_run(connection, run.root_id) or run
    files = list(files_of_run(connection, run.id))
    if not begins:
        return top, "", [], files
    asked, said = run.request, list[Mapping[str, Any]]()
    if "started" in asked:
        started = load("started", asked["started"])
        assert isinstance(started, Started)
        return top, started.question, list(started.history), files
    if run.kind == "member":
        said = asked["history"]
    elif (given := conversation_of(connection, run)) is not None:
        said = given[:-1]
    elif run.thread_id is not None:
        bodies = [body for run_id, body in messages_on(connection, run.thread_id) if run_id != run.id][:-1]
        texts = [(one["role"], [part["text"]["value"] for part in one["content"] if "text" in part]) for one in bodies]
        said = [{"role": role, "content": "\n".join(parts)} for role, parts in texts]
    return top, asked["question"], [Message(one["role"], one["content"]) for one in said], files


def _thread_id(connection: Connection, run: RunRow, given: str) -> str:
    """Return the id of the thread with an id, or with a name of the user's own, which is made if it is new."""
    if len(given) > _LONGEST or "\0" in given:
        raise UsageError(f"thread: want at most {_LONGEST} characters, without NUL")
    if (there := find_thread_id(connection, run.tenant, given)) is not None:
        return there
    values = {"id": derived_id("thread_", run.tenant, given), "created_at": run.created_at, "key": given}
    body: Mapping[str, Any] = {"tool_resources": None, "metadata": {}}
    TenantView(run.tenant).insert(connection, threads, {**values, "user": run.user, "body": body})
    return str(values["id"])


def _say_question(connection: Connection, run: RunRow) -> None:
    """Add a run's question to its thread."""
    now = int(CLOCK.now())
    values = {"id": derived_id("msg_", run.id, "question"), "created_at": now, "thread_id": run.thread_id}
    body = message_body(run, run.request["question"], now, None, role="user")
    TenantView(run.tenant).insert(connection, messages, {**values, "run_id": None, "body": body})


# ── stores that are open ─────────────────────────────────────────────────────────────────────────


class _Place(NamedTuple):
    """A store that is open, or about to be, on a loop; `over` closes it."""

    opened: asyncio.Future[OpenStore]
    over: asyncio.Event
    keeper: asyncio.Task[None]

    @property
    def is_closing(self) -> bool:
        return self.over.is_set() or self.keeper.done() or self.keeper.cancelling() > 0


_places: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _Place]] = WeakKeyDictionary()


def _forget() -> None:
    """Leave what is open to the parent."""
    keep_from_parent(dict(_places))
    _places.clear()


call_in_forked_child(_forget)


def store_url(given: str | Path) -> str:
    """Return the URL of a store, given as a file or a URL."""
    if "://" in str(given):
        return str(given)
    path = Path(given).absolute()
    return URL.create("sqlite", database=str(path)).render_as_string(hide_password=False)


async def open_here(url: str) -> OpenStore:
    """Return the store at `url`, open on the running loop. Raises what `Database` raises."""
    loop = asyncio.get_running_loop()
    for other, places in list(_places.items()):
        if other.is_closed():  # without having cancelled its tasks
            keep_from_parent(_places.pop(other))  # nobody can end its tasks, and Python would complain of them
            for left in places.values():
                _end_of_loop(left)
    here = _places.setdefault(loop, {})
    while (there := here.get(url)) is not None and there.is_closing:
        await asyncio.wait([there.keeper])
        if here.get(url) is there:
            del here[url]
    if url not in here:
        opened: asyncio.Future[OpenStore] = loop.create_future()
        over = asyncio.Event()
        keeper = loop.create_task(_keep_open(url, opened, over), name="a store of runs", context=Context())
        here[url] = _Place(opened, over, keeper)
    return await asyncio.shield(here[url].opened)


async def open_for(agent: Agent[Any, Any], url: str) -> OpenStore:
    """Return the store of an agent, open on the running loop. If the agent `recovers`, it takes over from now on what
    processes left."""
    store = await open_here(url)
    if agent.recovers:
        store.take_over(store.hold(agent, {}), lasts=True)
    return store


def is_closing_here(url: str) -> bool:
    """Whether the store is being closed on the running loop, or the loop is ending."""
    place = _places.get(asyncio.get_running_loop(), {}).get(url)
    return place is None or place.is_closing


async def close_here(url: str) -> None:
    """Close the store on the running loop, if it is open there. Its runs are left to others."""
    place = _places.get(asyncio.get_running_loop(), {}).pop(url, None)
    if place is not None:
        place.over.set()
        await asyncio.wait([place.keeper])


async def _keep_open(url: str, opened: asyncio.Future[OpenStore], over: asyncio.Event) -> None:
    """Have a store open until it is `over`, or the loop ends."""
    opening = asyncio.ensure_future(run_in_thread(partial(Database, url, shared=True)))
    try:
        store = OpenStore(await asyncio.shield(opening))
    except asyncio.CancelledError:
        opening.add_done_callback(lambda done: None if done.cancelled() or done.exception() else done.result().close())
        opened.cancel()
        raise
    except Exception as error:
        _refuse(opened, error)
        return
    try:
        await store.due.join()
        opened.set_result(store)
        await over.wait()
    except Exception as error:
        _refuse(opened, error)
    finally:
        await store.close()


def _refuse(opened: asyncio.Future[OpenStore], error: Exception) -> None:
    opened.set_exception(error)
    opened.exception()  # whoever waits is told


def _end_of_loop(place: _Place) -> None:
    """Close the database of a store whose loop ended without a word; its lease runs out."""
    if place.opened.done() and not place.opened.cancelled() and place.opened.exception() is None:
        database = place.opened.result().database
        if not place.keeper.done():
            database.end()
            database.close()
