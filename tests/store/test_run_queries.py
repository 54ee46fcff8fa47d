"""Lists of a tenant's runs: what a filter finds, and that an index finds it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, event

from fakes.kept_runs import new_run
from retinue.store.database import Database
from retinue.store.run_queries import (
    RunFilter,
    count_by_status,
    delete_runs,
    find_run,
    insert_run,
    insert_submission,
    old_runs,
    page_runs,
    set_metadata,
    update_run,
)
from retinue.store.run_row import RunRow, Submission
from retinue.store.tenant_view import Page, TenantView

MINE = TenantView("mine")
RUNS = [
    new_run("run_0", status="completed", holds=False, created_at=10, metadata={"topic": "a", "n": "1"}),
    new_run("run_1", status="queued", created_at=20, agent="other", metadata={"topic": "b"}),
    new_run("run_2", status="failed", holds=False, thread_id=None, kind="chat", stored=True, created_at=30),
    new_run("run_3", status="completed", holds=False, thread_id=None, kind="chat", created_at=40, metadata={"n": "1"}),
]


@pytest.fixture
def engine(any_engine: Engine) -> Iterator[Engine]:
    with any_engine.begin() as connection:
        for run in RUNS:
            insert_run(connection, run._replace(tenant="mine"))
            insert_run(connection, run._replace(id=f"{run.id}_of_other", tenant="other", thread_id=None))
    yield any_engine
    with any_engine.begin() as connection:
        delete_runs(connection, [f"{run.id}{of}" for run in RUNS for of in ("", "_of_other")])


def found(engine: Engine, wanted: RunFilter, page: Page | None = None) -> list[str]:
    with engine.connect() as connection:
        runs, _ = page_runs(connection, MINE, page or Page(order="asc"), wanted)
        return [run.id for run in runs]


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        (RunFilter(), [0, 1, 2, 3]),
        (RunFilter(thread_id="thread_of_run_1"), [1]),
        (RunFilter(threaded=False), [2, 3]),
        (RunFilter(threaded=True), [0, 1]),
        (RunFilter(kind="chat"), [2, 3]),
        (RunFilter(kind="chat", stored=True), [2]),
        (RunFilter(agent="other"), [1]),
        (RunFilter(statuses=("completed", "queued")), [0, 1, 3]),
        (RunFilter(created_after=10, created_before=40), [1, 2]),
        (RunFilter(metadata={"n": "1"}), [0, 3]),
        (RunFilter(metadata={"n": "1", "topic": "a"}), [0]),
        (RunFilter(metadata={"n": "2"}), []),
    ],
)
def test_a_filter_finds_what_it_says_and_only_of_its_tenant(engine: Engine, wanted: RunFilter, ids: list[int]) -> None:
    assert found(engine, wanted) == [f"run_{one}" for one in ids]
    assert found(engine, wanted, Page(limit=1, order="desc")) == [f"run_{one}" for one in ids[-1:]]


def test_metadata_that_was_changed_is_found_as_it_is(engine: Engine) -> None:
    odd = {"n": "2", "long": "x" * 512, "nul": "a\0b", "half": "\ud800"}
    with engine.begin() as connection:
        run = find_run(connection, "run_0")
        assert run is not None
        changed = set_metadata(connection, run, odd)
        assert (changed.metadata, changed.status) == (odd, run.status)
        kept = find_run(connection, "run_0")
        assert kept is not None
        assert kept.metadata == {**odd, "half": "?"}
    assert found(engine, RunFilter(metadata={"n": "1"})) == ["run_3"]
    assert found(engine, RunFilter(metadata={"n": "2", "long": "x" * 512})) == ["run_0"]


def test_a_page_has_the_submissions_of_its_runs(engine: Engine) -> None:
    def resumed(run: RunRow | None, connection: Any) -> RunRow:
        assert run is not None
        run = insert_submission(connection, update_run(connection, run, turns=1), Submission(1, 5, "a"))
        return insert_submission(connection, update_run(connection, run, turns=2), Submission(2, 6, "b"))

    with engine.begin() as connection:
        wanted = {one: resumed(find_run(connection, one), connection) for one in ("run_1", "run_3")}
        runs, more = page_runs(connection, MINE, Page(limit=3), RunFilter())
    assert more
    assert {run.id: run for run in runs if run.submissions} == wanted
    assert [len(run.submissions) for run in runs] == [2, 0, 2]


def test_what_is_old_is_deleted_with_all_that_belongs_to_it(engine: Engine) -> None:
    with engine.begin() as connection:
        old = old_runs(connection, 100, None, 35)
        assert len(old) == 1  # not stored, of the other tenant
        delete_runs(connection, old)
        assert len(old_runs(connection, 1, 35, 0)) == 1
        delete_runs(connection, old_runs(connection, 100, 35, 0))
        assert old_runs(connection, 100, 35, 0) == []
        assert count_by_status(connection, MINE) == {"queued": 1, "completed": 1}
    assert found(engine, RunFilter(metadata={"n": "1"})) == ["run_3"]


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        (RunFilter(), "runs_of_tenant"),
        (RunFilter(thread_id="thread_of_run_1"), "runs_of_thread"),
        (RunFilter(agent="other"), "runs_of_agent"),
        (RunFilter(statuses=("queued",)), "runs_of_tenant_by_status"),
        (RunFilter(metadata={"n": "1"}), "runs_by_metadata"),
    ],
)
def test_an_index_finds_it(tmp_path: Any, wanted: RunFilter, index: str) -> None:
    database = Database(f"sqlite:///{tmp_path}/runs.db")
    asked: list[tuple[str, Any]] = []
    event.listen(
        database.engine,
        "before_cursor_execute",
        lambda _c, _cursor, statement, given, *_: asked.append((statement, given)),
    )
    with database.engine.begin() as connection:
        page_runs(connection, MINE, Page(), wanted)
        statement, given = asked[0]
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", given).all()
    database.close()
    steps = [row.detail for row in plan]
    assert any(f"INDEX {index} (" in step for step in steps), steps
    assert not any(step.startswith("SCAN runs") for step in steps), steps
