"""What runs used is in their tenant's sums once, whichever drive or request counts it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection

from retinue.core.events import Replied, Stopped
from retinue.core.values import Reply, StopReason, Usage
from retinue.runs.cancellation import cancel_run
from retinue.store.database import Database
from retinue.store.event_log import Change, Entry, append_entries
from retinue.store.run_queries import find_run, insert_run
from retinue.store.run_row import RunRow, RunValues
from retinue.store.usage_sums import DAY, count_use, mark_counted, used_since

AT = 20_000 * DAY + 5.0
LOG = [Entry(seq, AT + seq, Replied(seq, Reply("so", Usage(10, seq, 0, 1)))) for seq in (1, 2, 3)]
RUN = RunRow("run_1", "acme", None, int(AT), "queued", holds=False, expires_at=None, epoch=1, request={}, agent="a")


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    database = Database(f"sqlite:///{tmp_path}/runs.db")
    with database.engine.begin() as connection:
        insert_run(connection, RUN)
        yield connection
    database.close()


def tokens(connection: Connection) -> int:
    return sum(used.tokens for used in used_since(connection, "acme", 0).values())


def end(run: RunRow) -> Change:
    return Change(RunValues(status="completed"), ())


def test_what_a_dead_drive_wrote_is_counted_by_the_next_one(connection: Connection) -> None:
    append_entries(connection, RUN, LOG[:2])
    assert tokens(connection) == 0
    append_entries(connection, RUN, LOG[2:], end, log=LOG)
    assert tokens(connection) == 36


def test_what_was_counted_is_not_counted_again(connection: Connection) -> None:
    append_entries(connection, RUN, LOG[:2], log=LOG[:2])
    assert tokens(connection) == 23
    append_entries(connection, RUN, LOG, end, None, LOG)
    assert tokens(connection) == 36
    count_use(connection, RUN, LOG, 3)
    assert tokens(connection) == 36


def test_what_is_appended_later_is_not_counted_before(connection: Connection) -> None:
    append_entries(connection, RUN, LOG[:1], log=LOG)  # the drive goes on, and its log grows, while this is written
    assert tokens(connection) == 11


def test_a_run_that_is_cancelled_without_a_drive_counts_what_was_left(connection: Connection) -> None:
    append_entries(connection, RUN, LOG)
    run = find_run(connection, RUN.id)
    assert run is not None
    cancel_run(connection, run)
    assert tokens(connection) == 36


def test_a_copied_log_is_not_counted(connection: Connection) -> None:
    append_entries(connection, RUN, LOG)
    mark_counted(connection, RUN.id, len(LOG))
    log = [*LOG, Entry(4, AT, Stopped(StopReason.CANCELLED))]
    append_entries(connection, RUN, log[3:], end, log=log)
    assert tokens(connection) == 0
