"""Keys that are wrong: they cost next to nothing, are refused if they are many, and lock nobody out."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import aiohttp
from sqlalchemy import event

from fakes.app_server import KEY, Serving
from retinue.limits.rate import AT_ONCE, EVERY, KeyThrottle
from retinue.store.api_keys import create_key


def statuses(served: Serving, keys: list[str]) -> list[tuple[int, str]]:
    """What each of these keys is answered, all at once, and when to try again."""

    async def ask(session: aiohttp.ClientSession, key: str) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {key}"}
        async with session.get(f"{served.url}/v1/models", headers=headers) as said:
            return said.status, said.headers.get("retry-after", "")

    async def all_() -> list[tuple[int, str]]:
        async with aiohttp.ClientSession() as session:
            return await asyncio.gather(*(ask(session, key) for key in keys))

    return asyncio.run(all_())


def test_many_are_refused_and_the_right_ones_are_heard(tmp_path: Path) -> None:
    with Serving(tmp_path, wrong_keys=KeyThrottle(clock=lambda: 0.0)) as served:
        wrong = statuses(served, [f"sk-wrong-{number}" for number in range(AT_ONCE + 50)])
        assert {status for status, _ in wrong} == {401, 429}
        assert all(int(seconds) >= 1 for status, seconds in wrong if status == 429)
        assert sum(status == 401 for status, _ in wrong) == AT_ONCE
        said = served.ask("GET", "/v1/models", key="sk-wrong")
        assert (said.status, said.error["code"]) == (429, "rate_limit_exceeded")
        new = served.in_loop(served.database.write(partial(create_key, tenant="new")))
        assert [status for status, _ in statuses(served, ["sk-wrong", new, KEY])] == [429, 200, 200]


def test_many_at_once_cost_few_looks_at_the_database(tmp_path: Path) -> None:
    with Serving(tmp_path) as served:
        looks: list[str] = []

        def looked(*given: object) -> None:
            looks.append(str(given[2]))

        event.listen(served.database.engine, "before_cursor_execute", looked)
        statuses(served, [f"sk-wrong-{number}" for number in range(300)])
        assert 0 < sum("FROM keys" in one for one in looks) < 30


def test_an_address_may_try_again_after_a_while() -> None:
    now = 0.0
    wrong = KeyThrottle(clock=lambda: now)
    assert [wrong.count("a") for _ in range(AT_ONCE)] == [0.0] * AT_ONCE
    assert wrong.count("a") == EVERY
    assert wrong.count("b") == 0.0
    now += EVERY
    assert (wrong.count("a"), wrong.count("a")) == (0.0, EVERY)
    now += AT_ONCE * EVERY
    assert [wrong.count("a") for _ in range(AT_ONCE)] == [0.0] * AT_ONCE


def test_only_so_many_addresses_are_remembered() -> None:
    wrong = KeyThrottle(clock=lambda: 0.0)
    for _ in range(AT_ONCE):
        wrong.count("first")
    for number in range(10_000):
        wrong.count(f"other {number}")
    assert wrong.count("first") == 0.0  # it was forgotten
