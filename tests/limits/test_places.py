"""Limits on the runs that all processes of a database drive together: enforced when a run is claimed, fair between
tenants, and without polling."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from hypothesis import given, strategies as st

from fakes.at_once import at_once
from fakes.kept_runs import Gate, KeptRuns, calling, kept_runs
from fakes.postgres import Postgres
from fakes.until import until_async
from retinue import Agent, tool
from retinue.limits.places import Offer, Room, RunLimits
from retinue.runs import DueRuns
from retinue.runs.leases import Claimed, claim_runs
from retinue.store.database import Database
from retinue.store.due import Driven, Due, Reason, due_runs
from retinue.store.processes import enter
from retinue.store.run_belongings import SnapshotWriter

pytestmark = pytest.mark.anyio


class Work:
    """Runs whose tool works until its gate is opened; how many do."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.now = self.most = 0

    def agent(self) -> Agent:
        @tool(effects="read")
        async def work() -> str:
            """Work."""
            self.now += 1
            self.most = max(self.most, self.now)
            try:
                await self.gate.wait()
            finally:
                self.now -= 1
            return "worked 1"

        return calling([work], {"tool": "work", "input": {}})


@pytest.fixture
def work() -> Work:
    return Work()


async def statuses(kept: KeptRuns, *run_ids: str) -> list[str]:
    return [(await kept.row(one)).status for one in run_ids]


async def drives_nothing(kept: KeptRuns) -> bool:
    return not kept.driver.here


@asynccontextmanager
async def joined(*those: KeptRuns) -> AsyncIterator[None]:
    """Have these processes see to what is due."""
    there = [DueRuns(one.driver) for one in those]
    for one in there:
        await one.join()
    try:
        yield
    finally:
        for one in there:
            await one.leave()


async def test_a_run_without_room_waits_and_begins_when_another_ends(any_url: str, work: Work) -> None:
    async with kept_runs(any_url, work.agent) as kept, joined(kept):
        kept.driver.room.limits = RunLimits(tenant=2)
        runs = [await kept.add(f"run_{number}") for number in range(5)]
        for one in runs:
            kept.driver.dispatch(one)

        async def two_work() -> bool:
            return work.now == 2 and len(kept.driver.here) == 2

        await until_async(two_work)
        assert Counter(await statuses(kept, *runs)) == {"in_progress": 2, "queued": 3}
        work.gate.opened.set()
        for one in runs:
            assert (await kept.rests(one)).status == "completed"
        assert work.most == 2
        await until_async(partial(drives_nothing, kept))


async def test_a_cancelled_run_needs_no_room(any_url: str, work: Work) -> None:
    async with kept_runs(any_url, work.agent) as kept:
        kept.driver.room.limits = RunLimits(tenant=0)
        run = await kept.add(status="cancelling", epoch=1)
        await kept.driver.start(run)
        assert (await kept.row(run)).status == "cancelled"


@pytest.mark.parametrize("limits", [RunLimits(agents={"m": 1}), RunLimits()], ids=["limited", "free"])
async def test_two_processes_that_claim_at_once_keep_to_the_limit_and_share_the_rest(
    a_postgres: Postgres, work: Work, limits: RunLimits
) -> None:
    url = a_postgres.database()
    async with kept_runs(url, work.agent) as first, kept_runs(url, work.agent) as second:
        for one in (first, second):
            await one.database.write(partial(enter, process=one.database.process))
        runs = [await first.add(f"run_{number}") for number in range(6)]
        loop = asyncio.get_running_loop()

        def claim(one: Database) -> Claimed:
            offer = Offer(Room(limits=limits), [Due(Reason.DRIVE, run, "t", "m") for run in runs])
            work = partial(claim_runs, offer=offer, process=one.process, snapshots=SnapshotWriter())
            return asyncio.run_coroutine_threadsafe(one.write(work), loop).result()

        found = await asyncio.to_thread(at_once, url, "runs", [partial(claim, one.database) for one in (first, second)])
        claimed = [lease.run.id for one in found for lease in one.leases]
        assert len(set(claimed)) == len(claimed) == (1 if limits.agents else 6)


async def test_another_process_goes_on_when_there_is_room(a_postgres: Postgres, work: Work) -> None:
    url = a_postgres.database()
    async with kept_runs(url, work.agent) as first, kept_runs(url, work.agent) as second, joined(first):
        await second.database.write(partial(enter, process=second.database.process))
        for one in (first, second):
            one.driver.room.limits = RunLimits(models={"gpu:8000": 1}, names=lambda path: (path, "gpu:8000"))
        first.driver.dispatch(await first.add("run_1"))
        await work.gate.reached.wait()
        await second.add("run_2", agent="n")
        assert await DueRuns(second.driver).look() == 0
        work.gate.opened.set()
        assert (await second.rests("run_1")).status == "completed"
        assert (await second.rests("run_2")).status == "completed"  # by the first one, which made room
        await until_async(partial(drives_nothing, first))


async def test_of_many_runs_that_wait_those_that_begin_first_are_considered(any_url: str, work: Work) -> None:
    async with kept_runs(any_url, work.agent) as kept:
        request = {"model": "m", "service_tier": "priority", "input": "PostgreSQL looks into no JSON with a \x00"}
        for number in range(203):
            await kept.add(f"run_{number}", request=request if number == 202 else {"model": "m"}, thread_id=None)
        await kept.add("other", agent="n", status="cancelling", epoch=1)
        waiting = await kept.database.read(partial(due_runs, process=kept.database.process, now=0, most=1_000))
        assert [one.run_id for one in waiting] == [*(f"run_{number}" for number in range(199)), "run_202", "other"]
        assert [(one.tier, one.ends) for one in waiting[-2:]] == [("priority", False), (None, True)]
        offer = Offer(Room(limits=RunLimits(tenant=2)), waiting)
        assert [one.run_id for one in offer.choose()] == ["other", "run_202", "run_0"]


NAMES = st.sampled_from(["a", "b", "c"])
WAITING = st.builds(
    Due,
    st.just(Reason.DRIVE),
    st.uuids().map(str),
    NAMES,
    NAMES,
    NAMES,
    st.booleans(),
    st.sampled_from([None, "flex", "priority", "default"]),
)
LIMITS = st.builds(
    RunLimits,
    st.none() | st.integers(0, 3),
    st.dictionaries(NAMES, st.integers(0, 3)),
    st.dictionaries(NAMES, st.integers(0, 3)),
    st.dictionaries(NAMES, st.integers(0, 3)).map(lambda limits: limits.get),
    st.just(lambda path: (path, {"a": "b"}.get(path, "c"))),
)
DRIVEN = st.lists(st.builds(Driven, NAMES, NAMES, NAMES, st.integers(1, 3)), max_size=4)


@given(
    st.lists(WAITING, max_size=12, unique_by=lambda one: one.run_id), DRIVEN, LIMITS, st.just(200) | st.integers(1, 9)
)
def test_what_is_chosen_fits_and_nothing_is_left_out_that_does(
    waiting: list[Due], driven: list[Driven], limits: RunLimits, at_once: int
) -> None:
    chosen = Offer(Room(at_once, limits), waiting).choose(driven)
    assert len(set(chosen)) == len(chosen) <= len(waiting)
    now = list(driven)
    for one in chosen:
        if not one.ends:
            assert fits(limits, now, one)
            now.append(Driven(one.tenant, one.agent, one.key_id, 1))
    begun = sum(not one.ends for one in chosen)
    assert begun <= at_once
    left = [one for one in waiting if one not in chosen]
    assert not any(one.ends or (begun < at_once and fits(limits, now, one)) for one in left)


def fits(limits: RunLimits, driven: list[Driven], one: Due) -> bool:
    def number(chosen: Any) -> int:
        return sum(each.number for each in driven if chosen(each))

    agent, model = limits.names(one.agent)
    counted = [
        (limits.tenant, number(lambda each: each.tenant == one.tenant)),
        (limits.agents.get(agent), number(lambda each: limits.names(each.agent)[0] == agent)),
        (limits.models.get(model), number(lambda each: limits.names(each.agent)[1] == model)),
        (limits.keys(one.key_id), number(lambda each: each.key_id == one.key_id)),
    ]
    return all(most is None or there < most for most, there in counted)


def test_the_tenant_with_the_fewest_runs_is_next_and_its_runs_of_priority_come_first() -> None:
    waiting = [Due(Reason.DRIVE, f"a{number}", "a", "m") for number in range(4)]
    waiting += [Due(Reason.DRIVE, f"b{at}", "b", "m", tier=tier) for at, tier in enumerate(("flex", "priority"))]
    offer = Offer(Room(limits=RunLimits(agents={"m": 5})), waiting)
    assert [one.run_id for one in offer.choose([Driven("a", "m", None, 1)])] == ["b1", "a0", "b0", "a1"]
    assert [one.run_id for one in Offer(Room(3), waiting).choose()] == ["a0", "b1", "a1"]
