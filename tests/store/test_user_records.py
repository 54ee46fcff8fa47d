"""What users use in a day and are always allowed is one thing for all processes on a store, and each user's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection

from retinue.core.user_records import Policy, UserUse
from retinue.store.clock import CLOCK
from retinue.store.database import Database
from retinue.store.usage_sums import NANOS, Used, add_to_sum, count_run, day_of, fold_parts, used_by_user, used_since
from retinue.store.user_records import StoredRecords

pytestmark = pytest.mark.anyio
TODAY = day_of(CLOCK.now())
POLICY = Policy("policy_1", "mailer", "send", "", {"to": "ann"}, {"to": "*"}, 5, "run_1")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def processes(any_url: str) -> AsyncIterator[tuple[Database, Database]]:
    """Two processes on one store; a file of SQLite has one."""
    first = Database(any_url)
    second = first if any_url.startswith("sqlite") else Database(any_url)
    yield first, second
    await first.close_async()
    if second is not first:
        await second.close_async()


def use(connection: Connection, process: str, user: str | None, **more: int) -> None:
    add_to_sum(connection, "acme", TODAY, process, Used(**more), user)


async def test_what_two_processes_count_is_one_sum(processes: tuple[Database, Database]) -> None:
    for at, database in enumerate(processes):
        await database.write(partial(use, process=f"p{at}", user="ann", tokens=10, cost=NANOS))
        begun = partial(count_run, tenant="acme", created_at=int(CLOCK.now()), process=f"p{at}", user="ann")
        await database.write(begun)
    for database in processes:
        assert await StoredRecords(database, "acme", "ann").used_today() == UserUse(2, 20, 2.0)
        assert await StoredRecords(database, "acme", "bob").used_today() == UserUse()
        assert await StoredRecords(database, "other", "ann").used_today() == UserUse()
        used = await database.read(lambda connection: used_since(connection, "acme", TODAY))
        assert used[TODAY] == Used(2, 20, 2 * NANOS)


async def test_nothing_is_lost_where_two_processes_count_at_once(processes: tuple[Database, Database]) -> None:
    def count(connection: Connection) -> None:
        use(connection, "p", "ann", tokens=1)

    await asyncio.gather(*(database.write(count, alone=True) for database in processes for _ in range(20)))
    assert (await StoredRecords(processes[0], "acme", "ann").used_today()).tokens == 40


async def test_sums_of_past_days_do_not_count_and_are_dropped_in_the_end(processes: tuple[Database, Database]) -> None:
    def fill(connection: Connection) -> None:
        for ago in (1, 100):
            add_to_sum(connection, "acme", TODAY - ago, "p", Used(tokens=5), "ann")

    database, _ = processes
    await database.write(fill)
    assert await StoredRecords(database, "acme", "ann").used_today() == UserUse()
    await database.write(fold_parts)
    of_ann = partial(used_by_user, tenant="acme", user="ann")
    kept = [await database.read(partial(of_ann, day=TODAY - ago)) for ago in (1, 100)]
    assert [one.tokens for one in kept] == [5, 0]


async def test_a_policy_is_seen_by_all_processes_and_by_no_other_user(processes: tuple[Database, Database]) -> None:
    first, second = processes
    for _ in range(2):  # a drive that died between the decision and the log keeps it again
        assert await StoredRecords(first, "acme", "ann").keep(POLICY)
    assert await StoredRecords(second, "acme", "ann").policies() == [POLICY]
    others: list[Any] = [("acme", "bob"), ("other", "ann"), ("acme", None)]
    for tenant, user in others:
        assert await StoredRecords(second, tenant, user).policies() == []


async def test_nobody_in_particular_has_no_policy(processes: tuple[Database, Database]) -> None:
    records = StoredRecords(processes[0], "acme", None)
    assert not await records.keep(POLICY)
    assert (await records.policies(), await records.used_today()) == ([], UserUse())
