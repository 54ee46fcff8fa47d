"""Two servers behind a PgBouncer in transaction mode."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pytest
from sqlalchemy import Connection, select, text

from fakes.kept_runs import calling, kept_runs
from fakes.pgbouncer import PROGRAM, pooled
from fakes.postgres import Postgres
from retinue import Agent, tool
from retinue.errors import UsageError
from retinue.runs import DueRuns
from retinue.store.database import Database
from retinue.store.tables import threads
from retinue.store.tenant_view import TenantView

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(PROGRAM is None, reason="pgbouncer is not installed")]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def url(a_postgres: Postgres) -> Iterator[str]:
    direct = a_postgres.database()
    with pooled(direct) as url:
        with pytest.raises(UsageError, match="a pooler cannot ensure"):
            Database(url)
        Database(direct).close()
        yield url


def agent() -> Agent:
    @tool(effects="read")
    async def look() -> str:
        """Look."""
        return "seen 1"

    return calling([look], {"tool": "look", "input": {}})


async def test_no_statement_meets_another_ones_preparation_and_limits_hold(url: str) -> None:
    with closing(Database(url)) as first, closing(Database(url)) as second:

        def add(connection: Connection, name: str) -> tuple[object, ...]:
            tenant = TenantView("t")
            tenant.insert(connection, threads, {"id": name, "key": None, "created_at": 1, "body": {}})
            assert tenant.find(connection, threads, name) is not None
            shown = "SELECT current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout')"
            return tuple(connection.execute(text(shown)).one())

        for number in range(20):
            works = [
                one.write(partial(add, name=f"{number}_{at}_{which}"))
                for which, one in enumerate((first, second))
                for at in range(5)
            ]
            reads = [
                one.read(lambda connection: connection.execute(select(threads.c.id)).all()) for one in (first, second)
            ]
            found = await asyncio.gather(*works, *reads)
            assert set(found[:10]) == {("2s", "5s")}
        await first.look()
        await second.look()


async def test_runs_are_driven_by_both(url: str) -> None:
    async with kept_runs(url, agent) as first, kept_runs(url, agent) as second:
        peers = [DueRuns(first.driver), DueRuns(second.driver)]
        for one in peers:
            await one.join()
        for number in range(10):
            await first.add(f"run_{number}")
            (first, second)[number % 2].driver.start(f"run_{number}")
        rows = [await second.rests(f"run_{number}") for number in range(10)]
        assert {row.status for row in rows} == {"completed"}
        for one in peers:
            await one.leave()
