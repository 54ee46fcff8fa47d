"""Runs survive the server's process, at the scale of a test; `make chaos` does the same at full.

The effects are counted by a ledger in another process, which nobody kills.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from chaos.cancels import cancel
from chaos.harness import Client, Gone, Json, Site, again, client_of, died, path_of, site, waiting
from chaos.human import answer
from chaos.kills import kill
from chaos.logs import gaps, logs
from chaos.orders import Order, tally, work_off
from chaos.points import names, passages
from chaos.repeats import WAYS, repeat
from fakes.postgres import Postgres
from fakes.until import until_async

pytestmark = pytest.mark.anyio
QUICK = 0.002  # seconds before and after an effect


def silent(said: str) -> None:
    """Nobody reads along."""


@pytest.fixture
def at() -> Iterator[Site]:
    with site("--grace", "0.2") as at:
        yield at


def test_no_run_is_lost_and_nothing_done_twice_wherever_the_process_dies(full: bool) -> None:
    points, died_at = names()[:: 2 if full else 6], []  # `make chaos` has them all, at each passage
    for passage in passages(points, most=1, delay=QUICK):
        died_at.append(passage.point)
        assert not passage.tally.broken, (passage.point, passage.tally.problems)
    assert died_at == points
    assert len(names()) >= 13


@pytest.mark.full
def test_no_run_is_lost_and_nothing_done_twice_whenever_the_process_is_killed(full: bool) -> None:
    killed = kill(4 if full else 2, at_once=8, seed=1, told=silent)
    assert not killed.tally.broken, killed.tally.problems
    assert (killed.gaps, killed.tally.runs >= 8) == (0, True)


@pytest.mark.full
def test_the_same_on_postgresql(a_postgres: Postgres) -> None:
    killed = kill(2, at_once=8, seed=2, db=a_postgres.database(), told=silent)
    assert not killed.tally.broken, killed.tally.problems
    assert killed.gaps == 0


def test_what_is_cancelled_begins_nothing_more_and_its_thread_is_free() -> None:
    seen = cancel(12, told=silent)
    assert (seen.cancels, seen.not_cancelled, seen.late()) == (12, [], 0)


@pytest.mark.full
def test_an_approval_that_arrives_often_and_after_a_kill_counts_once(full: bool) -> None:
    assert answer(3 if full else 1, told=silent).problems == []


@pytest.mark.full
async def test_an_approval_is_for_one_time_and_not_for_the_next(at: Site) -> None:
    at.server.stop()
    at.server.restart(RETINUE_CRASHPOINT="after intent:1")
    async with client_of(at) as client:
        run = await client.rests(await client.start(await client.thread("Order 1: sign")))
        (first,) = waiting(run)
        with suppress(Gone):
            await client.once("POST", f"{path_of(run)}/submit_tool_outputs", approving(first))
        await died(at.server.process)  # with the intent on the disk, and before the effect
        await asyncio.to_thread(again, at)
        run = await client.rests(await client.ask("GET", path_of(run)))
        (second,) = waiting(run)
        run = await client.submit(run, {first: "approve"})  # sent again: nobody knows that it arrived
        assert (run["status"], await client.effects()) == ("requires_action", [])
        run = await client.rests(await client.submit(run, {second: "approve"}))
        assert (run["status"], len(await client.effects())) == ("completed", 1)
        ((call,),) = [step["step_details"]["tool_calls"] for step in await client.steps(run) if "tool" in step["type"]]
        assert call["id"] == second


def approving(call: str) -> Json:
    return {"tool_outputs": [{"tool_call_id": call, "output": "approve"}]}


@pytest.mark.parametrize("grace", ["0.2", "30"])
async def test_sigterm_lets_runs_finish_or_parks_them_and_the_next_server_goes_on(grace: str) -> None:
    with site("--grace", grace) as at:
        async with client_of(at) as client:
            orders = [Order(str(number), "look, note, look, note, look") for number in range(4)]
            working = [asyncio.create_task(work_off(client, order)) for order in orders]
            await until_async(lambda: begun(client, len(orders)))
            at.server.process.send_signal(signal.SIGTERM)
            assert await died(at.server.process) == 0
            ends = [type(log[-1][2]).__name__ for log in logs(at.db).values()]
            assert (set(ends) == {"Finished"}) == (grace == "30"), ends
            await asyncio.to_thread(again, at)
            await asyncio.gather(*working)
            counted = await tally(client, orders)
            assert not counted.broken, counted.problems


async def begun(client: Client, number: int) -> bool:
    return len(await client.effects()) >= number


@pytest.mark.full
async def test_a_run_that_ends_its_process_is_given_up_and_takes_no_other_along(at: Site) -> None:
    async with client_of(at) as client:
        others = [Order(f"{number}", "look, note, pay") for number in range(3)]
        poison = Order("poison", "crash")
        working = [asyncio.create_task(work_off(client, order)) for order in (others[0], poison, *others[1:])]
        deaths = 0
        while not all(task.done() for task in working):
            if at.server.process.poll() is not None:
                deaths += 1
                await asyncio.to_thread(again, at)
            await asyncio.wait(working, timeout=0.05)
        assert 5 <= deaths <= 9  # in a row: the first few may each bring an event
        assert poison.run["status"] == "failed"
        assert "ended 5 times" in poison.run["last_error"]["message"]
        counted = await tally(client, others)
        assert not counted.broken, counted.problems


@pytest.mark.full
def test_the_sdk_does_not_repeat_a_request_that_is_stopped_after_its_first_effects() -> None:
    for api in ("chat", "responses"):
        seen = repeat("SIGTERM", api, 4)
        assert (seen.doubled, sum(seen.answers.values())) == ([], seen.requests)


@pytest.mark.full
def test_the_sdk_repeats_no_effect_whatever_fails(a_postgres: Postgres) -> None:
    for name, way in WAYS.items():
        for api in ("chat", "responses"):
            seen = repeat(name, api, 2, url=a_postgres.database() if way.servers == 2 else "")
            assert (name, api, seen.doubled) == (name, api, [])


def test_a_second_server_on_the_same_file_is_refused() -> None:
    with site() as at:
        with pytest.raises(
            AssertionError, match=r"another server has .* open; stop it, or give this server another --db"
        ):
            at.server.beside()
        assert at.server.process.poll() is None
        at.server.kill()
        at.server.restart()  # what was killed holds nothing


async def test_a_stream_that_breaks_off_loses_nothing_of_the_run(at: Site) -> None:
    async with client_of(at) as client:
        order = Order("1", "look, pay, look")
        thread = await client.thread(order.question)
        reading = asyncio.create_task(client.ask("POST", f"/threads/{thread}/runs", await streamed(client)))
        order.run = await first_run(client, thread)
        reading.cancel()
        order.run = await client.rests(order.run)
        counted = await tally(client, [order])
        assert not counted.broken, counted.problems
        assert not gaps(logs(at.db)[order.run["id"]])


async def streamed(client: Client) -> Json:
    assistant = await client.ask("POST", "/assistants", {"model": "worker"})
    return {"assistant_id": assistant["id"], "stream": True}


async def first_run(client: Client, thread: str) -> Json:
    async def found() -> list[Json]:
        return list((await client.ask("GET", f"/threads/{thread}/runs"))["data"])

    return (await until_async(found))[0]
