"""`KeptRun`: a run as its caller has it, which its store keeps. It is driven by the store that is open on the caller's
loop, or by another process, and followed here."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from ..core.events import ENDINGS, Delta, Event, Finished, Replied, Said, Started, Stopped
from ..core.run_context import find_among
from ..core.run_result import RunResult, find_ending, fold_result
from ..core.schema.answers import Answer
from ..core.serialization import dump
from ..core.values import Message, StopReason
from ..errors import AgentChanged, DataError, ModelError, StoreUnavailable, UsageError
from ..net.file_source import load_files
from ..run.run import Run, read_history
from ..store.clock import CLOCK
from ..store.event_log import Entry
from ..store.run_queries import find_run
from ..store.run_row import RunRow
from ..store.team_logs import TeamLogs
from .open_store import CLOSED, TENANT, Holder, NewRun, OpenStore, is_closing_here, open_for, unknown

if TYPE_CHECKING:
    from ..agent import Agent, History, RunOptions

Begin = Callable[[OpenStore, Holder], Awaitable[RunRow]]


def run_id_of(key: str) -> str:
    """Return the id of the run with this key of the user's; a new one if it is empty."""
    return f"run_{hashlib.sha256(key.encode()).hexdigest()[:24] if key else secrets.token_hex(12)}"


class KeptRun(Run[Answer]):
    """A run that a store keeps, under its `key`. `begin` adds it, or lets it go on. If the caller goes away, it is
    driven no longer, and stays for whoever goes on with it."""

    def __init__(  # noqa: PLR0913 -- what it is, where, and how it begins
        self,
        url: str,
        agent: Agent[Any, Answer],
        run_id: str,
        question: str,
        begin: Begin,
        history: History = (),
        given: Mapping[str, Any] = {},
    ) -> None:
        super().__init__(agent, question, history, key=run_id)
        self._url, self._agent, self._begins, self.given = url, copy.copy(agent), begin, given
        self._listens = True
        self._at: tuple[asyncio.AbstractEventLoop, OpenStore] | None = None
        self._cancelled = False

    async def events(self) -> AsyncGenerator[Event | Delta, None]:
        """Have the run driven and yield its events once they are kept, and the model's text as it arrives. Raises as
        `Run.events` does, `StoreUnavailable` if the store is closed meanwhile, and `AgentChanged` if the run cannot go
        on with this agent."""
        store = await open_for(self._agent, self._url)
        began, over = time.perf_counter(), False
        row = await self._begins(store, store.hold(self._agent, self.given))
        self._at = asyncio.get_running_loop(), store
        if self._cancelled:
            await store.cancel(self.key)
        try:
            items = store.runs.followers.follow(self.key, listens=self._listens, run=row)
            async with aclosing(items):
                async for item in items:
                    self._seconds = time.perf_counter() - began
                    if isinstance(item, RunRow):
                        row = item
                        if over := row.rests:
                            break
                        continue
                    yield self._take(item)
            if row.error is not None and row.error.code == CLOSED:
                over = False
                raise StoreUnavailable(f"{CLOSED}, and {self.key} is left to whoever goes on with it: agent.recover()")
            await self._finish(store, row)
        finally:
            self._at = None
            if not over and not is_closing_here(self._url):
                await asyncio.shield(store.leave(self.key))

    def _take(self, entry: Entry) -> Event | Delta:
        event = show_entry(entry)
        if not isinstance(event, Delta):
            self.log.append(event)
        if self.listener is not None:
            self.listener("", event)
        return event

    async def _finish(self, store: OpenStore, row: RunRow) -> None:
        """Read what became of the members. Raises why the run could not begin, or go on."""
        read = partial(read_members, run_id=self.key)
        if any(isinstance(event, Stopped | Finished) for event in self.log):
            self._nested.children |= await store.database.read(read)
        problem = store.problems.pop(self.key, None)
        if row.suspended:
            raise problem or AgentChanged(row.error.message if row.error else "the agent changed")
        if row.status != "failed":
            return
        if problem is not None:
            raise problem
        said = row.error.message if row.error else "the run failed"
        if not self.log or not isinstance(self.log[-1], ENDINGS):
            self.log.append(Stopped(StopReason.ERROR, said))
        end = self.log[-1]
        if isinstance(end, Stopped) and end.code and not any(isinstance(event, Replied) for event in self.log):
            raise ModelError(end.detail)

    async def drain(self) -> RunResult[Answer]:
        """Run to the end, as `Run.drain` does; the model's text is not kept as it arrives."""
        self._listens = False
        return await super().drain()

    def cancel(self) -> None:
        """Cancel the run at once, as `Run.cancel` does."""
        self._cancelled = True
        if self._at is not None:
            loop, store = self._at
            work = partial(store.cancel, self.key)
            loop.call_soon_threadsafe(store.runs.beside, "cancelling a run", lambda: _quietly(work))


def show_entry(entry: Entry) -> Event | Delta:
    """Return what an entry of the log is to who follows the run."""
    event = entry.event
    return Delta(event.text, event.answer, event.reasoning) if isinstance(event, Said) else event


async def _quietly(work: Callable[[], Awaitable[object]]) -> None:
    with suppress(StoreUnavailable, UsageError):
        await work()


def start_kept(url: str, agent: Agent[Any, Answer], question: str, options: RunOptions[Any]) -> KeptRun[Answer]:
    """Return a run of an agent as it is now, which is added to the store as it begins."""
    run_id, history = run_id_of(options.get("key", "")), options.get("history", ())
    given = {"deps": options["deps"]} if "deps" in options else {}
    given |= {"find_secret": find_among(options["secrets"])} if "secrets" in options else {}
    begin = partial(_begin_new, run_id=run_id, question=question, history=read_history(history), options=options)
    return KeptRun(url, agent, run_id, question, begin, history=history, given=given)


async def _begin_new(
    store: OpenStore,
    holder: Holder,
    *,
    run_id: str,
    question: str,
    history: Sequence[Message],
    options: RunOptions[Any],
) -> RunRow:
    files = await load_files(options.get("files", ()))
    request: dict[str, Any] = {"model": holder.agent.name, "question": question}
    thread = options.get("thread", "")
    turns = [{"role": one.role, "content": one.content} for one in history]
    asked = {"role": "user", "content": question}
    if thread and not history:
        request |= {"thread": thread, "additional_messages": [asked]}
    else:
        request |= {"messages": [*turns, asked]} | ({"thread": thread} if thread else {})
    if any(one != Message(one.role, one.content) for one in history):  # calls, files and what vendors want back
        request["started"] = dump(Started(question, "", "", "", (), history=tuple(history)))[1]
    if params := options.get("params"):
        request["params"] = params
    shown = [file for one in history for file in one.files if file.data]
    row = RunRow(
        id=run_id,
        tenant=TENANT,
        thread_id=None,
        created_at=int(CLOCK.now()),
        status="queued",
        holds=True,
        expires_at=None,
        epoch=0,
        request=request,
        kind="python",
        agent=holder.agent.name,
        metadata=dict(options.get("metadata", {})),
        stored=True,
        user=options.get("user") or None,
    )
    return await store.begin(NewRun(row, thread, (*files, *shown)), holder)


# ── what is read of kept runs ────────────────────────────────────────────────────────────────────


def read_members(connection: Connection, run_id: str) -> dict[str, tuple[Event, ...]]:
    """Return the logs of those members of a run that do not wait for a person, by the paths of their calls: what the
    others ask is in the run's own log, once it has been told."""
    return _of_members(_read_logs(connection, run_id))


def _read_logs(connection: Connection, run_id: str) -> dict[str, list[Entry]]:
    logs: dict[str, list[Entry]] = {}
    for path, entry in TeamLogs(run_id).read(connection, whole=True):
        if not isinstance(entry.event, Said):
            logs.setdefault(path, []).append(entry)
    return logs


def _of_members(logs: Mapping[str, Sequence[Entry]]) -> dict[str, tuple[Event, ...]]:
    found = {path: tuple(entry.event for entry in log) for path, log in logs.items() if path}
    return {path: log for path, log in found.items() if find_ending(log).reason is not StopReason.AWAITING_HUMAN}


def read_kept(connection: Connection, run_id: str, agent: Agent[Any, Answer]) -> tuple[RunRow, RunResult[Answer]]:
    """Return a run of an agent, and its outcome so far. Raises `UsageError` if there is none, and `DataError` if its
    log cannot be read, or is empty."""
    row = find_own(connection, run_id, agent.name)
    logs = _read_logs(connection, run_id)
    log = logs.pop("", [])
    seconds = log[-1].at - log[0].at if log else 0.0
    events = [entry.event for entry in log]
    if row.status == "failed" and (not events or not isinstance(events[-1], ENDINGS)):
        events.append(Stopped(StopReason.ERROR, row.error.message if row.error else "the run failed"))
    if not events:
        raise DataError(f"the run {run_id} has not begun")
    result: RunResult[Answer] = fold_result(events, seconds, _of_members(logs), agent.spec.answers, run_id)
    return row, result


def find_own(connection: Connection, run_id: str, agent: str) -> RunRow:
    """Return a run of an agent. Raises `UsageError` if there is none."""
    row = find_run(connection, run_id)
    if row is None or row.tenant != TENANT:
        raise unknown(run_id)
    if row.agent != agent:
        raise UsageError(f"the run {run_id} is one of {row.agent!r}, not of {agent!r}")
    return row
