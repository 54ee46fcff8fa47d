"""Runs that are suspended since their agents changed, and what others do to them meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, select

from fakes.kept_runs import Gate, KeptRuns, calling, due_for, kept_runs
from fakes.until import until_async
from retinue import Agent, tool
from retinue.core.events import Stopped
from retinue.core.values import Decision
from retinue.errors import AgentChanged, StoreConflict, UsageError
from retinue.run.fork import ForkPoint
from retinue.runs import DueRuns, RunInput, Runs
from retinue.runs.run_fork import ForkEdits, fork_run
from retinue.runs.submissions import continue_run, suspend_run
from retinue.store.api_keys import create_key
from retinue.store.due import Reason
from retinue.store.event_log import Fenced
from retinue.store.run_belongings import SnapshotWriter, find_snapshot
from retinue.store.run_queries import count_of_key, find_run, suspended_runs, update_run
from retinue.store.run_row import REGARDLESS, RunRow
from retinue.store.tables import snapshots
from retinue.strategies.wrappers.prompt_additions import with_instructions

pytestmark = pytest.mark.anyio


def to_drive(connection: Connection) -> list[str]:
    return due_for(connection, Reason.DRIVE)


APPROVED = {"call_1_0": Decision("approve")}
BODY = {"name": "m", "ä": ["🙂", None, 1.5]}


class Firm:
    """Runs of an agent that pays when a person lets it, and that may be gone."""

    def __init__(self, kept: KeptRuns) -> None:
        self.kept = kept
        self.gone = False
        self.asked: Gate | None = None
        kept.driver = self.another()

    def another(self) -> Runs:
        driver = Runs(self.kept.database, self._assign, human_ttl=50_000)
        driver.snapshots = SnapshotWriter(lambda run: ("a" * 64, BODY))
        return driver

    async def _assign(self, run: RunRow) -> RunInput:
        if self.asked is not None:
            await self.asked.wait()
        if self.gone:
            raise AgentChanged("the tool `pay` is gone")
        return RunInput(self.kept.agent(), "Begin")

    async def waiting(self, run_id: str = "run_1", **values: Any) -> None:
        """A run that waits for a person, who has decided."""
        await self.kept.driver.start(await self.kept.add(run_id, **values))
        await self.kept.decide(APPROVED, run_id)

    async def suspended(self, run_id: str = "run_1", **values: Any) -> RunRow:
        """A run that was suspended."""
        await self.waiting(run_id, **values)
        self.gone = True
        assert await self.kept.driver.drive(run_id) == "suspended"
        return await self.kept.row(run_id)


def paying() -> Agent:
    @tool(approval=True)
    def pay(euros: int) -> str:
        """Pay."""
        return f"paid {euros}"

    return calling([pay], {"tool": "pay", "input": {"euros": 1}})


def replace_instructions(agent: Agent) -> Agent:
    """The agent with another prompt."""
    agent.strategy = with_instructions(agent.strategy, "Be short.")
    return agent


@pytest.fixture
async def firm(any_url: str) -> AsyncIterator[Firm]:
    async with kept_runs(any_url, paying) as kept:
        yield Firm(kept)


async def continued(firm: Firm, run_id: str = "run_1", *, regardless: bool = False) -> RunRow:
    return await firm.kept.database.write(partial(continue_run, run_id=run_id, ttl=600, regardless=regardless))


async def test_a_snapshot_is_written_once_per_tenant_with_the_first_claim(firm: Firm) -> None:
    await firm.waiting()
    await firm.waiting("run_2")
    await firm.waiting("run_3", tenant="another")
    await firm.another().start(await firm.kept.add("run_4"))  # another process, to which it is new
    rows = await firm.kept.database.read(lambda one: one.execute(select(snapshots.c.tenant, snapshots.c.hash)).all())
    assert sorted(row.tenant for row in rows) == ["another", "t"]
    assert {(await firm.kept.row(f"run_{number}")).snapshot for number in (1, 2, 3, 4)} == {"a" * 64}
    row = await firm.kept.row()
    assert await firm.kept.database.read(partial(find_snapshot, run=row)) == BODY


async def test_a_suspended_run_is_as_it_was_and_says_why(firm: Firm) -> None:
    await firm.waiting()
    log = await firm.kept.log()
    firm.gone = True
    assert await firm.kept.driver.drive("run_1") == "suspended"
    row = await firm.kept.row()
    assert (row.status, row.holds, row.suspended, row.rests, row.active) == ("queued", True, True, True, True)
    assert row.error is not None
    assert row.error.message.endswith("the tool `pay` is gone")
    assert row.error.cause == "agent_changed"
    assert row.decisions == APPROVED
    assert await firm.kept.log() == log
    assert [run.id for run in await firm.kept.database.read(suspended_runs)] == ["run_1"]


async def forked(firm: Firm, step: int | None = None) -> RunRow:
    return await firm.kept.database.write(partial(fork_run, run_id="run_1", ttl=600, edits=ForkEdits(ForkPoint(step))))


@pytest.mark.parametrize("step", [None, 1])
async def test_a_fork_goes_on_in_its_place_with_the_agent_of_today(firm: Firm, step: int | None) -> None:
    before = await firm.suspended()
    fork = await forked(firm, step)
    old = await firm.kept.row()
    assert (old.status, old.holds, fork.thread_id) == ("cancelled", False, before.thread_id)
    assert (fork.status, fork.snapshot, fork.suspended) == ("queued", REGARDLESS, False)
    log = await firm.kept.log(fork.id)
    assert log == (await firm.kept.log())[: len(log)]
    assert not any(isinstance(event, Stopped) for event in log)
    firm.gone = False
    await firm.another().start(fork.id)
    assert (await firm.kept.row(fork.id)).status == "requires_action"  # the person is asked again
    await firm.kept.decide(APPROVED, fork.id)
    await firm.another().start(fork.id)
    assert (await firm.kept.row(fork.id)).status == "completed"
    assert (await firm.kept.said(fork.id))[-1] == "Done."


async def test_what_cannot_be_forked_is_named(firm: Firm) -> None:
    with pytest.raises(UsageError, match="there is no run 'run_1'"):
        await forked(firm)
    await firm.waiting()
    firm.gone = True
    await firm.kept.driver.drive("run_1")
    with pytest.raises(UsageError, match="the run has no step 7: its last one is 1"):
        await forked(firm, 7)
    assert (await firm.kept.row()).suspended


async def test_it_goes_on_when_its_agent_is_back_and_a_process_starts(firm: Firm) -> None:
    await firm.suspended()
    for _ in range(12):  # as often as a run that kills processes would be given up
        driver = firm.another()
        assert await DueRuns(driver).look() == 1
        await driver.start("run_1")
        assert (await firm.kept.row()).suspended
    firm.gone = False
    driver = firm.another()
    await DueRuns(driver).look()
    await driver.start("run_1")
    row = await firm.kept.row()
    assert (row.status, row.error) == ("completed", None)


async def test_a_run_that_is_to_go_on_is_found_and_no_other(firm: Firm) -> None:
    await firm.suspended()
    firm.gone = False
    await firm.kept.add("run_2")
    await firm.kept.halt("run_2")
    await firm.waiting("run_3")
    assert await firm.kept.database.read(to_drive) == ["run_3"]  # decided, and not driven yet
    await firm.kept.driver.start("run_3")
    assert await firm.kept.database.read(to_drive) == []
    row = await continued(firm)
    assert (row.error, row.suspended, row.snapshot) == (None, False, "a" * 64)
    assert await firm.kept.database.read(to_drive) == ["run_1"]
    await firm.kept.driver.start("run_1")
    assert (await firm.kept.row()).status == "completed"
    assert await firm.kept.database.read(to_drive) == []


@pytest.mark.parametrize("snapshot", ["kept", "none", "regardless"])
async def test_an_agent_that_asks_in_other_words_is_noticed(firm: Firm, snapshot: str) -> None:
    """As a strategy's code may, which no specification has."""
    if snapshot == "none":
        firm.kept.driver.snapshots = SnapshotWriter()
    await firm.waiting()
    firm.kept.agent = lambda: replace_instructions(paying())
    driver = firm.another()
    if snapshot == "regardless":
        await driver.drive("run_1")
        await continued(firm, regardless=True)
    await driver.start("run_1")
    row = await firm.kept.row()
    status, suspended = {"kept": ("queued", True), "none": ("failed", False), "regardless": ("completed", False)}[
        snapshot
    ]
    assert (row.status, row.suspended) == (status, suspended)
    assert (row.error is None) == (snapshot == "regardless")
    if row.error is not None:
        assert "does not fit this run" in row.error.message


async def test_it_takes_no_place_of_its_keys(firm: Firm) -> None:
    key = await firm.kept.database.write(create_key)
    await firm.suspended(key_id=key)
    assert await firm.kept.database.read(partial(count_of_key, key_id=key)) == 0


@pytest.mark.parametrize("ending", ["", "expired"])
async def test_it_can_be_cancelled_and_expires(firm: Firm, ending: str) -> None:
    await firm.suspended()
    row = await firm.kept.halt(ending=ending)
    assert (row.status, row.holds, row.suspended) == (ending or "cancelled", False, False)
    assert isinstance((await firm.kept.log())[-1], Stopped)


async def test_a_cancel_while_it_is_being_suspended_ends_it(firm: Firm) -> None:
    await firm.waiting()
    firm.gone, firm.asked = True, Gate()
    driving = asyncio.create_task(firm.kept.driver.drive("run_1"))
    await firm.asked.reached.wait()
    assert (await firm.kept.halt()).status == "cancelling"
    firm.asked.opened.set()
    assert await driving == "ended"
    row = await firm.kept.row()
    assert (row.status, row.error, row.holds) == ("cancelled", None, False)


async def test_only_the_drive_that_has_the_run_may_suspend_it(firm: Firm) -> None:
    await firm.waiting()
    firm.gone, firm.asked = True, Gate()
    driving = asyncio.create_task(firm.kept.driver.drive("run_1"))
    await firm.asked.reached.wait()
    before, asked = await firm.kept.row(), firm.asked
    firm.gone, firm.asked = False, None
    assert await firm.another().drive("run_1") == "ended"
    firm.gone = True
    asked.opened.set()
    assert await driving == "fenced"
    assert (await firm.kept.row()).status == "completed"
    with pytest.raises(Fenced):
        await firm.kept.database.write(partial(suspend_run, held=before, problem="", ttl=1))


async def test_of_two_who_continue_it_one_is_told_that_it_goes_on(firm: Firm) -> None:
    await firm.suspended()
    await continued(firm)
    with pytest.raises(UsageError, match="is not suspended: its status is 'queued'"):
        await continued(firm)
    with pytest.raises(UsageError, match="there is no run 'run_9'"):
        await continued(firm, "run_9")


async def test_what_a_driver_claimed_is_not_continued(firm: Firm) -> None:
    """By one who read the row before."""
    before = await firm.suspended()
    firm.gone = False
    await firm.kept.driver.start("run_1")

    def late(connection: Connection) -> None:
        assert find_run(connection, "run_1") is not None
        update_run(connection, before, error=None)

    with pytest.raises(StoreConflict):
        await firm.kept.database.write(late)


async def test_a_run_that_was_resumed_meanwhile_is_recovered_by_a_process_that_could_not_drive_it(firm: Firm) -> None:
    await firm.suspended()
    assert await DueRuns(firm.kept.driver).look() == 0  # which has tried already
    other = firm.another()
    recovery = DueRuns(other)
    assert await recovery.look() == 1  # once, for this process may have the agent that it began with
    await until_async(lambda: is_at_rest(firm, other))
    assert await recovery.look() == 0
    await continued(firm, regardless=True)
    firm.gone = False
    assert await recovery.look() == 1
    assert (await firm.kept.rests()).status == "completed"


async def is_at_rest(firm: Firm, driver: Runs) -> bool:
    return not driver.here and (await firm.kept.row()).suspended
