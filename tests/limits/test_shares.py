"""Shares: what a tenant may have under way at a time, and whose turn is next."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given, strategies as st

from retinue.limits.shares import Shares

pytestmark = pytest.mark.anyio


def test_each_tenant_has_its_turn_and_the_last_place_is_for_one_who_has_none() -> None:
    shares, begun = Shares(total=4, spare=1), list[str]()
    while chosen := shares.choose(("a", "b") if len(begun) < 2 else ("a",)):
        for tenant in chosen:
            shares.begin(tenant)
        begun += chosen
    assert begun == ["a", "b", "a"]
    assert shares.choose(("a", "c")) == ["c"]
    shares.release("b")
    assert shares.choose(("a",)) == ["a"]
    shares.release("a")
    assert shares.choose(("a", "b", "c")) == ["c", "b"]


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=12))
def test_who_was_served_longest_ago_is_next(order: list[str]) -> None:
    shares, last = Shares(total=1), dict.fromkeys("abcd", 0)
    for number, _ in enumerate(order, 1):
        (tenant,) = shares.choose("abcd")
        assert last[tenant] == min(last.values())
        shares.begin(tenant)
        shares.release(tenant)
        last[tenant] = number


async def test_a_tenant_has_so_many_at_a_time_and_others_do_not_wait_for_it() -> None:
    shares, ready = Shares(2), list[str]()

    async def work(tenant: str, free: asyncio.Event) -> None:
        async with shares.of(tenant):
            ready.append(tenant)
            await free.wait()

    free = asyncio.Event()
    tasks = [asyncio.create_task(work(tenant, free)) for tenant in ("a", "a", "a", "b")]
    await asyncio.sleep(0.01)
    assert (ready, shares.waiting("a")) == (["a", "a", "b"], 1)
    tasks[2].cancel()
    await asyncio.gather(*tasks[2:3], return_exceptions=True)
    assert shares.waiting("a") == 0
    free.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert ready == ["a", "a", "b"]


async def test_a_turn_that_comes_as_its_owner_leaves_is_the_next_one_s() -> None:
    shares = Shares(1)
    await shares.acquire("a")
    first, second = (asyncio.create_task(shares.acquire("a")) for _ in range(2))
    await asyncio.sleep(0)
    shares.release("a")
    first.cancel()
    await asyncio.wait_for(second, 5)


async def test_a_share_that_rests_is_free_again_whatever_came_of_the_work() -> None:
    shares = Shares(1)
    for _ in range(3):
        with suppress(ValueError):
            async with shares.rested("tenant"):
                assert shares.choose(("tenant",)) == []
                raise ValueError
    async with shares.rested("other"):
        pass


async def test_a_piece_whose_owner_left_keeps_its_share_to_its_end() -> None:
    shares, free, done = Shares(total=1), threading.Event(), list[str]()
    pieces: list[Any] = [partial(free.wait, 30), partial(done.append, "never")]
    asked = asyncio.create_task(shares.run("a", pieces))
    await asyncio.sleep(0.01)
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    other = asyncio.create_task(shares.run("b", [partial(done.append, "b0")]))
    await asyncio.sleep(0.01)
    assert done == []
    free.set()
    await other
    assert done == ["b0"]


async def test_who_has_much_does_not_keep_others_waiting() -> None:
    batches, done = Shares(total=1), list[str]()
    much = batches.run("a", [partial(done.append, f"a{number}") for number in range(5)])
    little = batches.run("b", [partial(done.append, "b0")])
    third = batches.run("c", [partial(done.append, f"c{number}") for number in range(2)])
    await asyncio.gather(much, little, third)
    assert done == ["a0", "b0", "c0", "a1", "c1", "a2", "a3", "a4"]


async def test_who_goes_away_leaves_nothing_to_do() -> None:
    batches, done = Shares(total=1), list[str]()
    asked = asyncio.create_task(batches.run("a", [partial(done.append, f"a{number}") for number in range(1_000)]))
    await batches.run("b", [partial(done.append, "b0")])
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    await batches.run("b", [partial(done.append, "b1")])
    assert done[-1] == "b1"
    assert len(done) < 10
    assert batches.waiting("a") == 0


async def test_what_is_raised_is_told_and_ends_the_rest() -> None:
    def broken() -> None:
        raise ValueError("broken")

    batches, done = Shares(total=1), list[str]()
    pieces: list[Any] = [broken, partial(done.append, "a1")]
    with pytest.raises(ValueError, match="broken"):
        await batches.run("a", pieces)
    assert await batches.run("a", [lambda: "well"]) == ["well"]
    assert done == []
