"""Two processes that drive runs of one PostgreSQL database: each run has one driver, and another one if it dies."""

from __future__ import annotations

import asyncio
import math
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, insert, select, update

from fakes.at_once import at_once
from fakes.kept_runs import Gate, KeptRuns, calling, kept_runs
from fakes.postgres import Postgres
from fakes.until import until_async
from retinue import Agent, Tool, tool
from retinue.core.events import Called
from retinue.core.run_context import Progress, RunContext, current_run, run_context
from retinue.core.tools.toolbox import Toolbox
from retinue.core.values import AgentAction, Decision
from retinue.limits.places import Room
from retinue.runs import DueRuns, Followed, RunInput, Runs
from retinue.runs.leases import Lease, acquire_epoch
from retinue.runs.log_writer import LogWriter
from retinue.server.indexing.queue import finish_file, index_again, next_files, take_files
from retinue.store.clock import CLOCK
from retinue.store.database import Database
from retinue.store.event_log import Entry, Fenced
from retinue.store.processes import (
    begin_stop,
    database_time,
    enter,
    forget_ended,
    is_alive,
    leave,
    new_process_id,
    show_life,
)
from retinue.store.run_row import RunError, RunRow
from retinue.store.tables import files, processes, vector_store_files, vector_stores

pytestmark = pytest.mark.anyio


class Working:
    """A tool that is counted, and that works until its gate is opened."""

    def __init__(self, effects: str = "once", *, approval: bool = False) -> None:
        self.gate = Gate()
        self.began = 0
        self.effects = effects
        self.approval = approval

    def agent(self) -> Agent:
        async def work() -> str:
            """Work."""
            self.began += 1
            await self.gate.wait()
            return "worked 1"

        made: Any = tool(effects=self.effects, approval=self.approval)  # type: ignore[call-overload]
        return calling([made(work)], {"tool": "work", "input": {}})


@pytest.fixture
def working() -> Working:
    return Working()


@pytest.fixture
def url(a_postgres: Postgres) -> str:
    return a_postgres.database()


@pytest.fixture
async def two(url: str, working: Working) -> AsyncIterator[tuple[KeptRuns, KeptRuns]]:
    """Two processes that know of each other."""
    async with kept_runs(url, working.agent) as first, kept_runs(url, working.agent) as second:
        for one in (first, second):
            await one.database.write(partial(enter, process=one.database.process))
        yield first, second


async def die(one: KeptRuns) -> None:
    """Show no life any more, as far as others see."""
    long_ago = update(processes).where(processes.c.id == one.database.process).values(seen_at=1.0)
    await one.database.write(lambda connection: connection.execute(long_ago))


async def alive(one: KeptRuns) -> bool:
    return await one.database.read(partial(is_alive, process=one.database.process))


async def test_a_heartbeat_that_comes_late_does_not_bring_back_a_process_that_left(
    two: tuple[KeptRuns, KeptRuns],
) -> None:
    first, _ = two
    left = threading.Event()
    left.set()
    await first.database.write(partial(leave, process=first.database.process))
    await first.database.write_apart(partial(show_life, process=first.database.process, left=left))
    assert not await alive(first)


async def test_a_run_of_a_living_process_is_not_driven_by_another(
    two: tuple[KeptRuns, KeptRuns], working: Working
) -> None:
    first, second = two
    driving = first.driver.start(await first.add())
    await working.gate.reached.wait()
    assert await DueRuns(second.driver).look() == 0
    assert await second.driver.drive("run_1") == "fenced"
    assert (await second.row()).driver == first.database.process
    working.gate.opened.set()
    await driving
    assert ((await first.row()).status, (await first.row()).epoch, working.began) == ("completed", 1, 1)


async def test_a_run_of_a_process_that_died_is_driven_by_another(two: tuple[KeptRuns, KeptRuns]) -> None:
    first, second = two
    idempotent = Working("idempotent")
    first.agent = second.agent = idempotent.agent
    driving = first.driver.start(await first.add())
    await idempotent.gate.reached.wait()
    await die(first)
    assert await DueRuns(second.driver).look() == 1
    await until_async(lambda: epoch_is(second, 2))
    idempotent.gate.opened.set()  # the first one was only slow
    assert (await second.rests()).status == "completed"
    await driving
    row = await second.row()
    assert (row.epoch, row.driver, row.attempts) == (2, second.database.process, 1)
    await second.log()


async def epoch_is(kept: KeptRuns, epoch: int) -> bool:
    return (await kept.row()).epoch == epoch


async def test_who_shows_life_again_in_time_keeps_its_runs(two: tuple[KeptRuns, KeptRuns], working: Working) -> None:
    first, second = two
    driving = first.driver.start(await first.add())
    await working.gate.reached.wait()
    await die(first)
    assert not await alive(first)
    await first.database.write_apart(partial(show_life, process=first.database.process))
    assert await alive(first)
    assert await second.driver.drive("run_1") == "fenced"
    working.gate.opened.set()
    await driving
    assert working.began == 1


async def test_no_effect_begins_at_a_process_that_was_frozen_after_its_intent_was_written(
    two: tuple[KeptRuns, KeptRuns],
) -> None:
    first, second = two
    await first.add()
    held = await first.database.write(partial(acquire_epoch, run_id="run_1", process=first.database.process))
    assert held is not None
    writer = LogWriter(first.database, first.driver.followers, held.run, [])
    assert await writer.may_act()
    assert current_run().progress.fresh_until == math.inf  # of no run
    await die(first)
    taken = await second.database.write(partial(acquire_epoch, run_id="run_1", process=second.database.process))
    assert taken is not None
    with pytest.raises(Fenced):
        await writer.may_act()


@pytest.mark.parametrize("taken_over", [False, True])
async def test_no_effect_begins_at_a_process_that_was_frozen_after_it_looked(
    two: tuple[KeptRuns, KeptRuns], *, taken_over: bool
) -> None:
    first, second = two
    await first.add()
    held = await first.database.write(partial(acquire_epoch, run_id="run_1", process=first.database.process))
    assert held is not None
    writer = LogWriter(first.database, first.driver.followers, held.run, [])
    if taken_over:
        await die(first)
        await second.database.write(partial(acquire_epoch, run_id="run_1", process=second.database.process))
    paid: list[str] = []

    def pay(what: str) -> None:
        """Pay."""
        paid.append(what)

    with run_context(RunContext(run="run_1", progress=Progress(fresh_until=0.0), confirm=writer.confirm)):
        await Toolbox([Tool("pay", pay, effects="once")]).run(AgentAction("pay", "it", id="call_1_0"))
    assert paid == ([] if taken_over else ["it"])


async def test_of_two_that_claim_a_run_at_once_one_has_it(url: str, two: tuple[KeptRuns, KeptRuns]) -> None:
    await two[0].add()
    loop = asyncio.get_running_loop()

    def claim(one: Database) -> Lease | None:
        writing = one.write(partial(acquire_epoch, run_id="run_1", process=one.process))
        return asyncio.run_coroutine_threadsafe(writing, loop).result()

    found = await asyncio.to_thread(at_once, url, "runs", [partial(claim, one.database) for one in two])
    (lease,) = filter(None, found)
    assert (lease.run.epoch, (await two[0].row()).driver) == (1, lease.run.driver)


async def test_a_process_whose_clock_was_set_ends_no_run_of_another(
    two: tuple[KeptRuns, KeptRuns], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = two
    there = await first.database.read(database_time)
    monkeypatch.setattr(CLOCK, "ahead", CLOCK.ahead + 3_600)
    peers = DueRuns(first.driver)
    await peers.join()
    assert 0 <= CLOCK.now() + 2 - there < 60  # what is late is so by the database's clock
    await peers.leave()


async def test_a_cancel_at_another_process_interrupts(two: tuple[KeptRuns, KeptRuns], working: Working) -> None:
    first, second = two
    peers = DueRuns(first.driver)
    await peers.join()
    driving = first.driver.start(await first.add())
    await working.gate.reached.wait()
    assert (await second.halt()).status == "cancelling"
    await driving
    assert (await second.row()).status == "cancelled"
    await peers.leave()
    assert not await alive(first)


async def test_an_expiry_at_another_process_interrupts(two: tuple[KeptRuns, KeptRuns], working: Working) -> None:
    first, second = two
    peers = DueRuns(first.driver)
    await peers.join()
    driving = first.driver.start(await first.add())
    await working.gate.reached.wait()
    await second.halt(ending="expired")
    await driving
    assert (await second.row()).status == "expired"
    await peers.leave()


async def test_what_another_process_writes_is_followed(two: tuple[KeptRuns, KeptRuns], working: Working) -> None:
    first, second = two
    driving = first.driver.start(await first.add())
    seen: list[Followed] = []

    async def follow() -> None:
        async with aclosing(second.driver.followers.follow("run_1")) as items:
            async for item in items:
                seen.append(item)
                if isinstance(item, Entry) and isinstance(item.event, Called):
                    working.gate.opened.set()

    await asyncio.wait_for(follow(), 30)
    await driving
    assert [one.event for one in seen if isinstance(one, Entry)] == await first.log()
    assert isinstance(seen[-1], RunRow)
    assert seen[-1].status == "completed"


async def test_a_run_that_is_deleted_elsewhere_is_followed_no_longer(two: tuple[KeptRuns, KeptRuns]) -> None:
    first, second = two
    await first.add()

    async def follow() -> None:
        async with aclosing(second.driver.followers.follow("run_1")) as items:
            async for _ in items:
                await first.database.write(lambda connection: connection.exec_driver_sql("DELETE FROM runs"))

    await asyncio.wait_for(follow(), 30)


async def test_a_run_goes_on_where_it_was_answered(two: tuple[KeptRuns, KeptRuns]) -> None:
    first, second = two
    asking = Working(approval=True)
    asking.gate.opened.set()
    first.agent = second.agent = asking.agent
    await first.driver.start(await first.add())
    assert (await first.row()).status == "requires_action"
    await second.decide({"call_1_0": Decision("approve")})
    both = (second.driver.start("run_1"), first.driver.start("run_1"))
    await asyncio.gather(*both)
    assert (await second.rests()).status == "completed"
    assert asking.began == 1


async def test_a_suspended_run_is_tried_once_by_each_process_that_drives(two: tuple[KeptRuns, KeptRuns]) -> None:
    first, second = two
    run = await first.add(error=RunError("server_error", "the agent is gone", "agent_changed"))
    accepting = DueRuns(first.driver, mode="no")
    assert await accepting.look() == 0
    assert (await first.row(run)).suspended
    working = Working("idempotent")
    working.gate.opened.set()
    second.agent = working.agent
    assert await DueRuns(second.driver).look() == 1
    assert (await second.rests(run)).status == "completed"


async def test_an_auto_process_drives_only_while_no_worker_lives(
    two: tuple[KeptRuns, KeptRuns], working: Working
) -> None:
    first, _ = two
    working.gate.opened.set()
    due = DueRuns(first.driver, mode="auto")
    worker = new_process_id(worker=True)
    await first.database.write(partial(enter, process=worker))
    await first.add("run_1")
    assert await due.look() == 0
    assert not first.driver.drives
    first.driver.dispatch("run_1")
    assert not first.driver.here
    long_ago = update(processes).where(processes.c.id == worker).values(seen_at=1.0)
    await first.database.write(lambda connection: connection.execute(long_ago))
    assert await due.look() == 1
    assert (await first.rests("run_1")).status == "completed"


async def test_an_auto_process_drives_what_comes_while_the_only_worker_finishes_its_runs(
    two: tuple[KeptRuns, KeptRuns], working: Working
) -> None:
    first, _ = two
    working.gate.opened.set()
    due, worker = DueRuns(first.driver, mode="auto"), new_process_id(worker=True)
    await first.database.write(partial(enter, process=worker))
    await first.add("run_1")
    assert await due.look() == 0
    await first.database.write(partial(begin_stop, process=worker))  # it has `--grace` to finish, and takes no more
    await first.database.write(partial(show_life, process=worker))
    assert await due.look() == 1
    assert (await first.rests("run_1")).status == "completed"


async def test_what_a_process_parks_is_taken_at_once(two: tuple[KeptRuns, KeptRuns]) -> None:
    first, second = two
    idempotent = Working("idempotent")
    first.agent = second.agent = idempotent.agent
    first.driver.start(await first.add())
    await idempotent.gate.reached.wait()
    await first.driver.close(0)
    idempotent.gate.opened.set()
    assert await DueRuns(second.driver).look() == 1
    assert (await second.rests()).status == "completed"


async def test_a_run_that_waits_for_its_turn_is_driven_where_there_is_room(
    two: tuple[KeptRuns, KeptRuns], working: Working
) -> None:
    first, second = two

    async def assign(run: RunRow) -> RunInput:
        return RunInput(working.agent(), "Begin")

    full = Runs(first.database, assign, room=Room(1))
    full.start(await first.add("run_1"))
    await working.gate.reached.wait()
    waiting = full.start(await first.add("run_2"))
    await until_async(lambda: is_queued(full, "run_2"))
    assert await DueRuns(second.driver).look() == 1
    working.gate.opened.set()
    assert (await second.rests("run_2")).status == "completed"
    await waiting
    assert ((await first.row("run_2")).epoch, working.began) == (1, 2)
    await full.close(0)


async def is_queued(runs: Runs, run_id: str) -> bool:
    return run_id in runs.room.waiting


async def test_on_a_file_all_former_processes_have_ended(tmp_path: Any, working: Working) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    async with kept_runs(url, working.agent) as kept:
        await kept.database.write(lambda connection: connection.execute(insert(processes).values(id="x", seen_at=9e9)))
        await kept.add(driver="x", attempts=1, progress=0, status="in_progress", epoch=1)
        working.gate.opened.set()
        peers = DueRuns(kept.driver)
        await peers.join()
        assert (await kept.rests()).status == "completed"
        await peers.leave()


async def test_processes_that_are_seen_to_have_ended_are_forgotten(url: str) -> None:
    database = Database(url)
    place, _, number = database.process.split("-")
    gone = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    await gone.wait()
    names = [f"{place}-{gone.pid}-1", f"{place}-{os.getpid()}-{number}", f"elsewhere-{gone.pid}-1", f"{place}-x"]
    for name in names:
        await database.write(partial(show_life, process=name))
    await database.write_apart(forget_ended)
    query = select(processes.c.id)
    assert set(await database.read(lambda connection: connection.execute(query).scalars().all())) == set(names[1:])
    await database.close_async()


FILE = {"tenant": "t", "created_at": 1, "vector_store_id": "vs_1", "status": "in_progress", "usage_bytes": 0}


async def test_a_file_is_indexed_by_one_process_and_by_another_if_that_dies(
    url: str, two: tuple[KeptRuns, KeptRuns]
) -> None:
    rows = [{**FILE, "id": f"vsf_{number}", "file_id": f"file_{number}", "body": {}} for number in range(3)]
    first, second = (one.database for one in two)

    def add(connection: Connection) -> None:
        owned = {"tenant": "t", "created_at": 1, "body": {}}
        connection.execute(insert(vector_stores), {**owned, "id": "vs_1"})
        connection.execute(insert(files), [{**owned, "id": row["file_id"]} for row in rows])
        connection.execute(insert(vector_store_files), rows)

    await first.write(add)
    loop = asyncio.get_running_loop()

    def take(one: Database) -> list[Any]:
        taking = one.write(partial(take_files, process=one.process, numbers=[1, 2, 3]))
        return list(asyncio.run_coroutine_threadsafe(taking, loop).result())

    taken = await asyncio.to_thread(at_once, url, "vector_store_files", [partial(take, one) for one in (first, second)])
    assert sorted(len(some) for some in taken) == [0, 3]
    holder, other = (first, second) if taken[0] else (second, first)
    (mine,) = filter(None, taken)
    assert await other.read(partial(next_files, process=other.process, but=[])) == {}
    assert await holder.read(partial(next_files, process=holder.process, but=[])) == {"t": 1}
    await die(two[0] if holder is first else two[1])
    found = await other.write(partial(take_files, process=other.process, numbers=[1]))
    assert [row.id for row in found] == [mine[0].id]
    outcome: Callable[..., bool] = partial(finish_file, size=1, problem=None)
    assert not await holder.write(partial(outcome, row=mine[0]))
    assert await other.write(partial(outcome, row=found[0]))
    await holder.write(partial(index_again, ids=[mine[0].id, mine[1].id]))
    assert await holder.read(partial(next_files, process=holder.process, but=[])) == {"t": 1}
