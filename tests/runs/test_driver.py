"""`Runs` in one process: what a drive writes, and what becomes of it when others meddle."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations
from typing import Any

import pytest
from sqlalchemy import insert, update

from fakes.kept_runs import Gate, KeptRuns, calling, kept_runs
from fakes.postgres import Postgres
from fakes.until import until_async
from retinue import Agent, PromptModel, tool
from retinue.core.events import Called, Observed, Paused, Replied, Said
from retinue.core.protocols import Flow, Task
from retinue.core.values import Decision
from retinue.store.database import Database, Work
from retinue.store.event_log import Entry
from retinue.store.run_row import RunRow
from retinue.store.tables import events, runs

pytestmark = pytest.mark.anyio
APPROVED = {"call_1_0": Decision("approve")}


class Payments:
    """A tool with effects that can be counted; each call waits at the gate, if there is one."""

    def __init__(self, gate: Gate | None = None) -> None:
        self.made: list[int] = []
        self.gate = gate

    def tool(self, effects: str = "once", *, approval: bool = False, name: str = "pay") -> object:
        async def pay(euros: int) -> str:
            """Pay."""
            self.made.append(euros)
            if self.gate is not None:
                await self.gate.wait()
            return f"paid {euros}"

        return tool(effects=effects, approval=approval, name=name)(pay)  # type: ignore[call-overload]


def paying(payments: Payments, *, approval: bool = False) -> Agent:
    """Pays 1 euro, then 2, and says so."""
    calls = [{"tool": "pay", "input": {"euros": euros}} for euros in (1, 2)]
    return calling([payments.tool(approval=approval)], *calls, answer="All is paid.")


async def test_a_run_is_kept_with_all_that_came_of_it(any_url: str) -> None:
    payments = Payments()
    async with kept_runs(any_url, lambda: paying(payments)) as kept:
        await kept.driver.start(await kept.add())
        row = await kept.row()
        kinds = [type(event).__name__ for event in await kept.log()]
        assert kinds == ["Started", *["Asked", "Replied", "Called", "Observed"] * 2, "Asked", "Replied", "Finished"]
        assert (row.status, row.holds, row.expires_at, payments.made) == ("completed", False, None, [1, 2])
        assert row.usage is not None
        assert row.usage.total_tokens > 0
        assert await kept.said() == ["All is paid."]


@pytest.mark.parametrize("effects", ["read", "idempotent", "once"])
async def test_a_call_without_outcome_is_made_again_unless_it_may_be_made_once(any_url: str, effects: str) -> None:
    payments = Payments(Gate())
    agent = calling([payments.tool(effects)], {"tool": "pay", "input": {"euros": 1}})
    async with kept_runs(any_url, lambda: agent) as kept:
        kept.driver.start(await kept.add())
        assert payments.gate
        await payments.gate.reached.wait()
        await until_async(lambda: has(kept, Called))
        await kept.driver.close(0)  # as if the process had ended: nothing is known of what the call came to
        payments.gate = None
        await kept.another().start("run_1")
        row = await kept.row()
        if effects == "once":
            assert (row.status, payments.made) == ("requires_action", [1])
            (paused,) = [event for event in await kept.log() if isinstance(event, Paused)]
            assert "outcome is unknown" in paused.problem
        else:
            assert (row.status, payments.made) == ("completed", [1, 1])


@pytest.mark.parametrize("kind", ["approve", "respond", "reject"])
async def test_an_equal_call_waits_for_a_person_after_one_that_failed(any_url: str, kind: Any) -> None:
    """As after a crash, and also for another server: it is all in the log."""
    made: list[int] = []

    @tool(effects="once")
    async def pay(euros: int) -> str:
        """Pay."""
        made.append(euros)
        raise ConnectionError(f"reset {len(made)}")

    calls = [{"tool": "pay", "input": {"euros": euros}} for euros in (1, "1")]
    async with kept_runs(any_url, lambda: calling([pay], *calls)) as kept:
        await kept.driver.start(await kept.add())
        row = await kept.row()
        (waiting,) = row.waiting
        assert (row.status, waiting["id"], made) == ("requires_action", "call_2_0", [1])
        await kept.decide({"call_2_0": Decision(kind, message="it is paid 2")})
        await kept.another().start("run_1")
        assert ((await kept.row()).status, made) == ("completed", [1, 1] if kind == "approve" else [1])


@pytest.mark.parametrize("what", ["driven", "cancelled"])
async def test_a_log_that_cannot_be_read_fails_its_run_and_frees_the_thread(any_url: str, what: str) -> None:
    payments = Payments()
    async with kept_runs(any_url, lambda: paying(payments, approval=True)) as kept:
        await kept.driver.start(await kept.add())
        bad = update(events).where(events.c.seq == 3).values(payload='{"step": "first"}')
        await kept.database.write(lambda connection: connection.execute(bad))
        if what == "driven":
            await kept.decide(APPROVED)
            await kept.driver.start("run_1")
        else:
            await kept.halt()
        row = await kept.row()
        assert (row.status, row.holds, payments.made) == ("failed", False, [])
        assert "not an event of kind" in str(row.error)


async def has(kept: KeptRuns, kind: type) -> bool:
    return any(isinstance(event, kind) for event in await kept.log())


async def test_each_time_its_outcome_is_lost_a_person_is_asked_anew(any_url: str) -> None:
    payments = Payments(Gate())
    agent = calling([payments.tool(approval=True)], {"tool": "pay", "input": {"euros": 1}})
    async with kept_runs(any_url, lambda: agent) as kept:
        await kept.driver.start(await kept.add())
        for time_ in (1, 2):  # what was approved once must not happen twice
            assert (await kept.row()).status == "requires_action"
            await kept.decide(APPROVED, mark=str(time_))
            driver = kept.another()
            driver.start("run_1")
            assert payments.gate
            await payments.gate.reached.wait()
            await driver.close(0)
            payments.gate = Gate()
            await kept.another().start("run_1")
            assert payments.made == [1] * time_
        assert [one["id"] for one in (await kept.row()).waiting] == ["call_1_0"]
        await kept.decide({"call_1_0": Decision("respond", message="it was paid 1")}, mark="3")
        await kept.another().start("run_1")
        assert ((await kept.row()).status, payments.made, await kept.said()) == ("completed", [1, 1], ["Done."])


async def test_what_a_person_edited_is_what_is_run_again(any_url: str) -> None:
    payments = Payments(Gate())
    agent = calling([payments.tool("idempotent", approval=True)], {"tool": "pay", "input": {"euros": 1}})
    async with kept_runs(any_url, lambda: agent) as kept:
        await kept.driver.start(await kept.add())
        await kept.decide({"call_1_0": Decision("edit", {"euros": 5})})
        kept.driver.start("run_1")
        assert payments.gate
        await payments.gate.reached.wait()
        await kept.driver.close(0)
        payments.gate = None
        await kept.another().start("run_1")
        assert ((await kept.row()).status, payments.made) == ("completed", [5, 5])


async def test_a_drive_that_was_taken_over_writes_nothing_and_begins_nothing(any_url: str) -> None:
    payments = Payments(Gate())
    gate = payments.gate
    assert gate
    calls = [{"tool": "look", "input": {"euros": 1}}, {"tool": "pay", "input": {"euros": 2}}]
    agent = calling([payments.tool("read", name="look"), payments.tool()], *calls)
    async with kept_runs(any_url, lambda: agent) as kept:
        old = kept.driver.start(await kept.add())
        await gate.reached.wait()
        await until_async(lambda: has(kept, Called))
        payments.gate = None
        await kept.another().start("run_1")
        before = (await kept.row(), await kept.log())
        assert (before[0].status, payments.made) == ("completed", [1, 1, 2])
        gate.opened.set()  # now the first one wakes
        await old
        assert (await kept.row(), await kept.log()) == before
        assert payments.made == [1, 1, 2]


class Freezing(Database):
    """A database whose process is frozen once the first intent of a call is committed, until it is woken."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.committed, self.woken = asyncio.Event(), asyncio.Event()

    def submit(self, work: Work[Any], **how: bool) -> asyncio.Future[Any]:
        done = super().submit(work, **how)
        entries = work.keywords.get("entries", ()) if isinstance(work, partial) else ()
        if self.committed.is_set() or not any(isinstance(one.event, Called) for one in entries):
            return done
        return asyncio.ensure_future(self._freeze(done))

    async def _freeze(self, done: asyncio.Future[Any]) -> Any:
        result = await done
        self.committed.set()
        await self.woken.wait()
        return result


@pytest.mark.parametrize("what", ["taken over", "cancelled"])
async def test_a_process_that_was_frozen_after_an_intent_does_not_act_on_it(a_postgres: Postgres, what: str) -> None:
    payments = Payments()
    database = Freezing(a_postgres.database())
    kept = KeptRuns(database, lambda: calling([payments.tool()], {"tool": "pay", "input": {"euros": 1}}))
    try:
        frozen = kept.driver.start(await kept.add())
        await database.committed.wait()
        if what == "taken over":
            await kept.another().start("run_1")
            assert (await kept.row()).status == "requires_action"  # a person says whether the call was made
        else:
            await kept.halt()
        database.woken.set()
        await frozen
        assert payments.made == []
        assert (await kept.row()).status == ("requires_action" if what == "taken over" else "cancelled")
    finally:
        await kept.driver.close(0)
        await database.close_async()


async def test_a_run_that_is_halted_while_it_is_about_to_begin_does_nothing(url: str) -> None:
    payments, gate = Payments(), Gate()
    async with kept_runs(url, lambda: paying(payments)) as kept:

        async def assign(row: object) -> object:
            await gate.wait()
            return await kept._assign(row)  # type: ignore[arg-type]

        driver = type(kept.driver)(kept.database, assign)  # type: ignore[arg-type]
        driving = driver.start(await kept.add())
        await gate.reached.wait()
        assert (await kept.halt()).status == "cancelling"
        assert driver.interrupt("run_1")
        gate.opened.set()
        await driving
        assert ((await kept.row()).status, payments.made) == ("cancelled", [])


async def test_a_run_that_is_started_again_while_it_comes_to_rest_goes_on(url: str) -> None:
    payments = Payments()
    async with kept_runs(url, lambda: paying(payments, approval=True)) as kept:
        parked = kept.driver.start(await kept.add())
        await kept.rests()
        await kept.decide(APPROVED)
        over = parked.done()  # its row says that it waits; its task may be about to end
        assert (kept.driver.start("run_1") is parked) is not over
        assert (await kept.rests()).waiting[0]["id"] == "call_2_0"
        assert payments.made == [1]


async def test_each_outcome_is_on_the_disk_while_others_are_awaited(url: str) -> None:
    gate, held = Gate(), threading.Event()

    @tool(effects="read")
    async def see(what: str) -> str:
        """See."""
        if what == "slow":
            await gate.wait()
        elif what == "later":
            await gate.reached.wait()
            await asyncio.sleep(0)
        return what

    agent = calling([see], [{"tool": "see", "input": {"what": what}} for what in ("quick", "later", "slow")])
    async with kept_runs(url, lambda: agent) as kept:
        kept.database.submit(lambda connection: held.wait(30))  # the disk is slow
        kept.driver.start(await add_behind(kept))
        held.set()

        async def seen() -> bool:
            return sum(isinstance(event, Observed) for event in await kept.log()) == 2

        await until_async(seen)
        gate.opened.set()
        await kept.rests()


async def add_behind(kept: KeptRuns) -> str:
    """A run, added behind what is being written."""
    adding = asyncio.ensure_future(kept.add())
    await asyncio.sleep(0)
    del adding
    return "run_1"


async def test_an_agent_that_changed_meanwhile_fails_and_says_at_which_event(url: str) -> None:
    payments = Payments()
    async with kept_runs(url, lambda: paying(payments, approval=True)) as kept:
        await kept.driver.start(await kept.add())
        kept.agent = lambda: Agent(PromptModel(engine="scripted", script=["?"]), [payments.tool()], strategy="react")
        await kept.decide(APPROVED)
        await kept.driver.start("run_1")
        row = await kept.row()
        assert (row.status, payments.made) == ("failed", [])
        assert "the log does not fit this run: its event 0 is Started" in str(row.error)


async def test_a_run_goes_on_with_what_it_was_asked_whatever_was_said_since(url: str) -> None:
    payments = Payments()
    async with kept_runs(url, lambda: paying(payments, approval=True)) as kept:
        await kept.driver.start(await kept.add())
        changed = update(runs).values(request={"model": "m", "question": "Begin with something else"})
        await kept.database.write(lambda connection: connection.execute(changed))
        await kept.decide(APPROVED)
        await kept.driver.start("run_1")
        assert ((await kept.row()).status, payments.made) == ("requires_action", [1])


async def test_what_nobody_foresaw_ends_the_run_and_is_named(url: str, caplog: pytest.LogCaptureFixture) -> None:
    class Odd:
        name = "odd"
        needs_tools = False

        def __call__(self, task: Task) -> Flow:
            raise KeyError("what is this?")
            yield

    async with kept_runs(url, lambda: Agent(PromptModel(engine="scripted", script=["?"]), strategy=Odd())) as kept:
        await kept.driver.start(await kept.add())
        row = await kept.row()
        assert row.status == "failed"
        assert row.error is not None
        assert row.error.message.startswith("The run failed because of a server error.")
        assert "the strategy failed: KeyError: 'what is this?'" in caplog.text  # clients are not told


async def test_a_run_whose_time_passed_while_nobody_was_there_does_nothing_more(url: str) -> None:
    payments = Payments()
    async with kept_runs(url, lambda: paying(payments)) as kept:
        await kept.add(status="in_progress", expires_at=int(time.time()) - 1)
        await kept.driver.start("run_1")
        row = await kept.row()
        assert (row.status, row.holds, payments.made) == ("expired", False, [])
        assert row.ended_at


async def test_whoever_follows_from_any_event_gets_each_of_the_others_once(url: str) -> None:
    async with kept_runs(url, lambda: paying(Payments())) as kept:
        await kept.add()

        async def followed(after: int) -> list[int]:
            items = [item async for item in kept.driver.followers.follow("run_1", after)]
            return [item.seq for item in items if isinstance(item, Entry)]

        readers = [asyncio.ensure_future(followed(0)) for _ in range(3)]
        await kept.driver.start("run_1")
        whole = list(range(1, len(await kept.log()) + 1))
        assert [await reader for reader in readers] == [whole] * 3
        for after in range(len(whole) + 1):
            assert await followed(after) == whole[after:]


async def test_whoever_follows_a_run_that_is_about_to_begin_gets_all_of_it_even_if_it_began_before(
    any_url: str,
) -> None:
    """A request that is repeated holds the run's row as it was at first, and starts the run again."""
    async with kept_runs(any_url, lambda: paying(Payments())) as kept:
        await kept.add()
        first = await kept.row()

        async def followed() -> list[object]:
            task = kept.driver.start("run_1", first)
            items = [item async for item in kept.driver.followers.follow("run_1", run=first)]
            await task
            assert isinstance(items[-1], RunRow)
            assert not items[-1].active
            return [item.event for item in items if isinstance(item, Entry)]

        assert await followed() == await kept.log()
        assert await followed() == await kept.log()


@pytest.mark.parametrize("listens", [True, False])
async def test_what_the_model_says_is_in_the_log_where_somebody_reads_along(any_url: str, listens: bool) -> None:
    text = "One two three four five."
    agent = Agent(PromptModel(engine="scripted", script=[{"say": text, "pace": 0.01}]), strategy="tool_calling")
    async with kept_runs(any_url, lambda: agent) as kept:
        await kept.add()

        async def followed() -> list[object]:
            items = kept.driver.followers.follow("run_1", listens=listens)
            return [item.event async for item in items if isinstance(item, Entry)]

        reader = asyncio.ensure_future(followed())
        await asyncio.sleep(0)
        await kept.driver.start("run_1")
        log = await kept.log()
        assert await reader == log
        said = [event for event in log if isinstance(event, Said)]
        kinds = [type(event).__name__ for event in log if not isinstance(event, Said)]
        assert kinds == ["Started", "Asked", "Replied", "Finished"]
        assert "".join(one.text for one in said) == (text if listens else "")
        assert [one.offset for one in said] == [
            len("".join(one.answer for one in said[:at])) for at in range(len(said))
        ]
        assert all(isinstance(event, Said) for event in log[2 : 2 + len(said)])


async def test_a_reader_who_is_slow_reads_the_rest_from_the_log(url: str) -> None:
    @tool(effects="read")
    async def see(what: str) -> str:
        """See."""
        return f"see {what}"

    calls = [{"tool": "see", "input": {"what": str(number)}} for number in range(1, 151)]
    agent = calling([see], *calls)
    agent.budget = replace(agent.budget, steps=None, stale_steps=None)
    async with kept_runs(url, lambda: agent) as kept:
        reader = kept.driver.followers.follow(await kept.add())
        assert await anext(reader)  # and then nothing for a long time
        await kept.driver.start("run_1")
        numbers = [item.seq async for item in reader if isinstance(item, Entry)]
        assert numbers == list(range(1, len(await kept.log()) + 1))
        assert len(numbers) > 600


async def test_a_wait_that_is_answered_cancelled_and_out_of_time_at_once_ends_once(url: str) -> None:
    """All orders of five things that may happen to a run that waits for a person."""
    payments = Payments()
    async with kept_runs(url, lambda: paying(payments, approval=True)) as kept:
        for number, order in enumerate(permutations(range(5))):
            run_id = await kept.add(f"run_{number}")
            await kept.driver.start(run_id)
            payments.made.clear()
            await happen(kept, run_id, order)
            row, log = await kept.row(run_id), await kept.log(run_id)
            assert row.status in ("cancelled", "expired"), order
            assert (row.holds, len(payments.made) <= 1) == (False, True), order
            assert sum(isinstance(event, Replied) for event in log) <= 2, order
            assert payments.made.count(1) <= len([one for one in log if isinstance(one, Called)]), order


async def happen(kept: KeptRuns, run_id: str, order: Sequence[int]) -> None:
    """Five things: an approval, a cancel, the end of its time, and two drivers, in an order of their own."""
    drivers = (kept.another(), kept.another())

    async def end(ending: str) -> None:
        if (await kept.halt(run_id, ending)).active:
            for driver in drivers:
                driver.interrupt(run_id)

    for which in order:
        match which:
            case 0:
                await kept.decide(APPROVED, run_id)
            case 1 | 2:
                await end(("", "expired")[which - 1])
            case _:
                drivers[which - 3].start(run_id)
                await asyncio.sleep(0)
    for driver in drivers:
        await driver.start(run_id)


async def test_halves_of_surrogate_pairs_end_no_run(any_url: str) -> None:
    @tool(effects="once", approval=True)
    async def odd(what: str) -> str:
        """Odd."""
        return f"{what}\ud800 1"

    agent = calling([odd], {"tool": "odd", "input": {"what": "a\udfff"}}, answer="It is \ud83d.")
    async with kept_runs(any_url, lambda: agent) as kept:
        await kept.driver.start(await kept.add())
        assert (await kept.row()).waiting[0]["arguments"] == {"what": "a?"}
        await kept.decide(APPROVED)
        await kept.driver.start("run_1")
        assert ((await kept.row()).status, await kept.said()) == ("completed", ["It is \ufffd."])


async def test_a_log_that_others_write_to_ends_the_run_instead_of_parking_it(any_url: str) -> None:
    """A conflict stays one, however often the write is repeated."""
    payments = Payments(Gate())
    async with kept_runs(any_url, lambda: paying(payments)) as kept:
        driving = kept.driver.start(await kept.add())
        assert payments.gate is not None
        await payments.gate.reached.wait()
        foreign = {"run_id": "run_1", "seq": len(await kept.log()) + 1, "epoch": 1, "at": 1.0}
        foreign |= {"kind": "said", "payload": "{}"}
        await kept.database.write(lambda connection: connection.execute(insert(events).values(foreign)))
        payments.gate.opened.set()
        await driving
        row = await kept.row()
        assert (row.status, row.holds) == ("failed", False)
