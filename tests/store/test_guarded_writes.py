"""Two writers of one run, interleaved at each guarded statement: exactly one wins, and the other learns why."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, delete, select

from fakes.kept_runs import add_run, new_run
from fakes.locks import waits_for_lock
from fakes.until import until
from retinue.core.events import Finished, Started
from retinue.core.values import Decision
from retinue.errors import StoreConflict
from retinue.runs.cancellation import cancel_run, discard_run, fail_drive, fail_run
from retinue.runs.leases import Lease, acquire_epoch
from retinue.runs.status import final_values
from retinue.runs.submissions import submit_decisions
from retinue.store.event_log import Change, Entry, Fenced, append_entries, length
from retinue.store.run_queries import delete_runs, find_run, set_deleted, set_metadata, update_run
from retinue.store.run_row import RunRow
from retinue.store.tables import messages, submissions

Write = Callable[[Connection, RunRow], Any]
WAITING = ({"id": "call_1_0", "tool": "pay", "tool_input": "1", "arguments": {"input": "1"}, "asked": 1},)


def claim(connection: Connection, run: RunRow) -> RunRow:
    return update_run(connection, run, epoch=run.epoch + 1, status="in_progress", driver="other")


def cancel(connection: Connection, run: RunRow) -> RunRow:
    return cancel_run(connection, run)


def expire(connection: Connection, run: RunRow) -> RunRow:
    return cancel_run(connection, run, "expired")


def fail(connection: Connection, run: RunRow) -> RunRow:
    return fail_run(connection, run, "no agent")


def approve(connection: Connection, run: RunRow) -> RunRow:
    return submit_decisions(connection, run, {"call_1_0": Decision("approve")}, 600, "approved")


def reject(connection: Connection, run: RunRow) -> RunRow:
    return submit_decisions(connection, run, {"call_1_0": Decision("reject")}, 600, "rejected")


def admit(connection: Connection, run: RunRow) -> RunRow:
    return update_run(connection, run, holds=True, expires_at=100)


def end(connection: Connection, run: RunRow) -> RunRow | None:
    """End the run as its driver does."""
    log = [Entry(1, 1.0, Started("?", "a", "react", "m", ())), Entry(2, 2.0, Finished("Done.", {}))]

    def change(now: RunRow) -> Change:
        return Change(final_values(now, log, {}), [])

    return append_entries(connection, run, log, change)


def give_up(connection: Connection, run: RunRow) -> RunRow:
    return fail_drive(connection, run, "the log cannot be read")


SITUATIONS: dict[str, tuple[dict[str, Any], list[Write]]] = {
    "queued": ({"status": "queued"}, [claim, cancel, fail]),
    "waits for its thread": ({"status": "queued", "holds": False}, [admit, cancel, fail]),
    "waits for a person": (
        {"status": "requires_action", "epoch": 1, "waiting": WAITING},
        [approve, reject, cancel, expire, fail],
    ),
    "is driven": ({"status": "in_progress", "epoch": 1, "progress": 0}, [claim, cancel, fail, end, give_up]),
}
PAIRS = [
    pytest.param(values, first, second, id=f"{situation}: {first.__name__}, {second.__name__}")
    for situation, (values, writes) in SITUATIONS.items()
    for first in writes
    for second in writes
    if (first, second) not in {(cancel, end), (cancel, give_up), (end, end)}  # see below; one driver ends it
]


def made(engine: Engine, values: dict[str, Any]) -> RunRow:
    """The run, as both writers read it before either writes."""
    with engine.begin() as connection:
        delete_runs(connection, ["run_1"])
        connection.execute(delete(messages))
        add_run(connection, new_run(**values))
        return current(connection)


def current(connection: Connection) -> RunRow:
    run = find_run(connection, "run_1")
    assert run is not None
    return run


def picture(engine: Engine) -> tuple[Any, ...]:
    """All that a writer can leave behind."""
    with engine.connect() as connection:
        said = connection.execute(select(messages.c.id)).all()
        given = connection.execute(select(submissions.c.mark)).all()
        return current(connection), length(connection, "run_1"), said, given


@pytest.mark.matrix
@pytest.mark.parametrize(("values", "first", "second"), PAIRS)
def test_of_two_writers_that_read_the_same_the_second_changes_nothing(
    any_engine: Engine, values: dict[str, Any], first: Write, second: Write
) -> None:
    run = made(any_engine, values)
    with any_engine.begin() as connection:
        first(connection, run)
    after = picture(any_engine)
    assert after[0] != run
    with pytest.raises((StoreConflict, Fenced)) as refused, any_engine.begin() as connection:
        second(connection, run)
    assert run.id in str(refused.value)
    assert picture(any_engine) == after


@pytest.mark.full
@pytest.mark.parametrize(("values", "first", "second"), PAIRS)
def test_of_two_writers_at_once_the_second_waits_and_changes_nothing(
    postgres_engine: Engine, values: dict[str, Any], first: Write, second: Write
) -> None:
    run = made(postgres_engine, values)
    outcome = at_once(postgres_engine, lambda connection: first(connection, run), lambda one: second(one, run))
    assert isinstance(outcome, StoreConflict | Fenced)
    with postgres_engine.connect() as connection:
        now = current(connection)
    assert now.epoch - run.epoch <= 1
    assert now.turns == len(now.submissions) == (first in (approve, reject))


def at_once(engine: Engine, first: Callable[[Connection], Any], second: Callable[[Connection], Any]) -> Any:
    """Let `second` run into the uncommitted writes of `first`, and commit these then. Return what `second` returned or
    raised."""
    outcome: list[Any] = []

    def other() -> None:
        try:
            with engine.begin() as connection:
                outcome.append(second(connection))
        except (StoreConflict, Fenced) as error:
            outcome.append(error)

    thread = threading.Thread(target=other)
    with engine.begin() as connection:
        first(connection)
        thread.start()
        until(lambda: waits_for_lock(engine))
    thread.join(20)
    return outcome[0]


@pytest.mark.parametrize("write", [end, give_up])
def test_a_driver_ends_what_was_cancelled_as_cancelled(any_engine: Engine, write: Write) -> None:
    run = made(any_engine, SITUATIONS["is driven"][0])
    with any_engine.begin() as connection:
        cancel(connection, run)
        write(connection, run)
        assert current(connection).status == ("cancelled" if write is end else "failed")


@pytest.mark.parametrize("first", [cancel, end])
def test_a_cancel_and_an_end_at_once_leave_one_end(postgres_engine: Engine, first: Write) -> None:
    run = made(postgres_engine, SITUATIONS["is driven"][0])

    def cancelling(connection: Connection) -> RunRow | None:
        now = find_run(connection, run.id, lock=True)
        return cancel_run(connection, now) if now is not None and now.active else None

    def ending(connection: Connection) -> RunRow | None:
        return end(connection, run)

    ordered = (cancelling, ending) if first is cancel else (ending, cancelling)
    outcome = at_once(postgres_engine, *ordered)
    with postgres_engine.connect() as connection:
        now = current(connection)
    assert now.status == ("cancelled" if first is cancel else "completed")
    assert (outcome is None) == (first is end)


def test_two_drives_that_claim_at_once_have_different_epochs_and_only_the_later_one_writes(
    postgres_engine: Engine,
) -> None:
    made(postgres_engine, SITUATIONS["queued"][0])
    leases: list[Lease] = []

    def claiming(connection: Connection) -> Lease:
        lease = acquire_epoch(connection, "run_1", "a process")
        assert lease is not None
        leases.append(lease)
        return lease

    at_once(postgres_engine, claiming, claiming)
    first, second = (lease.run for lease in leases)
    assert (first.epoch, second.epoch) == (1, 2)
    with pytest.raises(Fenced), postgres_engine.begin() as connection:
        end(connection, first)
    with postgres_engine.begin() as connection:
        end(connection, second)


def test_a_claim_that_comes_first_fences_an_append_at_once(postgres_engine: Engine) -> None:
    run = made(postgres_engine, SITUATIONS["is driven"][0])
    entry = Entry(1, time.time(), Started("?", "a", "react", "m", ()))
    outcome = at_once(
        postgres_engine,
        lambda connection: acquire_epoch(connection, run.id, "a process"),
        lambda connection: append_entries(connection, run, [entry]),
    )
    assert isinstance(outcome, Fenced)


@pytest.mark.parametrize("write", [claim, cancel, fail])
def test_what_belongs_to_the_client_and_to_a_drive_is_written_side_by_side(any_engine: Engine, write: Write) -> None:
    run = made(any_engine, SITUATIONS["queued"][0])
    with any_engine.begin() as connection:
        write(connection, run)
        set_metadata(connection, run, {"a": "b"})
        set_deleted(connection, run, [1])
    with any_engine.begin() as connection:
        now = current(connection)
        assert (now.metadata, now.deleted) == ({"a": "b"}, (1,))
        assert (now.epoch, now.status) != (run.epoch, run.status)
        update_run(connection, now, ending="expired")
        assert (current(connection).metadata, current(connection).deleted) == ({"a": "b"}, (1,))


@pytest.mark.parametrize("write", [claim, cancel, fail])
def test_a_deleted_run_is_not_changed(any_engine: Engine, write: Write) -> None:
    run = made(any_engine, SITUATIONS["queued"][0])
    with any_engine.begin() as connection:
        delete_runs(connection, [run.id])
    with pytest.raises((StoreConflict, Fenced)), any_engine.begin() as connection:
        write(connection, run)


@pytest.mark.parametrize("first", ["delete", "approve"])
def test_a_submission_and_a_deletion_at_once_leave_nothing(postgres_engine: Engine, first: str) -> None:
    run = made(postgres_engine, SITUATIONS["waits for a person"][0])

    def deleting(connection: Connection) -> None:
        delete_runs(connection, [run.id])

    def approving(connection: Connection) -> RunRow:
        return approve(connection, run)

    outcome = at_once(postgres_engine, *((deleting, approving) if first == "delete" else (approving, deleting)))
    assert isinstance(outcome, StoreConflict) == (first == "delete")
    with postgres_engine.connect() as connection:
        assert find_run(connection, run.id) is None
        assert connection.execute(select(submissions)).all() == []


def test_a_run_that_has_ended_is_not_discarded(any_engine: Engine) -> None:
    run = made(any_engine, {"status": "completed", "holds": False})
    with any_engine.begin() as connection:
        discard_run(connection, run.id, "its row cannot be read")
        assert current(connection) == run
