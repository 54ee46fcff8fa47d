"""A tenant's runs are listed by an index, whatever the filter: however many runs others have, and it has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, event, insert
from sqlalchemy.engine import Engine

from fakes.kept_runs import new_run
from retinue.store.database import Database
from retinue.store.run_queries import COLUMNS, RunFilter, page_runs
from retinue.store.run_row import column_values
from retinue.store.tables import run_metadata, runs
from retinue.store.tenant_view import Page, TenantView

RUNS, TENANTS, TENANT = 20_000, 125, "tenant 7"
IN_ORDER = {  # filters of which an index gives the runs in the list's order, so that a page reads no more than itself
    "runs_of_tenant": RunFilter(),
    "runs_of_tenant_by_status": RunFilter(statuses=("failed",)),
    "runs_of_agent": RunFilter(agent="rare"),
}
BY_TIME = {
    "before": RunFilter(created_before=200),
    "after": RunFilter(created_after=RUNS - 200),
    "between": RunFilter(created_after=500, created_before=1_500),
}
OTHERS = {
    "status of a time": RunFilter(statuses=("failed",), created_before=2_000),
    "statuses": RunFilter(statuses=("failed", "queued")),
    "metadata": RunFilter(metadata={"team": "team 7"}),
}
OWN = {  # indexes that begin with the tenant
    *IN_ORDER,
    "runs_of_tenant_by_time",
    "runs_by_metadata",
}


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A database with the runs of many tenants."""
    url = f"sqlite:///{tmp_path_factory.mktemp('runs')}/runs.db"
    if request.param == "postgresql":
        url = request.getfixturevalue("a_postgres").database()
    database = Database(url)
    with database.engine.begin() as connection:
        connection.execute(insert(runs), [row(number) for number in range(RUNS)])
        marks = [
            {"run_id": f"run_{number}", "tenant": tenant_of(number), "number": number + 1, "name": "team"}
            | {"value": f"team {number % 500}"}
            for number in range(RUNS)
        ]
        connection.execute(insert(run_metadata), marks)
        connection.exec_driver_sql("ANALYZE")
    yield database.engine
    database.close()


def tenant_of(number: int) -> str:
    return f"tenant {number % TENANTS}"


_ANY = new_run(holds=False, thread_id=None)
_VALUES = column_values({name: getattr(_ANY, name) for name in COLUMNS})


def row(number: int) -> dict[str, Any]:
    status = "failed" if number % 97 < 48 else "completed"
    agent = "rare" if number % 89 < 44 else "m"
    own = {"id": f"run_{number}", "tenant": tenant_of(number), "created_at": number}
    return {**_VALUES, **own, "status": status, "agent": agent}


def plan(engine: Engine, wanted: RunFilter) -> str:
    """How the database looks for the ids of a page."""
    asked: list[tuple[str, Any]] = []

    def note(connection: Connection, cursor: object, statement: str, parameters: Any, *_: object) -> None:
        asked.append((statement, parameters))

    with engine.connect() as connection:
        event.listen(connection, "before_cursor_execute", note)
        page_runs(connection, TenantView(TENANT), Page(), wanted)
    how = "EXPLAIN QUERY PLAN " if engine.dialect.name == "sqlite" else "EXPLAIN "
    with engine.connect() as connection:
        found = connection.exec_driver_sql(how + asked[0][0], asked[0][1]).all()
    return "\n".join(str(line[-1]) for line in found)


@pytest.mark.full
@pytest.mark.parametrize("index", IN_ORDER)
def test_an_index_gives_the_page_in_its_order(engine: Engine, index: str) -> None:
    said = plan(engine, IN_ORDER[index])
    assert index in said.split(), said
    assert "Sort" not in said, said
    assert "TEMP B-TREE" not in said, said


@pytest.mark.full
@pytest.mark.parametrize("name", BY_TIME)
def test_runs_of_a_time_are_found_by_an_index(engine: Engine, name: str) -> None:
    said = set(plan(engine, BY_TIME[name]).split())
    assert "runs_of_tenant_by_time" in said or (name != "between" and "runs_of_tenant" in said), said


@pytest.mark.parametrize("name", OTHERS)
def test_no_run_of_another_tenant_is_read(engine: Engine, name: str) -> None:
    said = plan(engine, OTHERS[name])
    assert OWN & set(said.split()), said
    assert "Seq Scan on runs" not in said
    assert "SCAN runs" not in said


@pytest.mark.parametrize("wanted", [*IN_ORDER.values(), *BY_TIME.values(), OTHERS["status of a time"]])
def test_a_list_has_what_the_filter_says(engine: Engine, wanted: RunFilter) -> None:
    with engine.connect() as connection:
        found, _ = page_runs(connection, TenantView(TENANT), Page(limit=RUNS), wanted)
    expected = [
        run["id"]
        for run in map(row, reversed(range(RUNS)))
        if run["tenant"] == TENANT
        and (not wanted.statuses or run["status"] in wanted.statuses)
        and wanted.agent in (None, run["agent"])
        and (wanted.created_before is None or run["created_at"] < wanted.created_before)
        and (wanted.created_after is None or run["created_at"] > wanted.created_after)
    ]
    assert [run.id for run in found] == expected
    assert expected
