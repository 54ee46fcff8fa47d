"""Forks and imports in the database, of either kind."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial

import pytest
from sqlalchemy import Connection

from fakes.kept_runs import KeptRuns, calling, due_for, kept_runs
from retinue import Agent, tool
from retinue.core.events import Called, Observed
from retinue.errors import UsageError
from retinue.run.fork import ForkPoint
from retinue.runs.run_export import export_run, import_runs, imported_runs, parse_export
from retinue.runs.run_fork import ForkEdits, fork_run
from retinue.store.due import Reason
from retinue.store.run_queries import RunFilter, find_run, member_runs, newest_runs, page_runs
from retinue.store.run_row import RunRow
from retinue.store.tenant_view import Page, TenantView

pytestmark = pytest.mark.anyio


def to_drive(connection: Connection) -> list[str]:
    return due_for(connection, Reason.DRIVE)


def looking() -> Agent:
    @tool(effects="read")
    def look(place: str) -> str:
        """Look at a place."""
        return f"In {place} it rains."

    return calling([look], {"tool": "look", "input": {"place": "Rome"}})


@pytest.fixture
async def kept(any_url: str) -> AsyncIterator[KeptRuns]:
    async with kept_runs(any_url, looking) as runs:
        await runs.driver.start(await runs.add(metadata={"a": "b"}))
        yield runs


async def forked(kept: KeptRuns, run_id: str = "run_1", **point: object) -> RunRow:
    edits = ForkEdits(ForkPoint(**point))  # type: ignore[arg-type]
    return await kept.database.write(partial(fork_run, run_id=run_id, ttl=600, edits=edits))


async def test_a_fork_is_a_run_of_its_own_and_is_found_from_the_other(kept: KeptRuns) -> None:
    before = await kept.row(), await kept.log()
    fork = await forked(kept, observations={"call_1_0": "It snows."})
    assert (fork.kind, fork.thread_id, fork.status, fork.forked_from, fork.metadata) == (
        "fork",
        None,
        "queued",
        "run_1",
        {},
    )
    assert await kept.database.read(to_drive) == [fork.id]  # by which any server drives it
    log = await kept.log(fork.id)
    assert [event.observation.text for event in log if isinstance(event, Observed)] == ["It snows."]
    await kept.another().start(fork.id)
    assert (await kept.row(fork.id)).status == "completed"
    assert sum(isinstance(event, Called) for event in await kept.log(fork.id)) == 1
    assert (await kept.row(), await kept.log()) == before
    assert await kept.said("run_1") != []
    assert await kept.said(fork.id) == []  # it says nothing on the thread

    def found(connection: Connection) -> list[list[str]]:
        wanted = RunFilter(forked_from="run_1")
        own, other = (page_runs(connection, TenantView(name), Page(), wanted)[0] for name in ("t", "u"))
        newest = newest_runs(connection, RunFilter(), None, 10)
        return [[one.id for one in runs] for runs in (own, other, newest, member_runs(connection, "run_1"))]

    assert await kept.database.read(found) == [[fork.id], [], [fork.id, "run_1"], []]


async def test_a_fork_of_a_fork_names_the_one_it_came_from(kept: KeptRuns) -> None:
    fork = await forked(kept, step=0)
    await kept.another().start(fork.id)
    again = await forked(kept, fork.id, step=0)
    assert (again.forked_from, again.request["forked_from"]) == (fork.id, {"run_id": fork.id, "step": 0})


async def test_an_import_is_stored_and_nothing_of_it_is_driven_or_forked(kept: KeptRuns) -> None:
    def work(connection: Connection) -> RunRow:
        run = find_run(connection, "run_1")
        assert run is not None
        return import_runs(connection, imported_runs(parse_export(json.dumps(export_run(connection, run))), "u"))

    imported = await kept.database.write(work)
    row = await kept.row(imported.id)
    assert (row.tenant, row.kind, row.status, row.holds, row.metadata) == (
        "u",
        "imported",
        "completed",
        False,
        {"a": "b"},
    )
    assert await kept.log(imported.id) == await kept.log()
    assert await kept.another().drive(imported.id) == "fenced"  # there is nothing to drive
    with pytest.raises(UsageError, match="was imported"):
        await forked(kept, imported.id)
