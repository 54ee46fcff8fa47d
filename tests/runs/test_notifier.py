"""Readers of a run that another process drives, on PostgreSQL: they hear of everything by notifications, and of what
these lose by looking."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import pytest
from sqlalchemy import text

from fakes.kept_runs import add_run, new_run
from fakes.postgres import Postgres
from fakes.until import until_async
from retinue.core.events import Asked, Delta, Finished, Said
from retinue.runs.follow import Notifier, Subscriptions
from retinue.runs.leases import acquire_epoch
from retinue.runs.log_writer import LogWriter
from retinue.store.database import Database
from retinue.store.engines import session_name
from retinue.store.event_log import Entry
from retinue.store.run_queries import delete_runs

pytestmark = pytest.mark.anyio
NEVER = 1_000.0  # seconds: whoever waits for it fails


class Process:
    """One that has the database open. It looks at the database as `often` and as `seldom` as is said."""

    def __init__(self, url: str, here: Collection[str], often: float, seldom: float) -> None:
        self.database = Database(url)
        self.notifier = Notifier(self.database, here, often, seldom)
        self.followers = Subscriptions(self.database, self.notifier)

    async def listens(self) -> bool:
        """Whether it hears notifications."""
        sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = :name AND query LIKE 'LISTEN %'"
        asked = text(sessions).bindparams(name=session_name(self.database.process))
        return bool(await self.database.read(lambda connection: connection.execute(asked).scalar()))

    async def drive(self) -> LogWriter:
        """Begin the run."""
        await self.database.write(partial(add_run, run=new_run()))
        claim = partial(acquire_epoch, run_id="run_1", process=self.database.process)
        lease = await self.database.write(claim)
        assert lease is not None
        return LogWriter(self.database, self.followers, lease.run, [])


@asynccontextmanager
async def process(
    url: str, *, here: Collection[str] = (), often: float = NEVER, seldom: float = NEVER, listening: bool = True
) -> AsyncIterator[Process]:
    one = Process(url, here, often, seldom)
    task = asyncio.create_task(one.notifier.keep_listening()) if listening else None
    try:
        if listening:  # what is told before that is lost, and nobody looks
            await until_async(one.listens)
        yield one
    finally:
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await one.database.close_async()


@asynccontextmanager
async def reading(one: Process, *, listens: bool = True) -> AsyncIterator[list[int]]:
    """The numbers of the entries that a reader of the run gets. At the end, the run is deleted."""
    seen: list[int] = []

    async def read() -> None:
        async for item in one.followers.follow("run_1", listens=listens):
            seen.extend([item.seq] if isinstance(item, Entry) else [])

    task = asyncio.create_task(read())
    try:
        yield seen
    finally:
        await one.database.write(partial(delete_runs, run_ids=["run_1"]))
        one.notifier.publish("run_1")
        await task


@pytest.fixture
def url(a_postgres: Postgres) -> str:
    return a_postgres.database()


async def has(seen: list[int], most: int) -> None:
    async def found() -> bool:
        return seen == list(range(1, most + 1))

    await until_async(found)


async def test_a_reader_elsewhere_gets_each_event_without_looking(url: str) -> None:
    async with process(url, here=["run_1"]) as driver, process(url) as other:
        writer = await driver.drive()
        writer.put(Asked(1, 0, ()))
        await writer.written()
        async with reading(other) as seen:
            await has(seen, 1)
            for step in range(2, 12):
                writer.put(Asked(step, 0, ()))
                await writer.written()
                await has(seen, step)


async def test_many_readers_of_several_processes_get_the_same(url: str) -> None:
    async with AsyncExitStack() as stack:
        driver = await stack.enter_async_context(process(url, here=["run_1"]))
        writer = await driver.drive()
        others = [await stack.enter_async_context(process(url)) for _ in range(2)]
        read = [await stack.enter_async_context(reading(one)) for one in (driver, *others, *others)]
        for step in range(1, 300):
            writer.put(Asked(step, 0, ()))
            if step % 10 == 0:
                await writer.written()
        writer.put(Finished("Done.", {}))
        await writer.written()
        for seen in read:
            await has(seen, 300)


async def test_deltas_are_kept_for_who_listens_elsewhere(url: str) -> None:
    async with process(url, here=["run_1"]) as driver, process(url) as other:
        writer = await driver.drive()
        writer.put(Asked(1, 0, ()))
        await writer.written()
        writer.tell(Delta("Hel"))
        async with reading(other) as seen:

            async def listened() -> bool:
                return driver.followers.listen("run_1")

            await until_async(listened)
            writer.tell(Delta("lo"))
            await has(seen, 2)
        assert [entry.event.text for entry in writer.log if isinstance(entry.event, Said)] == ["Hello"]


async def test_deltas_are_kept_for_nobody_else(url: str) -> None:
    # the reader also looks, for its word may come before the driver listens
    async with process(url, here=["run_1"]) as driver, process(url, often=0.05, seldom=0.05) as other:
        writer = await driver.drive()
        async with reading(other, listens=False) as seen:
            for step in range(1, 4):
                writer.put(Asked(step, 0, ()))
                await writer.written()
                await has(seen, step)
            assert not driver.followers.listen("run_1")


async def test_a_reader_elsewhere_that_has_gone_is_forgotten(url: str) -> None:
    async with process(url, here=["run_1"], seldom=0.05) as driver:
        await driver.drive()

        async def listened(wanted: bool) -> bool:
            return driver.followers.listen("run_1") is wanted

        async with process(url) as other, reading(other):
            await until_async(partial(listened, True))
        await until_async(partial(listened, False))


async def test_what_is_lost_with_a_connection_is_found_when_it_is_back(url: str) -> None:
    ends = text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
    async with process(url, here=["run_1"], often=0.05) as driver, process(url, often=0.05) as other:
        writer = await driver.drive()
        async with reading(other) as seen:
            for step in range(1, 6):
                await driver.database.write_apart(lambda connection: connection.execute(ends).all())
                writer.put(Asked(step, 0, ()))
                await writer.written()
                await has(seen, step)


async def test_without_notifications_a_reader_looks(url: str) -> None:
    async with (
        process(url, here=["run_1"], listening=False) as driver,
        process(url, often=0.02, listening=False) as other,
    ):
        writer = await driver.drive()
        async with reading(other) as seen:
            for step in range(1, 4):
                writer.put(Asked(step, 0, ()))
                await writer.written()
                await has(seen, step)
