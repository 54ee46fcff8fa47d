"""`QuotaWatch`: those who ask at the same time share what is read."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from retinue.errors import StoreUnavailable
from retinue.limits.quotas import DEFAULT, Limit, QuotaWatch, set_limits
from retinue.store.database import Database

LIMITS = [Limit("runs", "day", 10), Limit("bytes", "", 1_000)]


class Reads(Database):
    """A database that counts what is read of it, and may refuse to be read."""

    number = 0
    away = False

    async def read(self, work: Any, *, small: bool = False) -> Any:
        self.number += 1
        await asyncio.sleep(0)  # others ask meanwhile, on SQLite too
        if self.away:
            raise StoreUnavailable("away")
        return await super().read(work, small=small)


def test_limits_and_standings_are_read_once_for_all_that_ask_at_once(any_url: str) -> None:
    database = Reads(any_url)

    async def asked() -> list[Any]:
        await database.write(partial(set_limits, tenant="a", limits=LIMITS))
        await database.write(partial(set_limits, tenant=DEFAULT, limits=LIMITS[:1]))
        watch = QuotaWatch(database)
        return list(await asyncio.gather(*(watch.of(tenant) for tenant in ["a", "b"] * 20)))

    standings = asyncio.run(asked())
    assert database.number == 1 + 2  # the limits, and each tenant's standing
    assert [[one.limit for one in each] for each in standings] == [LIMITS, LIMITS[:1]] * 20
    database.close()


def test_who_waits_reads_for_himself_if_the_first_reader_is_cancelled(any_url: str) -> None:
    database = Reads(any_url)

    async def asked() -> list[Any]:
        await database.write(partial(set_limits, tenant="a", limits=LIMITS))
        watch = QuotaWatch(database)
        first, *others = (asyncio.create_task(watch.of("a")) for _ in range(3))
        await asyncio.sleep(0)
        first.cancel()
        return await asyncio.gather(*others)

    standings = asyncio.run(asked())
    assert [[one.limit for one in each] for each in standings] == [LIMITS] * 2
    database.close()


def test_who_cannot_read_says_so_and_the_next_one_reads_again(any_url: str) -> None:
    database = Reads(any_url)

    async def asked() -> list[Any]:
        await database.write(partial(set_limits, tenant="a", limits=LIMITS))
        watch, database.away = QuotaWatch(database), True
        failed = await asyncio.gather(*(watch.of("a") for _ in range(3)), return_exceptions=True)
        assert [type(one) for one in failed] == [StoreUnavailable] * 3
        database.away = False
        return [one.limit for one in await watch.of("a")]

    assert asyncio.run(asked()) == LIMITS
    database.close()


@pytest.mark.parametrize("tenant", ["a", "b"])
def test_no_quota_is_no_standing(any_url: str, tenant: str) -> None:
    database = Database(any_url)
    assert asyncio.run(QuotaWatch(database).of(tenant)) == ()
    database.close()
