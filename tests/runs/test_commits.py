"""How often a run commits: once a step, unless something must be on the disk, or be told, before the step ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import event

from fakes.kept_runs import Gate, KeptRuns, calling, kept_runs
from fakes.until import until_async
from retinue import Agent, PromptModel, tool
from retinue.core.events import Called
from retinue.runs.run_metrics import LogMetrics, RunMetrics
from retinue.store.event_log import Entry

pytestmark = pytest.mark.anyio
STEPS = 3


def commits_of(kept: KeptRuns) -> list[str]:
    """The commits from now on, one item each."""
    made: list[str] = []
    if kept.database.is_shared:
        event.listen(kept.database.engine, "commit", lambda connection: made.append("commit"))
    else:  # SQLite's driver commits without SQLAlchemy
        kept.database.timed = lambda seconds, failed: made.append("commit")
    return made


def seeing(effects: str) -> Agent:
    """Calls a tool in each of its steps."""

    @tool(effects=effects)  # type: ignore[call-overload,untyped-decorator]
    async def see(what: int) -> str:
        """See."""
        await asyncio.sleep(0)  # what was about to be written is
        return f"see {what + 1}"

    return calling([see], *[{"tool": "see", "input": {"what": number}} for number in range(STEPS)])


async def driven(any_url: str, effects: str) -> int:
    """Drive a run that calls a tool in each of its steps, and return the number of its commits."""
    agent = seeing(effects)
    async with kept_runs(any_url, lambda: agent) as kept:
        await kept.add()
        made = commits_of(kept)
        await kept.driver.start("run_1", await kept.row())
        assert (await kept.row()).status == "completed"
        return len(made)


async def test_a_step_whose_tool_may_be_called_again_is_one_commit(any_url: str) -> None:
    begins = 2  # its epoch, and the events with which it begins
    assert await driven(any_url, "read") <= begins + STEPS + 1


async def test_a_member_costs_two_commits(any_url: str) -> None:
    """The call and the member's run are one, its end and its caller's going on another; the caller's end is its own."""
    member = Agent(PromptModel(engine="scripted", script=[{"finish": "w 1"}]), name="w")
    team = calling([member], {"tool": "w", "input": "Begin"})
    async with kept_runs(any_url, lambda: team) as kept:
        fewest = 100  # a slow machine tells readers of what happens in between
        for number in range(5):
            run = await kept.add(f"run_{number}")
            made = commits_of(kept)
            await kept.driver.start(run, await kept.row(run))
            assert (await kept.rests(run)).status == "completed"
            fewest = min(fewest, len(made))
        begins, ends = 1, 1
        assert fewest == begins + 2 + ends


async def test_the_intent_of_an_effect_is_a_commit_of_its_own(any_url: str) -> None:
    assert await driven(any_url, "once") >= 2 * STEPS + 2


async def test_a_call_that_takes_its_time_is_in_the_log_before_it_ends(any_url: str) -> None:
    gate = Gate()

    @tool(effects="read")
    async def see(what: str) -> str:
        """See."""
        await gate.wait()
        return what

    agent = calling([see], {"tool": "see", "input": {"what": "this"}})
    async with kept_runs(any_url, lambda: agent) as kept:
        kept.driver.start(await kept.add())

        async def told() -> bool:
            return any(isinstance(one, Called) for one in await kept.log())

        await until_async(told)
        gate.opened.set()
        await kept.rests()


class FailingMeter(LogMetrics):
    """Fails at each commit."""

    def see(self, entries: Sequence[Entry]) -> None:
        raise LookupError("no such counter")


async def test_a_run_goes_on_whatever_counts_its_commits(any_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = seeing("read")
    async with kept_runs(any_url, lambda: agent) as kept:
        kept.driver.meter = meter = RunMetrics(CollectorRegistry(), lambda tool: False)
        monkeypatch.setattr(meter, "drive", lambda run, log: FailingMeter(meter, ()))
        await kept.driver.start(await kept.add())
        assert (await kept.row()).status == "completed"
