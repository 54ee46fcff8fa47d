"""Migration 004: what stood in a run's `state` stands in columns and submissions then, whatever else stood there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, select, text

from retinue.core.values import Decision, Usage
from retinue.store.database import Database
from retinue.store.engines import engine_of
from retinue.store.migrations import load_migrations
from retinue.store.run_queries import find_run
from retinue.store.run_row import RunError, RunRow, load_values
from retinue.store.tables import run_metadata

WAITING = [{"id": "call_2_0", "tool": "pay", "tool_input": "1", "arguments": {"input": "1"}, "asked": 2}]
DECIDED: dict[str, Any] = {"kind": "respond", "tool_input": None, "message": "21 °C; don't\n\nforget 100 %"}
USED = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12, "cached_tokens": 2}
STATE: dict[str, Any] = {
    "metadata": {"topic": "weather", "empty": ""},
    "started_at": 1_700_000_001,
    "claims": [9, 3, "abc-1"],
    "ending": "expired",
    "waiting": WAITING,
    "usage": USED,
    "usage_told": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3, "cached_tokens": 0},
    "told": 4,
    "marks": ["first", "second"],
    "turns": [[1_700_000_002, ["call_1_0"]], [1_700_000_003, ["call_1_1"]]],
    "decisions": {"call_1_0": DECIDED, "call_1_1": {**DECIDED, "message": "22"}, "call_0_0": {"kind": "approve"}},
    "deleted": [1],
}
PART = {"asked": {"store": True}, "input": [{"type": "x"}], "include": None, "told": 2, "calls": ["call_a"]}
PARTS = [
    {**PART, "created_at": 1_700_000_004, "mark": "first"},
    {**PART, "created_at": 1_700_000_005, "mark": "second"},
]


@pytest.fixture
def engine(any_url: str) -> Iterator[Engine]:
    engine = engine_of(any_url)
    for migration in load_migrations(engine.dialect.name)[:3]:
        with engine.begin() as connection:
            migration.run(connection)
    yield engine
    engine.dispose()


INSERT = text(
    "INSERT INTO runs (tenant, id, created_at, status, holds, epoch, request, state) "
    "VALUES ('t', :id, 1700000000, 'in_progress', FALSE, 3, :request, :state)"
)


def migrated(engine: Engine, url: str, state: str, request: str = '{"model": "m"}') -> RunRow:
    with engine.begin() as connection:
        connection.execute(INSERT, {"id": "run_1", "request": request, "state": state})
    Database(url).close()
    with engine.begin() as connection:
        run = find_run(connection, "run_1")
        assert run is not None
        return run


def test_all_of_a_state_is_there(engine: Engine, any_url: str) -> None:
    asked = {"kind": "chat", "model": "agent-1", "store": True, "messages": []}
    run = migrated(engine, any_url, json.dumps(STATE, ensure_ascii=False), json.dumps(asked))
    assert (run.kind, run.agent, run.stored, run.request) == ("chat", "agent-1", True, asked)
    assert (run.epoch, run.driver, run.attempts, run.progress) == (3, "abc-1", 3, 9)
    assert (run.started_at, run.ended_at, run.ending) == (1_700_000_001, None, "expired")
    assert (run.usage, run.deleted, list(run.waiting)) == (Usage(5, 7, 2), (1,), WAITING)
    assert run.metadata == STATE["metadata"]
    with engine.connect() as connection:
        found = connection.execute(select(run_metadata.c.name, run_metadata.c.value)).all()
    assert {row[0]: row[1] for row in found} == STATE["metadata"]
    first, second = run.submissions
    assert (first.number, first.at, first.mark, first.answered) == (1, 1_700_000_002, "first", ("call_1_0",))
    assert first.decisions == {"call_1_0": Decision("respond", message=DECIDED["message"])}
    assert (second.at, second.told, second.usage, run.told) == (1_700_000_003, 4, Usage(1, 2, 0), 4)
    assert run.decisions["call_0_0"] == Decision("approve")
    assert run.submitted("second")


def test_further_responses_keep_their_requests(engine: Engine, any_url: str) -> None:
    run = migrated(engine, any_url, json.dumps({**STATE, "parts": PARTS}), '{"kind": "response", "model": "m"}')
    assert [one.at for one in run.submissions] == [1_700_000_004, 1_700_000_005]
    assert [one.told for one in run.submissions] == [2, 4]
    assert (run.submissions[0].asked, run.submissions[0].input) == ({"store": True}, [{"type": "x"}])
    assert (run.submissions[0].include, run.submissions[0].calls) == (None, ["call_a"])
    assert (run.kind, run.stored) == ("response", False)


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "expired"])
def test_ends_and_errors(engine: Engine, any_url: str, status: str) -> None:
    error = {"code": "rate_limit_exceeded", "message": "Later: ä\n"}
    state = {f"{status}_at": 5, "last_error": error, "failure": {"code": "x", "retry_after": 1.5}}
    run = migrated(engine, any_url, json.dumps({**state, "incomplete_details": {"reason": "content_filter"}}))
    assert (run.ended_at, run.incomplete) == (5, "content_filter")
    assert run.error == RunError(**error, cause="x", retry_after=1.5)


def test_one_that_never_began(engine: Engine, any_url: str) -> None:
    run = migrated(engine, any_url, "{}", "{}")
    assert (run.kind, run.agent, run.stored, run.usage, run.error) == ("assistant", "", False, None, None)
    assert (run.submissions, run.waiting, run.metadata, run.progress) == ((), (), {}, None)


WRONG = [
    "[]",
    "7",
    "null",
    '{"marks": 7, "claims": "x", "metadata": [1], "waiting": {}, "usage": "x", "last_error": 1, "deleted": 2}',
    '{"claims": [1], "turns": 1, "parts": {}, "decisions": [1], "told": "x"}',
    '{"metadata": {"a": 1, "b": null, "c": {"d": 1}}}',
]


@pytest.mark.full
@pytest.mark.parametrize("state", WRONG)
def test_what_cannot_be_read_holds_up_no_migration(engine: Engine, any_url: str, state: str) -> None:
    assert migrated(engine, any_url, state).id == "run_1"


def test_a_row_that_is_no_json_holds_up_no_migration(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"  # PostgreSQL takes none
    engine = engine_of(url)
    for migration in load_migrations("sqlite")[:3]:
        with engine.begin() as connection:
            migration.run(connection)
    with engine.begin() as connection:
        connection.execute(INSERT, {"id": "run_1", "request": '{"a": ', "state": "{"})
        connection.execute(INSERT, {"id": "run_2", "request": '{"model": "m"}', "state": '{"started_at": 4}'})
    Database(url).close()
    with engine.begin() as connection:
        run = find_run(connection, "run_2")
        assert run is not None
        assert run.started_at == 4
        with pytest.raises(ValueError, match="Expecting"):
            find_run(connection, "run_1")
    engine.dispose()


def test_a_nul_in_a_state_holds_up_no_migration(engine: Engine, any_url: str) -> None:
    state = {"metadata": {"a": "\0b\0\0", "c": "\\u0000"}, "marks": ["m"], "decisions": {"call": {"kind": "approve"}}}
    run = migrated(engine, any_url, json.dumps(state), json.dumps({"model": "m", "messages": ["\0"]}))
    assert run.metadata in ({"a": "\0b\0\0", "c": "\\u0000"}, {"a": "\ufffdb\ufffd\ufffd", "c": "\\u0000"})
    assert (run.agent, run.request["messages"]) == ("m", ["\0"])


def test_results_that_were_kept_before_are_read(engine: Engine, any_url: str) -> None:
    run = migrated(engine, any_url, json.dumps(STATE))
    kept = {"status": "requires_action", "holds": True, "expires_at": 9, "epoch": 1}
    then = load_values(run, {**kept, "state": {**STATE, "marks": ["first"], "failed_at": 3}})
    assert (then.status, then.holds, then.expires_at, then.epoch) == ("requires_action", True, 9, 1)
    assert (then.metadata, then.usage, then.ended_at) == (STATE["metadata"], Usage(5, 7, 2), 3)
    assert [one.mark for one in then.submissions] == ["first"]
    assert list(then.waiting) == WAITING
