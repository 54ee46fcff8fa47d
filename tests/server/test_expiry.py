"""Runs whose time is up: their own, or that of the person or the client that they wait for."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from chaos.harness import Client, Json, Refused, Site, again, client_of, path_of, site, waiting
from fakes.until import until_async

pytestmark = pytest.mark.anyio
LOOKS = "Order 1: " + ", ".join(["look"] * 40)


@pytest.fixture
def at() -> Iterator[Site]:
    with site("--run-ttl", "1", "--human-ttl", "2", "--grace", "0.2") as at:
        yield at


async def ended(client: Client, run: Json) -> Json:
    async def found() -> Json | None:
        now = await client.ask("GET", path_of(run))
        return now if now["status"] in ("expired", "completed", "failed", "cancelled") else None

    now = await until_async(found)
    assert now is not None
    return now


async def usable(client: Client, thread: str) -> bool:
    """Whether a thread takes a message, and a run that ends in its second, which a busy machine may not allow it."""
    await client.once("POST", f"/threads/{thread}/messages", {"role": "user", "content": "Order 2: look"})
    who = await client.once("POST", "/assistants", {"model": "worker"})
    run = await client.once("POST", f"/threads/{thread}/runs", {"assistant_id": who["id"]})
    return bool((await client.rests(run))["status"] == "completed")


async def test_a_run_that_takes_too_long_ends_and_leaves_its_thread(at: Site) -> None:
    async with client_of(at) as client:
        thread = await client.thread(LOOKS)
        run = await client.start(thread)
        assert run["expires_at"] - run["created_at"] == 1
        run = await ended(client, run)
        assert (run["status"], run["expires_at"], run["required_action"]) == ("expired", None, None)
        steps = await client.steps(run)
        assert {step["status"] for step in steps} <= {"completed", "expired"}
        begun = len(at.began("1"))
        assert await until_async(lambda: usable(client, thread))
        assert len(at.began("1")) == begun


@pytest.mark.full
async def test_a_person_who_never_answers_holds_no_thread() -> None:
    with site("--human-ttl", "2") as at:
        await never_answered(at)


async def never_answered(at: Site) -> None:
    async with client_of(at) as client:
        thread = await client.thread("Order 1: sign")
        run = await client.rests(await client.start(thread))
        assert run["status"] == "requires_action"
        assert 1 <= run["expires_at"] - run["created_at"] < 300  # the person's two seconds, not the run's ten minutes
        (call,) = waiting(run)
        run = await ended(client, run)
        assert run["status"] == "expired"
        with pytest.raises(Refused, match='Runs in status "expired" do not accept tool outputs'):
            await client.submit(run, {call: "approve"})
        assert await client.effects("1") == []
        assert await until_async(lambda: usable(client, thread))


@pytest.mark.full
async def test_time_goes_on_while_no_server_runs() -> None:
    with site("--run-ttl", "5") as at:  # a busy machine takes seconds to begin
        async with client_of(at) as client:
            run = await client.start(await client.thread(", ".join([LOOKS] * 10)))
            await until_async(lambda: began(at))
            at.server.kill()
            begun = len(at.began())
            await until_async(lambda: over(run))
            at.server.restart()
            assert (await ended(client, run))["status"] == "expired"
            assert len(at.began()) == begun  # nothing was begun after its time


async def began(at: Site) -> bool:
    return bool(at.began())


async def over(run: Json) -> bool:
    return bool(time.time() > run["expires_at"] + 1)


@pytest.mark.full
async def test_a_wait_outlasts_a_restart_and_the_time_of_a_run() -> None:
    with site("--run-ttl", "4", "--human-ttl", "60") as at:
        async with client_of(at) as client:
            run = await client.rests(await client.start(await client.thread("Order 1: sign")))
            assert run["status"] == "requires_action"
            again(at)
            await until_async(lambda: over({"expires_at": run["created_at"] + 4}))
            (call,) = waiting(await client.ask("GET", path_of(run)))
            run = await client.rests(await client.submit(run, {call: "approve"}))
            assert run["status"] == "completed"
            assert [one["what"] for one in await client.effects()] == ["1.0"]


async def test_old_runs_are_forgotten_and_what_was_said_stays() -> None:
    with site("--retention", "1") as at:
        async with client_of(at) as client:
            thread = await client.thread("Order 1: look")
            run = await client.rests(await client.start(thread))
            said = await client.ask("GET", f"/threads/{thread}/messages")
        assert (run["status"], len(said["data"])) == ("completed", 2)

        await until_async(lambda: over({"expires_at": run["created_at"]}))  # a second old
        again(at)  # old runs are looked for at the start, and then now and then
        async with client_of(at) as client:

            async def gone() -> bool:
                try:
                    await client.ask("GET", path_of(run))
                except Refused:
                    return True
                return False

            assert await until_async(gone)
        async with client_of(at) as client:
            assert await client.ask("GET", f"/threads/{thread}/messages") == said
