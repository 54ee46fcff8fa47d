"""A caller's log that is still in memory: it is taken only for what the database has, and only while it is small."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pytest

from fakes.kept_runs import new_run
from retinue.core.events import Asked, Called, Event, Finished, Observed, Started
from retinue.core.values import AgentAction, File, Message, Observation
from retinue.runs.caller_logs import CallerLogs
from retinue.store.database import Database
from retinue.store.event_log import Entry, append_entries
from retinue.store.run_queries import insert_run
from retinue.store.run_row import RunRow

pytestmark = pytest.mark.anyio
STARTED, ENDED = Started("?", "a", "react", "m", ("w",)), Finished("so", {})
CALLED = Called(1, AgentAction("w", "q", id="call_1_0"))
CALLER = new_run(epoch=1, status="in_progress")
MEMBER = new_run("run_2", parent_id="run_1", call_id="call_1_0", kind="member", status="completed")
NEXT = CALLER._replace(epoch=2)
STORED = [STARTED]
"""What the database has of the caller, so that it can be told from what is in memory."""


def entries(*events: Event) -> list[Entry]:
    return [Entry(number, 0.0, event) for number, event in enumerate(events, 1)]


@pytest.fixture
async def database(any_url: str) -> Iterator[Database]:  # type: ignore[misc]
    opened = Database(any_url)
    await opened.write(partial(insert_run, run=CALLER))
    await opened.write(partial(append_entries, holder=CALLER, entries=entries(*STORED)))
    yield opened
    await opened.close_async()


async def read(database: Database, logs: CallerLogs, run: RunRow = NEXT) -> list[Event]:
    log, _ = await logs.read(database, run)
    return [entry.event for entry in log]


def left(log: Sequence[Event] = (STARTED, CALLED), member: RunRow = MEMBER, end: Event = ENDED) -> CallerLogs:
    logs = CallerLogs()
    logs.left(CALLER, entries(*log))
    logs.ended(member, entries(end))
    return logs


async def test_the_next_drive_has_the_log_and_how_its_member_ended(database: Database) -> None:
    logs = left()
    log, found = await logs.read(database, NEXT)
    assert [entry.event for entry in log] == [STARTED, CALLED]
    assert found["call_1_0"].run == MEMBER
    assert await read(database, logs) == STORED, "it is taken once"


async def test_it_is_read_if_another_drive_was_in_between(database: Database) -> None:
    assert await read(database, left(), CALLER._replace(epoch=3)) == STORED


@pytest.mark.parametrize(
    "logs",
    [
        CallerLogs(),
        left(member=MEMBER._replace(status="requires_action")),
        left(member=MEMBER._replace(call_id="call_2_0")),
        left(member=MEMBER._replace(parent_id="run_9")),
    ],
    ids=["unknown", "waits for a person", "another call", "another caller"],
)
async def test_it_is_read_if_it_is_not_known_how_all_members_ended(database: Database, logs: CallerLogs) -> None:
    assert await read(database, logs) == STORED


LONG = "x" * 20_001
IMAGE = File("id", "image/png", data=b"x" * 20_001)


@pytest.mark.parametrize(
    "logs",
    [
        left(log=[STARTED, *[Observed(1, Observation("", "x"))] * 40, CALLED]),
        left(log=[Started(LONG, "a", "react", "m", ("w",)), CALLED]),
        left(log=[STARTED, Asked(1, 0, (Message("user", LONG),)), CALLED]),
        left(log=[STARTED, Asked(1, 0, (Message("user", "?", files=(IMAGE,)),)), CALLED]),
        left(end=Observed(1, Observation("", LONG))),
        left(end=Finished(LONG, {})),
    ],
    ids=["events", "question", "prompt", "image", "member's observation", "member's answer"],
)
async def test_what_is_large_is_not_kept(database: Database, logs: CallerLogs) -> None:
    assert await read(database, logs) == STORED


async def test_it_is_kept_for_the_latest_runs_only(database: Database) -> None:
    logs = left()
    for number in range(200):
        logs.left(CALLER._replace(id=f"run_of_another_{number}"), entries(STARTED))
    assert await read(database, logs) == STORED
