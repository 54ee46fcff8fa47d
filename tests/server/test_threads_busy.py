"""What a run on a thread does that has one: it is refused, waits for its turn, or takes the place of the other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from chaos.harness import Client, Json, Refused, Site, again, client_of, path_of, site

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def at() -> Iterator[Site]:
    with site("--grace", "0.2") as at:
        yield at


async def ask(client: Client, thread: str, order: str, strategy: str | None) -> Json:
    """A run for an order on a thread."""
    who = await client.once("POST", "/assistants", {"model": "worker"})
    body = {"assistant_id": who["id"], "additional_messages": [{"role": "user", "content": f"Order {order}"}]}
    body |= {"multitask_strategy": strategy} if strategy else {}
    return await client.once("POST", f"/threads/{thread}/runs", body)


async def said(client: Client, thread: str) -> list[str]:
    """What was said on a thread, oldest first."""
    found = await client.ask("GET", f"/threads/{thread}/messages?order=asc&limit=100")
    return [one["content"][0]["text"]["value"] for one in found["data"]]


@pytest.mark.parametrize("strategy", [None, "reject"])
async def test_a_second_run_is_refused_and_leaves_nothing(at: Site, strategy: str | None) -> None:
    async with client_of(at) as client:
        thread = (await client.once("POST", "/threads"))["id"]
        run = await ask(client, thread, "1: look, look, look", None)
        with pytest.raises(Refused, match=f"Thread {thread} already has an active run {run['id']}."):
            await ask(client, thread, "2: look", strategy)
        body = {"role": "user", "content": "too soon"}
        with pytest.raises(Refused, match=f"Can't add messages to {thread} while a run {run['id']} is active."):
            await client.once("POST", f"/threads/{thread}/messages", body)
        assert (await client.rests(run))["status"] == "completed"
        assert await said(client, thread) == [
            "Order 1: look, look, look",
            "Order 1 is done: look 1.0; look 1.1; look 1.2.",
        ]


async def test_of_many_at_once_one_is_taken(at: Site) -> None:
    async with client_of(at) as client:
        thread = (await client.once("POST", "/threads"))["id"]
        asked = [ask(client, thread, f"{number}: look, look", None) for number in range(20)]
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        (run,) = [one for one in outcomes if isinstance(one, dict)]
        assert all("already has an active run" in str(one) for one in outcomes if not isinstance(one, dict))
        await client.rests(run)
        assert len(await said(client, thread)) == 2


@pytest.mark.parametrize("killed", [False, True])
async def test_runs_that_wait_for_their_thread_come_in_turn(at: Site, killed: bool) -> None:
    async with client_of(at) as client:
        thread = (await client.once("POST", "/threads"))["id"]
        runs = [await ask(client, thread, f"{number}: look", "enqueue") for number in range(1, 4)]
        assert [run["status"] for run in runs] == ["queued"] * 3
        if killed:
            await asyncio.to_thread(again, at)
        ended = [await client.rests(run) for run in runs]
        assert [run["status"] for run in ended] == ["completed"] * 3
        exchanges = [[f"Order {number}: look", f"Order {number} is done: look {number}.0."] for number in range(1, 4)]
        assert await said(client, thread) == [text for exchange in exchanges for text in exchange]


async def test_a_run_that_waits_for_its_thread_can_be_cancelled(at: Site) -> None:
    async with client_of(at) as client:
        thread = (await client.once("POST", "/threads"))["id"]
        first = await ask(client, thread, "1: look, look", None)
        second = await ask(client, thread, "2: look", "enqueue")
        assert (await client.once("POST", f"{path_of(second)}/cancel"))["status"] == "cancelled"
        third = await ask(client, thread, "3: look", "enqueue")
        ended = [(await client.rests(run))["status"] for run in (first, second, third)]
        assert ended == ["completed", "cancelled", "completed"]
        assert not any(text.startswith("Order 2") for text in await said(client, thread))


@pytest.mark.parametrize("first", ["1: look, look, look, look, look, look", "1: sign"])
async def test_a_run_takes_the_place_of_another(at: Site, first: str) -> None:
    async with client_of(at) as client:
        thread = (await client.once("POST", "/threads"))["id"]
        run = await ask(client, thread, first, None)
        if "sign" in first:
            assert (await client.rests(run))["status"] == "requires_action"
        other = await ask(client, thread, "2: look", "interrupt")
        assert (await client.rests(other))["status"] == "completed"
        assert (await client.rests(run))["status"] == "cancelled"
        assert (await said(client, thread))[-2:] == ["Order 2: look", "Order 2 is done: look 2.0."]


async def test_a_thread_is_free_as_soon_as_the_cancel_of_its_run_is_over(at: Site) -> None:
    async with client_of(at) as client:
        thread = (await client.once("POST", "/threads"))["id"]
        run = await client.rests(await ask(client, thread, "1: sign", None))
        assert (await client.once("POST", f"{path_of(run)}/cancel"))["status"] == "cancelled"
        assert (await client.rests(await ask(client, thread, "2: look", None)))["status"] == "completed"
