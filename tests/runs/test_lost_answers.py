"""What is lost between a process and its database, or another process, changes nothing of a run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Any

import pytest

from fakes.kept_runs import Gate, KeptRuns, add_run, calling, kept_runs, new_run
from fakes.until import until_async
from retinue import Agent, tool
from retinue.core.events import Asked, Event, Finished, Paused, Replied, Started, Stopped
from retinue.core.prompt import Ask
from retinue.core.protocols import Chunks
from retinue.core.values import Capabilities, Decision
from retinue.errors import StoreUnavailable
from retinue.runs import DueRuns, Subscriptions
from retinue.runs.follow import Followed, Notifier
from retinue.store.database import Database, Work
from retinue.store.event_log import Entry, append_entries
from retinue.store.processes import enter
from retinue.store.run_row import BY_MEMBERS, RunRow

pytestmark = pytest.mark.anyio


class Losing(Database):
    """A database that commits the first events of a run, and whose answer to that is lost."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.lost = asyncio.Event()

    def submit(self, work: Work[Any], **how: bool) -> asyncio.Future[Any]:
        done = super().submit(work, **how)
        if self.lost.is_set() or not (isinstance(work, partial) and work.func is append_entries):
            return done
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def lose(_: asyncio.Future[Any]) -> None:
            answer.set_exception(StoreUnavailable("the server closed the connection"))
            self.lost.set()

        done.add_done_callback(lose)
        return answer


class Waiting:
    """A model that replies as another does, once something has happened."""

    def __init__(self, model: Any, event: asyncio.Event) -> None:
        self._model = model
        self._event = event
        self.name = "waiting"

    async def abilities(self, *, native: bool = False) -> Capabilities:
        return Capabilities(calls_tools=True)

    async def reply(self, request: Ask) -> Chunks:
        await self._event.wait()
        async with aclosing(self._model.reply(request)) as chunks:
            async for chunk in chunks:
                yield chunk


@tool(approval=True)
def pay(amount: int) -> str:
    """Pays."""
    return f"pay {amount}"


async def test_events_that_were_written_without_an_answer_are_not_written_again(url: str) -> None:
    database = Losing(url)

    def agent() -> Agent:
        made = calling([pay], {"tool": "pay", "input": {"amount": 1}})
        made.model = Waiting(made.model, database.lost)
        return made

    kept = KeptRuns(database, agent)
    try:
        assert await kept.driver.drive(await kept.add()) == "waiting"
        kinds = [type(event) for event in await kept.log()]
        assert kinds == [Started, Asked, Replied, Paused, Stopped]
    finally:
        await kept.driver.close(0)
        await database.close_async()


@pytest.fixture
async def helped(url: str) -> AsyncIterator[tuple[KeptRuns, Gate]]:
    """Runs whose agent works until its gate is opened, and then asks a helper."""
    gate = Gate()

    @tool(effects="read")
    async def work() -> str:
        """Works."""
        await gate.wait()
        return "work 1"

    def agent() -> Agent:
        helper = calling([], answer="helped")
        helper.name = "helper"
        return calling([work, helper], {"tool": "work", "input": {}}, {"tool": "helper", "input": {"query": "Begin"}})

    async with kept_runs(url, agent) as kept:
        yield kept, gate


async def test_a_cancelled_run_is_at_no_time_left_to_its_members(helped: tuple[KeptRuns, Gate]) -> None:
    """Its process might end just then: nobody would cancel them, and the run would go on with what they say."""
    kept, gate = helped
    driving = kept.driver.start(await kept.add())
    rows: list[RunRow] = []

    async def follow() -> None:
        async with aclosing(kept.driver.followers.follow("run_1")) as items:
            async for item in items:
                rows.extend([item] if isinstance(item, RunRow) else [])

    following = asyncio.create_task(follow())
    await gate.reached.wait()
    await kept.halt()  # at another process: this one does not hear of it
    gate.opened.set()
    await driving
    await following
    assert rows[-1].status == "cancelled"
    assert BY_MEMBERS not in {row.driver for row in rows}


async def test_a_reader_gets_what_another_process_wrote_before_this_one_took_over(url: str) -> None:
    events: list[Event] = [Started("?", "a", "react", "m", ()), Asked(1, 0, ()), Asked(2, 1, ()), Finished("Done.", {})]
    log = [Entry(seq, 1.0, event) for seq, event in enumerate(events, 1)]
    run = new_run(status="in_progress", epoch=1)
    database = Database(url)
    subscriptions = Subscriptions(database, Notifier(database, ()))
    try:
        await database.write(partial(add_run, run=run))
        await database.write(partial(append_entries, holder=run, entries=log[:1]))
        seen: list[Followed] = []
        async with aclosing(subscriptions.follow("run_1")) as items:
            async for item in items:
                seen.append(item)
                if isinstance(item, RunRow) and len(seen) == 2:  # it waits for news from here on
                    await database.write(partial(append_entries, holder=run, entries=log[1:]))
                    subscriptions.publish("run_1", log[3:])
                if item == log[3]:
                    break
        assert [item for item in seen if isinstance(item, Entry)] == log
    finally:
        await database.close_async()


class LosingTheLast(Database):
    """A database that commits the end of a drive, whose answer is lost, and is asked again only when `again` is set."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.lost = asyncio.Event()
        self.again = asyncio.Event()

    def submit(self, work: Work[Any], **how: bool) -> asyncio.Future[Any]:
        if not (isinstance(work, partial) and work.keywords.get("change")):
            return super().submit(work, **how)
        return asyncio.ensure_future(self._answer(work))

    async def _answer(self, work: Work[Any]) -> Any:
        if not self.lost.is_set():
            await super().submit(work)
            self.lost.set()
            raise StoreUnavailable("the server closed the connection")
        await self.again.wait()
        return await super().submit(work)


async def test_what_a_person_decided_is_not_undone_by_a_write_that_is_repeated(url: str) -> None:
    database = LosingTheLast(url)
    kept = KeptRuns(database, lambda: calling([pay], {"tool": "pay", "input": {"amount": 1}}))
    try:
        driving = asyncio.create_task(kept.driver.drive(await kept.add()))
        await database.lost.wait()
        await kept.decide({"call_1_0": Decision("approve")})
        database.again.set()
        assert await driving == "waiting"
        assert (await kept.row()).status == "queued"
        assert await kept.driver.drive("run_1") == "ended"
        assert (await kept.row()).status == "completed"
    finally:
        await kept.driver.close(0)
        await database.close_async()


async def test_a_cancelled_run_stays_so_when_its_end_is_written_again(url: str) -> None:
    gate = Gate()

    @tool(effects="read")
    async def work() -> str:
        """Works."""
        await gate.wait()
        return "work 1"

    database = LosingTheLast(url)
    kept = KeptRuns(database, lambda: calling([work], {"tool": "work", "input": {}}))
    try:
        driving = asyncio.create_task(kept.driver.drive(await kept.add()))
        await gate.reached.wait()
        assert (await kept.halt()).status == "cancelling"  # at another process: this one answers all the same
        gate.opened.set()
        database.again.set()
        assert await driving == "ended"
        assert (await kept.row()).status == "cancelled"
    finally:
        await kept.driver.close(0)
        await database.close_async()


async def test_a_run_that_its_process_acquired_a_moment_ago_is_not_acquired_again(any_url: str) -> None:
    """The transaction of its caller did so, which is about to start it. Only if that answer was lost, it is due."""

    @tool(effects="read")
    def look() -> str:
        """Look."""
        return "look 1"

    async with kept_runs(any_url, lambda: calling([look], {"tool": "look", "input": {}})) as kept:
        process = kept.database.process
        await kept.database.write(partial(enter, process=process))
        run = await kept.add(status="in_progress", epoch=1, driver=process, attempts=1)
        due = DueRuns(kept.driver)
        assert await due.look() == 0
        assert (await kept.row(run)).epoch == 1
        await until_async(due.look)
        assert (await kept.rests(run)).status == "completed"
