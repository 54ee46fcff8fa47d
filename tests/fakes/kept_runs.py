"""Runs on a real database, driven in this process, without a server around them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from sqlalchemy import Connection, select

from fakes.until import until_async
from retinue import Agent, PromptModel
from retinue.core.events import Event
from retinue.core.values import Decision
from retinue.runs import RunInput, Runs
from retinue.runs.agent_versions import agent_at
from retinue.runs.cancellation import cancel_run
from retinue.runs.submissions import submit_decisions
from retinue.store.database import Database
from retinue.store.due import Reason, due_runs
from retinue.store.event_log import read_events
from retinue.store.prepared_statements import insert_once
from retinue.store.run_queries import find_run, insert_run
from retinue.store.run_row import RunRow
from retinue.store.tables import messages, threads

RESTING = ("requires_action", "completed", "failed", "cancelled", "expired", "incomplete")


def new_run(run_id: str = "run_1", **values: Any) -> RunRow:
    """A queued run on a thread of its own, which it holds."""
    given: dict[str, Any] = {"id": run_id, "tenant": "t", "thread_id": f"thread_of_{run_id}", "created_at": 1}
    given |= {"status": "queued", "holds": True, "expires_at": None, "epoch": 0, "agent": "m"}
    return RunRow(**{**given, "request": {"model": "m"}, **values})


def add_run(connection: Connection, run: RunRow) -> None:
    """Insert a run, and its thread."""
    if run.thread_id is not None:
        there = {"tenant": run.tenant, "id": run.thread_id, "created_at": 1, "body": {}}
        insert_once(connection, threads, there)
    insert_run(connection, run)


def due_for(connection: Connection, *reasons: Reason, process: str = "p") -> list[str]:
    """The ids of the runs that are due for these reasons."""
    return [one.run_id for one in due_runs(connection, process, 10**9, 100) if one.reason in reasons]


class KeptRuns:
    """What is in `database`, and `driver` that drives it with the agent that `agent` makes for each drive."""

    def __init__(self, database: Database, agent: Callable[[], Agent]) -> None:
        self.database = database
        self.agent = agent
        self.driver = self.another()

    def another(self) -> Runs:
        """Another driver on the same database, as of a process that does not know of this one."""
        return Runs(self.database, self._assign)

    async def _assign(self, run: RunRow) -> RunInput:
        own = self.agent()
        return RunInput(agent_at({"m": own}, run.agent) or own, run.request.get("question", "Begin"))

    async def add(self, run_id: str = "run_1", **values: Any) -> str:
        """A new run on a thread of its own."""
        await self.database.write(partial(add_run, run=new_run(run_id, **values)))
        return run_id

    async def row(self, run_id: str = "run_1") -> RunRow:
        """The run as it is."""
        row = await self.database.read(partial(find_run, run_id=run_id))
        assert row is not None
        return row

    async def log(self, run_id: str = "run_1") -> list[Event]:
        """Its events; their numbers have no gaps."""
        entries = await self.database.read(partial(read_events, run_id=run_id))
        assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
        return [entry.event for entry in entries]

    async def said(self, run_id: str = "run_1") -> list[str]:
        """What it said on its thread."""
        query = select(messages.c.body).where(messages.c.run_id == run_id).order_by(messages.c.number)
        bodies = await self.database.read(lambda connection: list(connection.execute(query).scalars()))
        return [body["content"][0]["text"]["value"] for body in bodies]

    async def rests(self, run_id: str = "run_1") -> RunRow:
        """The run once it has ended, or waits for a person."""

        async def found() -> RunRow | None:
            row = await self.row(run_id)
            return row if row.status in RESTING else None

        row = await until_async(found)
        assert row is not None
        return row

    async def decide(self, decisions: Mapping[str, Decision], run_id: str = "run_1", mark: str = "") -> None:
        """A person's decisions, if the run waits for them. It is not driven by this."""

        def work(connection: Connection) -> None:
            row = find_run(connection, run_id)
            if row is not None and row.status == "requires_action":
                submit_decisions(connection, row, decisions, 600, mark or f"mark {len(row.submissions)}")

        await self.database.write(work)

    async def halt(self, run_id: str = "run_1", ending: str = "") -> RunRow:
        """The run, ended from outside if it is active; what is under way is not interrupted by this."""

        def work(connection: Connection) -> RunRow:
            row = find_run(connection, run_id)
            assert row is not None
            return cancel_run(connection, row, ending) if row.active else row

        return await self.database.write(work)


@asynccontextmanager
async def kept_runs(url: str, agent: Callable[[], Agent]) -> AsyncIterator[KeptRuns]:
    """Runs in the database `url`, while in the block."""
    database = Database(url)
    kept = KeptRuns(database, agent)
    try:
        yield kept
    finally:
        await kept.driver.close(0)
        await database.close_async()


def calling(
    tools: Sequence[Any], *calls: Mapping[str, Any] | Sequence[Mapping[str, Any]], answer: str = "Done."
) -> Agent:
    """An agent that calls its tools as `calls` say, one after the other, and then answers. Each result is `NAME N`,
    by which the script, which keeps nothing, knows where it is; so a new one goes on where an old one was."""
    script: list[dict[str, Any]] = [
        {"when": rf"(?m)\b{at}$" if at else "Begin", "call": call} for at, call in enumerate(calls)
    ]
    script.reverse()
    script.insert(0, {"when": rf"(?m)\b{len(calls)}$", "finish": answer})
    script.append({"finish": "I was told otherwise."})
    return Agent(PromptModel(engine="scripted", script=script), tools, strategy="tool_calling")


class Gate:
    """A place where something waits until it is opened; `reached` tells that it does."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    async def wait(self) -> None:
        """Wait here."""
        self.reached.set()
        await self.opened.wait()
