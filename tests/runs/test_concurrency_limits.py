"""Limits on the runs that all processes of a database drive together: enforced when a run is claimed, fair between
tenants, and without polling."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import Any

import pytest
from hypothesis import given, strategies as st

from fakes.at_once import at_once
from fakes.kept_runs import Gate, KeptRuns, calling, kept_runs
from fakes.postgres import Postgres
from fakes.until import until_async
from retinue import Agent, tool
from retinue.runs import Recovery
from retinue.runs.concurrency_limits import ConcurrencyLimits
from retinue.runs.leases import Lease, acquire_epoch
from retinue.store.database import Database
from retinue.store.processes import enter
from retinue.store.run_queries import Driven, Waiting, runs_that_wait

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


async def test_a_run_without_room_waits_and_begins_when_another_ends(any_url: str, work: Work) -> None:
    async with kept_runs(any_url, work.agent) as kept:
        await kept.database.write(partial(enter, process=kept.database.process))
        kept.driver.limits = ConcurrencyLimits(tenant=2)
        runs = [await kept.add(f"run_{number}") for number in range(5)]
        for one in runs:
            kept.driver.start(one)

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
        await kept.database.write(partial(enter, process=kept.database.process))
        kept.driver.limits = ConcurrencyLimits(tenant=0)
        run = await kept.add(status="cancelling", epoch=1)
        await kept.driver.start(run)
        assert (await kept.row(run)).status == "cancelled"


async def test_two_processes_that_claim_at_once_keep_to_the_limit(a_postgres: Postgres, work: Work) -> None:
    url, limits = a_postgres.database(), ConcurrencyLimits(agents={"m": 1})
    async with kept_runs(url, work.agent) as first, kept_runs(url, work.agent) as second:
        for one in (first, second):
            await one.database.write(partial(enter, process=one.database.process))
        runs = [await first.add(f"run_{number}") for number in range(2)]
        loop = asyncio.get_running_loop()

        def claim(one: Database, run_id: str) -> Lease | None:
            work = partial(acquire_epoch, run_id=run_id, process=one.process, limits=limits)
            return asyncio.run_coroutine_threadsafe(one.write(work), loop).result()

        claims = [partial(claim, one.database, run) for one, run in zip((first, second), runs, strict=True)]
        found = await asyncio.to_thread(at_once, url, "runs", claims)
        assert len([one for one in found if one is not None]) == 1


async def test_another_process_goes_on_when_there_is_room(a_postgres: Postgres, work: Work) -> None:
    url = a_postgres.database()
    async with kept_runs(url, work.agent) as first, kept_runs(url, work.agent) as second:
        for one in (first, second):
            await one.database.write(partial(enter, process=one.database.process))
            one.driver.limits = ConcurrencyLimits(models={"gpu:8000": 1}, names=lambda path: (path, "gpu:8000"))
        driving = first.driver.start(await first.add("run_1"))
        await work.gate.reached.wait()
        await second.add("run_2", agent="n")
        recovery = Recovery(second.driver)
        assert await recovery.recover() == 0
        work.gate.opened.set()
        await driving
        assert (await second.rests("run_2")).status == "completed"  # by the first one, which made room
        await until_async(partial(drives_nothing, first))


async def test_of_many_runs_that_wait_those_that_begin_first_are_considered(any_url: str, work: Work) -> None:
    async with kept_runs(any_url, work.agent) as kept:
        request = {"model": "m", "service_tier": "priority", "input": "PostgreSQL looks into no JSON with a \x00"}
        for number in range(203):
            await kept.add(f"run_{number}", request=request if number == 202 else {"model": "m"}, thread_id=None)
        await kept.add("other", agent="n", status="cancelling", epoch=1)
        process = kept.database.process
        waiting = await kept.database.read(partial(runs_that_wait, process=process))
        assert [one.run_id for one in waiting] == [*(f"run_{number}" for number in range(199)), "run_202", "other"]
        assert [(one.tier, one.ends) for one in waiting[-2:]] == [("priority", False), (None, True)]
        limits = ConcurrencyLimits(tenant=2)
        chosen = await kept.database.read(partial(limits.next_runs, process=process))
        assert chosen == ["other", "run_202", "run_0"]


NAMES = st.sampled_from(["a", "b", "c"])
WAITING = st.builds(
    Waiting, st.uuids().map(str), NAMES, NAMES, st.booleans(), st.sampled_from([None, "flex", "priority", "default"])
)
LIMITS = st.builds(
    ConcurrencyLimits,
    st.none() | st.integers(0, 3),
    st.dictionaries(NAMES, st.integers(0, 3)),
    st.dictionaries(NAMES, st.integers(0, 3)),
    st.just(lambda path: (path, {"a": "b"}.get(path, "c"))),
)
DRIVEN = st.lists(st.builds(Driven, NAMES, NAMES, st.integers(1, 3)), max_size=4)


@given(st.lists(WAITING, max_size=12, unique_by=lambda one: one.run_id), DRIVEN, LIMITS, st.none() | st.integers(0, 9))
def test_what_is_chosen_fits_and_nothing_is_left_out_that_does(
    waiting: list[Waiting], driven: list[Driven], limits: ConcurrencyLimits, most: int | None
) -> None:
    chosen = limits.choose(waiting, driven, most)
    by_id = {one.run_id: one for one in waiting}
    assert len(set(chosen)) == len(chosen) <= (len(waiting) if most is None else most)
    now = list(driven)
    for one in (by_id[run_id] for run_id in chosen):
        if not one.ends:
            assert fits(limits, now, one)
            now.append(Driven(one.tenant, one.agent, 1))
    if most is None:
        left = [one for one in waiting if one.run_id not in chosen]
        assert not any(one.ends or fits(limits, now, one) for one in left)


def fits(limits: ConcurrencyLimits, driven: list[Driven], one: Waiting) -> bool:
    def number(chosen: Any) -> int:
        return sum(each.number for each in driven if chosen(each))

    agent, model = limits.names(one.agent)
    counted = [
        (limits.tenant, number(lambda each: each.tenant == one.tenant)),
        (limits.agents.get(agent), number(lambda each: limits.names(each.agent)[0] == agent)),
        (limits.models.get(model), number(lambda each: limits.names(each.agent)[1] == model)),
    ]
    return all(most is None or there < most for most, there in counted)


def test_the_tenant_with_the_fewest_runs_is_next_and_its_runs_of_priority_come_first() -> None:
    waiting = [Waiting(f"a{number}", "a", "m", False, None) for number in range(4)]
    waiting += [Waiting("b0", "b", "m", False, "flex"), Waiting("b1", "b", "m", False, "priority")]
    limits = ConcurrencyLimits(agents={"m": 5})
    assert limits.choose(waiting, [Driven("a", "m", 1)]) == ["b1", "a0", "b0", "a1"]
    assert limits.choose(waiting, [], most=3) == ["a0", "b1", "a1"]
