"""Whose turn it is: so many runs at a time, and the others in an order that is fair."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial

import pytest
from sqlalchemy import Connection

from fakes.kept_runs import Gate, calling, new_run
from fakes.until import until_async
from retinue import tool
from retinue.limits.places import Room, RunLimits
from retinue.runs import DueRuns, RunInput, Runs
from retinue.runs.cancellation import cancel_run
from retinue.store.database import Database
from retinue.store.event_log import last_milestone
from retinue.store.run_queries import find_run, insert_run, update_run
from retinue.store.run_row import RunRow

pytestmark = pytest.mark.anyio


class Working:
    """Runs whose only tool waits until it is let go on. `began` are those that began, in order; `driver` drives."""

    def __init__(self, database: Database, room: Room) -> None:
        self.began: list[str] = []
        self.most = 0  # at a time
        self._database = database
        self._gates: dict[str, Gate] = {}
        self.driver = Runs(database, self._assign, room=room)

    async def _assign(self, run: RunRow) -> RunInput:
        gate = self._gates[run.id] = Gate()

        @tool(effects="read")
        async def work() -> str:
            """Work."""
            self.began.append(run.id)
            self.most = max(self.most, len(self.under_way()))
            await gate.wait()
            return "worked 1"

        return RunInput(calling([work], {"tool": "work", "input": {}}), "Begin")

    def under_way(self) -> set[str]:
        return {id_ for id_ in self.began if not self._gates[id_].opened.is_set()}

    async def add(self, *ids: str, tenant: str = "t", key: str | None = None, at: int = 1) -> None:
        def work(connection: Connection) -> None:
            for id_ in ids:
                insert_run(connection, new_run(id_, tenant=tenant, created_at=at, thread_id=None, key_id=key))

        await self._database.write(work)

    async def row(self, run_id: str) -> RunRow:
        row = await self._database.read(lambda connection: find_run(connection, run_id))
        assert row is not None
        return row

    async def began_all(self, *ids: str) -> None:
        async def all_began() -> bool:
            return set(ids) <= set(self.began)

        await until_async(all_began)

    async def end(self, run_id: str) -> None:
        await self.began_all(run_id)
        self._gates[run_id].opened.set()

        async def ended() -> bool:
            return (await self.row(run_id)).status == "completed"

        await until_async(ended)


@asynccontextmanager
async def working(
    url: str, at_once: int, most: Mapping[str | None, int] | None = None, *, joins: bool = True
) -> AsyncIterator[Working]:
    database = Database(url)
    there = Working(database, Room(at_once, RunLimits(keys=(most or {}).get)))
    due = DueRuns(there.driver)
    if joins:
        await due.join()
    try:
        yield there
    finally:
        await there.driver.close(0)
        await due.leave()
        await database.close_async()


async def test_so_many_at_a_time_and_tenants_take_turns_the_oldest_first(url: str) -> None:
    async with working(url, 1) as there:
        await there.add("a1", "a2", "a3", tenant="a")
        await there.add("b2", tenant="b", at=3)
        await there.add("b1", tenant="b", at=2)
        for id_ in ("a1", "a2", "a3", "b2", "b1"):
            there.driver.dispatch(id_, await there.row(id_))
            await until_async(lambda id_=id_: seen(there, id_))  # type: ignore[misc]
        for id_ in ("a1", "b2", "a2", "b1", "a3"):
            assert (await there.row(id_)).status in ("queued", "in_progress")
            await there.end(id_)
        assert there.began == ["a1", "b2", "a2", "b1", "a3"]
        assert (there.most, [*there.driver.room.waiting]) == (1, [])


async def seen(there: Working, id_: str) -> bool:
    return id_ in there.driver.room.waiting or id_ in there.began


async def test_a_key_has_as_many_as_it_may_and_keeps_no_other_away(url: str) -> None:
    async with working(url, 10, {"key_1": 1}) as there:
        await there.add("a1", "a2", key="key_1")
        await there.add("b1", "b2", key="key_2")
        for id_ in ("a1", "a2", "b1", "b2"):
            there.driver.dispatch(id_, await there.row(id_))
        await there.began_all("a1", "b1", "b2")
        assert ([*there.driver.room.waiting], (await there.row("a2")).status) == (["a2"], "queued")
        assert there.driver.room.of_key("key_1") == 2
        await there.end("a1")
        await there.end("a2")
        assert there.driver.room.of_key("key_1") == 0


async def test_there_is_a_place_for_tenants_that_have_none(url: str) -> None:
    async with working(url, 20) as there:
        of_a = [f"a{number}" for number in range(25)]
        await there.add(*of_a, tenant="a")
        await there.add("b1", "b2", tenant="b", at=2)
        await there.add("c1", tenant="c", at=3)
        for id_ in (*of_a, "b1", "b2", "c1"):
            there.driver.dispatch(id_, await there.row(id_))
        await there.began_all(*of_a[:18], "b1", "c1")
        await until_async(lambda: wait(there, *of_a[18:], "b2"))
        for id_ in of_a[:2]:
            await there.end(id_)
        await there.began_all("b2")
        await until_async(lambda: wait(there, *of_a[18:]))
        for id_ in of_a[2:]:
            await there.end(id_)


async def wait(there: Working, *ids: str) -> bool:
    return set(there.driver.room.waiting) == set(ids)


async def test_one_that_waits_is_ended_at_once(url: str) -> None:
    async with working(url, 1) as there:
        await there.add("a1", "a2", "a3")
        for id_ in ("a1", "a2", "a3"):
            there.driver.dispatch(id_, await there.row(id_))
        await there.began_all("a1")
        await until_async(lambda: wait(there, "a2", "a3"))
        run = await there.row("a2")
        there.driver.halted(await there.driver.database.write(lambda connection: cancel_run(connection, run)))
        assert (await there.row("a2")).status == "cancelled"
        assert (there.began, list(there.driver.room.waiting)) == (["a1"], ["a3"])


async def test_what_is_found_at_the_start_does_not_begin_all_at_once(any_url: str) -> None:
    ids = [f"run_{number}" for number in range(40)]
    async with working(any_url, 4) as there:
        await there.add(*ids)
        for id_ in ids:
            await there.end(id_)
        assert there.began == ids
        assert there.most <= 4


async def test_after_deaths_from_outside_all_runs_soon_go_on_side_by_side(url: str) -> None:
    ids = [f"run_{number}" for number in range(10)]

    def left_by_the_dead(connection: Connection, attempts: int) -> None:
        for id_ in ids:
            run = find_run(connection, id_)
            assert run is not None
            made = last_milestone(connection, id_)[0]
            update_run(connection, run, driver="dead", attempts=attempts, progress=made)

    for attempts in (0, 2, 3):  # at the second death the calls are in the logs, and nothing is added after them
        async with working(url, 100, joins=False) as there:
            if attempts:
                await there.driver.database.write(partial(left_by_the_dead, attempts=attempts))
            else:
                await there.add(*ids)
            await DueRuns(there.driver, patience=0.001).look()
            await there.began_all(*ids)
            assert there.most == 10


async def test_what_waits_is_not_begun_when_the_server_stops(url: str) -> None:
    async with working(url, 1) as there:
        await there.add("a1", "a2")
        for id_ in ("a1", "a2"):
            there.driver.dispatch(id_, await there.row(id_))
        await there.began_all("a1")
        closing = asyncio.create_task(there.driver.close(30))
        await there.end("a1")
        await closing
        assert (there.began, (await there.row("a2")).status) == (["a1"], "queued")
