"""Runs that Temporal gives to workers: each is driven once, whatever is dispatched twice, lost, or parked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import update

from fakes.kept_runs import Gate, KeptRuns, calling, kept_runs
from fakes.temporal import Temporal
from fakes.until import until_async
from retinue import Agent, tool
from retinue.core.values import Decision
from retinue.errors import UsageError
from retinue.limits.places import RunLimits
from retinue.runs import DueRuns
from retinue.store.processes import enter, is_leader, leave
from retinue.store.tables import processes

if TYPE_CHECKING:  # Temporal's SDK takes half a second to import: only the process that runs these tests does
    from temporalio.client import Client

    from retinue.dispatch.temporal import TemporalDispatcher

pytestmark = pytest.mark.anyio
_QUEUES = count()


async def connect(address: str) -> Client:
    from retinue.dispatch.temporal import connect as connect_to

    return await connect_to(address)


class Site:
    """A process that accepts runs, and two that may work on them."""

    def __init__(self, url: str, address: str, dispatcher: TemporalDispatcher) -> None:
        self.url = url
        self.address = address
        self.dispatcher = dispatcher
        self.began = 0
        self.gate = Gate()
        self.gate.opened.set()
        self.approval = False
        self.effects = "idempotent"
        self.now = self.most = 0
        self.limits = RunLimits()

    def agent(self) -> Agent:
        async def work() -> str:
            """Work."""
            self.began += 1
            self.now += 1
            self.most = max(self.most, self.now)
            await self.gate.wait()
            self.now -= 1
            return "worked 1"

        made: Any = tool(effects=self.effects, approval=self.approval)  # type: ignore[call-overload]
        return calling([made(work)], {"tool": "work", "input": {}})

    @asynccontextmanager
    async def process(self) -> AsyncIterator[KeptRuns]:
        """A process that others see to be alive, and that drives nothing by itself."""
        async with kept_runs(self.url, self.agent) as kept:
            await kept.database.write(partial(enter, process=kept.database.process))
            kept.driver.drives, kept.driver.dispatcher = False, self.dispatcher
            kept.driver.room.limits = self.limits
            yield kept

    @asynccontextmanager
    async def worker(self, grace: float = 0) -> AsyncIterator[KeptRuns]:
        """A process that drives what Temporal gives it."""
        from retinue.dispatch.temporal import TemporalDispatcher, working

        dispatcher = TemporalDispatcher(await connect(self.address), self.dispatcher.queue)
        async with self.process() as kept:
            due = DueRuns(kept.driver)
            await due.join()
            async with working(kept.driver, dispatcher):
                yield kept
                await kept.driver.close(grace)
            await due.leave()

    async def result(self, run_id: str) -> str:
        """What the run's workflow returned."""
        await self.dispatcher.close()
        handle = self.dispatcher.client.get_workflow_handle(run_id, result_type=str)
        return str(await handle.result())


@pytest.fixture
async def at(url: str, a_temporal: Temporal) -> Site:
    from retinue.dispatch.temporal import TemporalDispatcher

    client = await connect(a_temporal.address)
    return Site(url, a_temporal.address, TemporalDispatcher(client, f"queue {next(_QUEUES)}"))


def named(at: Site) -> str:
    """A run's id that no other test has."""
    return f"run_{at.dispatcher.queue.rpartition(' ')[2]}_of_{id(at)}"


async def test_a_run_is_driven_by_a_worker_and_its_workflow_ends(at: Site) -> None:
    async with at.process() as server, at.worker() as worker:
        run = await server.add(named(at))
        server.driver.dispatch(run)
        assert (await server.rests(run)).status == "completed"
        assert await at.result(run) == "ended"
        row = await server.row(run)
        assert (row.driver, row.epoch, at.began) == (worker.database.process, 1, 1)


async def test_a_run_that_is_dispatched_often_is_driven_once(at: Site) -> None:
    async with at.process() as server, at.worker(), at.worker():
        run = await server.add(named(at))
        for _ in range(5):
            server.driver.dispatch(run)
        assert (await server.rests(run)).status == "completed"
        assert await at.result(run) == "ended"
        assert ((await server.row(run)).epoch, at.began) == (1, 1)
        server.driver.dispatch(run)  # it has ended
        await at.dispatcher.close()
        assert await at.result(run) == "ended"
        assert (await server.row(run)).epoch == 1


@pytest.mark.full
async def test_a_run_that_waits_has_no_workflow_and_goes_on_when_a_person_has_decided(at: Site) -> None:
    at.approval = True
    async with at.process() as server, at.worker():
        run = await server.add(named(at))
        server.driver.dispatch(run)
        assert (await server.rests(run)).status == "requires_action"
        assert await at.result(run) == "waiting"
        await server.decide({"call_1_0": Decision("approve")}, run)
        server.driver.dispatch(run)
        assert (await server.rests(run)).status == "completed"
        assert at.began == 1


async def test_a_run_that_was_cancelled_in_the_queue_is_not_driven(at: Site) -> None:
    async with at.process() as server:
        run = await server.add(named(at))
        server.driver.dispatch(run)
        await at.dispatcher.close()
        assert (await server.halt(run)).status == "cancelled"
        async with at.worker():
            assert await at.result(run) == "ended"
    assert at.began == 0


@pytest.mark.full
async def test_a_worker_that_stops_parks_its_runs_for_others(at: Site) -> None:
    at.gate.opened.clear()
    async with at.process() as server:
        run = await server.add(named(at))
        async with at.worker():
            server.driver.dispatch(run)
            await at.gate.reached.wait()
        row = await server.row(run)
        assert (row.status, row.driver, row.attempts) == ("in_progress", None, 0)
        at.gate.opened.set()
        async with at.worker() as second:
            row = await server.rests(run)
            assert (row.status, row.driver) == ("completed", second.database.process)
    assert at.began == 2  # an idempotent tool


@pytest.mark.full
async def test_a_run_of_another_living_process_is_left_to_it_until_it_dies(at: Site) -> None:
    at.gate.opened.clear()
    async with at.process() as server, at.process() as other:
        run = await server.add(named(at))
        driving = other.driver.start(run)
        await at.gate.reached.wait()
        async with at.worker() as worker:
            server.driver.dispatch(run)
            assert await at.result(run) == "left"
            assert (await server.row(run)).driver == other.database.process
            await other.database.write(partial(leave, process=other.database.process))
            await until_async(partial(driven_by, server, run, worker))
            at.gate.opened.set()
            assert (await server.rests(run)).status == "completed"
            await driving


async def driven_by(server: KeptRuns, run: str, worker: KeptRuns) -> bool:
    return (await server.row(run)).driver == worker.database.process


async def test_a_lost_dispatch_is_made_up_for_by_a_worker(at: Site) -> None:
    async with at.process() as server, at.worker():
        run = await server.add(named(at))  # and the server dies
        assert (await server.rests(run)).status == "completed"
        assert at.began == 1


@pytest.mark.full
async def test_the_leader_is_replaced_when_it_dies(at: Site) -> None:
    async with at.process() as first, at.process() as second:
        both = (first, second)
        before = [await one.database.read(partial(is_leader, process=one.database.process)) for one in both]
        assert sorted(before) == [False, True]
        leader = both[before.index(True)].database.process
        long_ago = update(processes).where(processes.c.id == leader).values(seen_at=1.0)
        await first.database.write(lambda connection: connection.execute(long_ago))
        after = [await one.database.read(partial(is_leader, process=one.database.process)) for one in both]
        assert after == [not one for one in before]


@pytest.mark.full
async def test_runs_without_room_are_queued_until_a_worker_makes_room(at: Site) -> None:
    at.limits = RunLimits(tenant=1)
    at.gate.opened.clear()
    async with at.process() as server, at.worker() as first, at.worker() as second:
        runs = [await server.add(f"{named(at)}_{number}") for number in range(4)]
        for run in runs:
            server.driver.dispatch(run)
        await at.gate.reached.wait()
        rows = [await server.row(run) for run in runs]
        assert [await at.result(row.id) for row in rows if row.driver is None] == ["left"] * 3
        at.gate.opened.set()
        for run in runs:
            assert (await server.rests(run)).status == "completed"
        assert at.most == 1
        await until_async(partial(nothing_is_driven, first, second))


async def nothing_is_driven(*those: KeptRuns) -> bool:
    return not any(one.driver.here for one in those)


async def test_the_environment_says_how_temporal_is_reached(
    a_temporal: Temporal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "agents")
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    with pytest.raises(UsageError, match=r"Temporal cannot be used at \S+: Namespace agents is not found"):
        await connect(a_temporal.address)
    monkeypatch.delenv("TEMPORAL_NAMESPACE")
    assert (await connect(a_temporal.address)).namespace == "default"
    monkeypatch.setenv("TEMPORAL_TLS", "true")
    with pytest.raises(UsageError, match="Temporal cannot be used"):
        await connect(a_temporal.address)


async def test_temporal_that_cannot_be_reached_is_named() -> None:
    with pytest.raises(UsageError, match=r"Temporal cannot be used at 127\.0\.0\.1:1: "):
        await connect("127.0.0.1:1")


_NOT_YET = (
    "Failed client connect: `get_system_info` call error after connection: Status { code: Unavailable, message: "
    '"Frontend is not healthy yet", metadata: MetadataMap { headers: {"content-type": "application/grpc"} } }'
)


async def test_a_temporal_that_is_just_starting_is_waited_for(
    a_temporal: Temporal, monkeypatch: pytest.MonkeyPatch
) -> None:
    from temporalio.client import Client

    connects, refusals = Client.connect, [_NOT_YET]

    async def starting(**how: Any) -> Client:
        if refusals:
            raise RuntimeError(refusals.pop())
        return await connects(**how)

    monkeypatch.setattr(Client, "connect", starting)
    assert (await connect(a_temporal.address)).namespace == "default"


@pytest.mark.full
async def test_a_dispatch_while_temporal_is_away_raises_nothing(
    at: Site, caplog: pytest.LogCaptureFixture, a_temporal: Temporal
) -> None:
    async def is_up(wanted: bool) -> bool:
        return at.dispatcher.is_up is wanted

    async with at.process() as server:
        run = await server.add(named(at))
        watching = asyncio.create_task(at.dispatcher.watch())
        a_temporal.kill()
        try:
            server.driver.dispatch(run)
            await asyncio.wait_for(at.dispatcher.close(), 30)
            await until_async(partial(said, caplog, "Temporal does not take runs at the moment"))
            await until_async(partial(is_up, False))
        finally:
            a_temporal.start()
        await until_async(partial(is_up, True), 60)
        watching.cancel()
        async with at.worker():
            assert (await server.rests(run)).status == "completed"


async def said(caplog: pytest.LogCaptureFixture, text: str) -> bool:
    return text in caplog.text
