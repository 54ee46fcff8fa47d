"""`AgentRuns`: the runs of an agent that its store keeps, as `agent.runs`; and `Thread`, a conversation among them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Unpack

from .._internal.message_text import suggest_name
from .._internal.sync_bridge import iterate_blocking, run_blocking
from ..core.events import Delta, Event
from ..core.run_result import RunResult
from ..core.schema.answers import Answer
from ..core.values import Decision
from ..errors import UsageError
from ..run.fork import ForkPoint
from ..runs.run_fork import ForkEdits
from ..store.run_queries import RunFilter, newest_runs
from ..store.run_row import ACTIVE, ENDED, RunRow
from ..store.thread_messages import find_thread_id
from .open_store import TENANT, Holder, OpenStore, close_here, open_for, store_url
from .run import KeptRun, find_own, read_kept, show_entry, start_kept

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from ..agent import Agent, RunOptions

_MOST = 10_000


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What is known of a kept run without its log.

    Args:
        id: Its id, the `run` of its result.
        question: What was asked.
        status: `queued`, `in_progress`, `requires_action` (it waits for a person), `cancelling`, `suspended` (its agent
            has changed), or how it ended: `completed`, `failed`, `cancelled`, `expired`, `incomplete`.
        created_at: When it was made, in Unix seconds, as are `started_at` and `ended_at`.
        user: For whom it is; `thread` and `metadata` are the others of `RunOptions`.
        waiting: The ids of the calls that wait for a person's decision.
        error: Why it failed, or is suspended.
    """

    id: str
    question: str
    status: str
    created_at: int
    started_at: int | None = None
    ended_at: int | None = None
    user: str = ""
    thread: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    waiting: tuple[str, ...] = ()
    error: str = ""


def _info(row: RunRow) -> RunInfo:
    return RunInfo(
        row.id,
        row.request.get("question", ""),
        "suspended" if row.suspended else row.status,
        row.created_at,
        row.started_at,
        row.ended_at,
        row.user or "",
        row.request.get("thread") or row.thread_id or "",
        dict(row.metadata),
        tuple(call["id"] for call in row.waiting),
        row.error.message if row.error else "",
    )


class AgentRuns(Generic[Answer]):
    """The runs of an agent in its store, whichever process drives or drove them. Each method has an `_async` form, for
    code that runs on a loop; both raise `UsageError` for a run that is not there, or is another agent's."""

    def __init__(self, agent: Agent[Any, Answer], store: str | Path) -> None:
        self._agent = agent
        self._url = store_url(store)

    def start(self, question: str, options: RunOptions[Any]) -> KeptRun[Answer]:
        """Return a run that is added to the store as it begins."""
        return start_kept(self._url, self._agent, question, options)

    def thread(self, thread_id: str) -> Thread[Answer]:
        """Return a conversation."""
        return Thread(self._agent, thread_id)

    async def close_async(self) -> None:
        """Close the store on the running loop."""
        await close_here(self._url)

    async def list_async(
        self,
        *,
        status: str | Sequence[str] = (),
        user: str | None = None,
        thread: str | None = None,
        metadata: Mapping[str, str] | None = None,
        limit: int = 100,
    ) -> list[RunInfo]:
        """Return the runs, newest first: of a status (or several), of a user, on a thread, and with this metadata."""
        statuses = (status,) if isinstance(status, str) else tuple(status)
        if other := [one for one in statuses if one not in (*ACTIVE, *ENDED)]:
            raise UsageError(f"status: {suggest_name(other[0], sorted((*ACTIVE, *ENDED)))}, not {other[0]!r:.80}")

        def read(connection: Connection) -> list[RunRow]:
            at = None if thread is None else find_thread_id(connection, TENANT, thread) or ""
            wanted = RunFilter(
                agent=self._agent.name, statuses=statuses, user=user, thread_id=at, metadata=dict(metadata or {})
            )
            return newest_runs(connection, wanted, TENANT, min(limit, _MOST))

        return [_info(row) for row in await (await self._store()).database.read(read)]

    async def get_async(self, run_id: str) -> RunInfo:
        """Return what is known of a run."""
        read = partial(find_own, run_id=run_id, agent=self._agent.name)
        return _info(await (await self._store()).database.read(read))

    async def result_async(self, run_id: str) -> RunResult[Answer]:
        """Return the outcome of a run so far: that of one which ended earlier, or waits for a person (`waiting`)."""
        read = partial(read_kept, run_id=run_id, agent=self._agent)
        return (await (await self._store()).database.read(read))[1]

    async def follow_async(self, run_id: str) -> AsyncGenerator[Event | Delta, None]:
        """Yield the events of a run from its beginning, and as they happen, until it rests: also of one that another
        process drives."""
        store = await self._store()
        row = await store.database.read(partial(find_own, run_id=run_id, agent=self._agent.name))
        async with aclosing(store.runs.followers.follow(run_id, run=row)) as items:
            async for item in items:
                if not isinstance(item, RunRow):
                    yield show_entry(item)
                elif item.rests:
                    return

    async def resume_async(
        self, run_id: str, decisions: Mapping[str, Decision] | None = None, *, deps: Any = None
    ) -> RunResult[Answer]:
        """Let a run go on that waits for decisions on calls (by their ids), and return its outcome. Without decisions,
        take over one that its process left. Raises as `Agent.resume` does."""
        return await (await self._attach(run_id, decisions, deps)).finish()

    async def fork_async(
        self,
        run_id: str,
        step: int | None = None,
        *,
        observations: Mapping[str, str] | None = None,
        instructions: str | None = None,
        compacted: bool = True,
        deps: Any = None,
    ) -> RunResult[Answer]:
        """Begin another run with the beginning of this one, as `retinue.fork` does, and return its outcome."""
        edits = ForkEdits(ForkPoint(step, observations or {}, instructions, compacted=compacted))
        store = await self._store()
        row = await store.fork(run_id, edits, store.hold(self._agent, {"deps": deps}))
        return await (await self._attach(row.id, None, deps, row)).finish()

    async def cancel_async(self, run_id: str) -> RunInfo:
        """Cancel a run, whichever process drives it. One that is driven ends within a second or so."""
        store = await self._store()
        await store.database.read(partial(find_own, run_id=run_id, agent=self._agent.name))
        return _info(await store.cancel(run_id))

    async def recover_async(self, *, deps: Any = None) -> list[RunResult[Answer]]:
        """Go on with what processes left, as `Agent.recover_async` does."""
        store = await self._store()
        left = await store.find_left(self._agent.name)
        end = store.take_over(store.hold(self._agent, {"deps": deps}))
        try:
            return list(filter(None, await asyncio.gather(*map(self._rest, left))))
        finally:
            end()

    async def _rest(self, run_id: str) -> RunResult[Answer] | None:
        """Return the outcome of a run once it rests; `None` if it is suspended, since the agent has changed."""
        async for _ in self.follow_async(run_id):
            pass
        return None if (await self.get_async(run_id)).status == "suspended" else await self.result_async(run_id)

    async def _store(self) -> OpenStore:
        return await open_for(self._agent, self._url)

    async def _attach(
        self, run_id: str, decisions: Mapping[str, Decision] | None, deps: Any, row: RunRow | None = None
    ) -> KeptRun[Answer]:
        """Return a kept run as its caller has it, which goes on."""
        store = await self._store()
        await store.database.read(partial(find_own, run_id=run_id, agent=self._agent.name))

        async def begin(store: OpenStore, holder: Holder) -> RunRow:
            if decisions:
                return await store.resume(run_id, decisions, holder)
            return row or await store.take(run_id, holder)

        return KeptRun(self._url, self._agent, run_id, "(as it was asked)", begin, given={"deps": deps})

    # ── the same for code without a loop ─────────────────────────────────────────────────────────

    def list(self, **filters: Any) -> list[RunInfo]:
        """Run `list_async` and block."""
        return run_blocking(self.list_async(**filters))

    def get(self, run_id: str) -> RunInfo:
        """Run `get_async` and block."""
        return run_blocking(self.get_async(run_id))

    def result(self, run_id: str) -> RunResult[Answer]:
        """Run `result_async` and block."""
        return run_blocking(self.result_async(run_id))

    def follow(self, run_id: str) -> Iterator[Event | Delta]:
        """Iterate over `follow_async` and block."""
        return iterate_blocking(self.follow_async(run_id))

    def resume(
        self, run_id: str, decisions: Mapping[str, Decision] | None = None, *, deps: Any = None
    ) -> RunResult[Answer]:
        """Run `resume_async` and block."""
        return run_blocking(self.resume_async(run_id, decisions, deps=deps))

    def fork(self, run_id: str, step: int | None = None, **edits: Any) -> RunResult[Answer]:
        """Run `fork_async` and block."""
        return run_blocking(self.fork_async(run_id, step, **edits))

    def cancel(self, run_id: str) -> RunInfo:
        """Run `cancel_async` and block."""
        return run_blocking(self.cancel_async(run_id))


class Thread(Generic[Answer]):
    """A conversation that an agent's store keeps, the same as a server's thread of that id or key. Each run begins with
    what was said before; one that is asked for while another is at work waits for its turn."""

    def __init__(self, agent: Agent[Any, Answer], thread_id: str) -> None:
        self._agent = agent
        self.id = thread_id

    async def run_async(self, question: str, **options: Unpack[RunOptions[Any]]) -> RunResult[Answer]:
        """Say something and return what came of it. Raises as `Agent.run_async` does."""
        options["thread"] = self.id
        return await self._agent.run_async(question, **options)

    def run(self, question: str, **options: Unpack[RunOptions[Any]]) -> RunResult[Answer]:
        """Run `run_async` and block."""
        return run_blocking(self.run_async(question, **options))

    def stream_async(self, question: str, **options: Unpack[RunOptions[Any]]) -> AsyncGenerator[Event | Delta, None]:
        """Say something and yield what happens. Raises as `Agent.stream_async` does."""
        options["thread"] = self.id
        return self._agent.stream_async(question, **options)
