"""What `drive` says of how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

import pytest
from sqlalchemy import Connection

from fakes.kept_runs import Gate, calling, kept_runs
from retinue import Agent, PromptModel, tool
from retinue.core.values import Decision
from retinue.errors import StoreConflict, StoreUnavailable
from retinue.runs import RunInput, Runs
from retinue.runs.leases import acquire_epoch
from retinue.store.event_log import Entry
from retinue.store.run_row import RunRow

pytestmark = pytest.mark.anyio


@tool(approval=True)
def pay(amount: int) -> str:
    """Pays."""
    return f"pay {amount}"


def approving() -> Agent:
    return calling([pay], {"tool": "pay", "input": {"amount": 1}})


async def test_a_run_that_waits_and_one_that_ended(any_url: str) -> None:
    async with kept_runs(any_url, approving) as kept:
        run_id = await kept.add()
        assert await kept.driver.drive(run_id) == "waiting"
        assert await kept.driver.drive(run_id) == "fenced"  # there is nothing to drive
        await kept.decide({"call_1_0": Decision("approve")})
        assert await kept.driver.drive(run_id) == "ended"
        assert await kept.driver.drive(run_id) == "fenced"
        assert await kept.driver.drive("run_unknown") == "fenced"


async def test_a_run_that_cannot_be_served_has_ended(url: str) -> None:
    async with kept_runs(url, lambda: Agent(PromptModel(engine="scripted", script=[]), name="dumb")) as kept:
        assert await kept.driver.drive(await kept.add()) == "ended"
        assert (await kept.row()).status == "failed"


async def test_a_run_that_was_taken_over_goes_on_elsewhere(any_url: str) -> None:
    gate = Gate()

    @tool(effects="idempotent")
    async def work() -> str:
        """Works."""
        await gate.wait()
        return "work 1"

    async with kept_runs(any_url, lambda: calling([work], {"tool": "work", "input": {}})) as kept:
        driving = asyncio.create_task(kept.driver.drive(await kept.add()))
        await gate.reached.wait()
        await kept.database.write(partial(acquire_epoch, run_id="run_1", process="another"))
        gate.opened.set()
        assert await driving == "fenced"
        assert (await kept.row()).status == "in_progress"


async def test_what_is_parked_is_left_as_it_is(url: str) -> None:
    gate = Gate()

    @tool(effects="idempotent")
    async def work() -> str:
        """Works."""
        await gate.wait()
        return "work 1"

    async with kept_runs(url, lambda: calling([work], {"tool": "work", "input": {}})) as kept:
        run_id = await kept.add()
        driving = kept.driver.start(run_id)
        await gate.reached.wait()
        await kept.driver.close(0)
        assert driving.done()
        parked = await kept.row()
        assert (parked.status, parked.attempts, parked.driver) == ("in_progress", 0, None)
        gate.opened.set()
        assert await kept.another().drive(run_id) == "ended"
        assert (await kept.row()).status == "completed"


@pytest.mark.parametrize("breaks", [False, True])
async def test_a_conflict_with_other_writers_fails_no_run(url: str, *, breaks: bool) -> None:
    conflicts = True

    def conclude(connection: Connection, run: RunRow, log: Sequence[Entry]) -> None:
        if conflicts:
            raise StoreConflict("another transaction was first")

    async def assign(run: RunRow) -> RunInput:
        if breaks and conflicts:
            raise RuntimeError("the run is to end as failed, which conflicts, too")
        return RunInput(calling([]), "Begin")

    async with kept_runs(url, lambda: calling([])) as kept:
        driver = Runs(kept.database, assign, conclude=conclude)
        run_id = await kept.add()
        with pytest.raises(StoreUnavailable, match="another transaction was first"):
            await driver.drive(run_id)
        assert (await kept.row()).status == "in_progress"
        conflicts = False
        assert await driver.drive(run_id) == "ended"
        assert (await kept.row()).status == "completed"
        await driver.close(0)
