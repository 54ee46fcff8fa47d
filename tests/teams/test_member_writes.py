"""Two writers of a team's runs, interleaved at the statement, in both orders and at once: none of its runs is left
behind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import Connection, Engine

from fakes.kept_runs import due_for, new_run
from fakes.locks import waits_for_lock
from fakes.until import until
from retinue.core.budgets import Budget
from retinue.core.events import Called, Finished, Paused, Started, Stopped
from retinue.core.protocols import Task
from retinue.core.tools.delegation import MemberCall
from retinue.core.tools.tool import Tool
from retinue.core.values import AgentAction, Decision, StopReason
from retinue.errors import StoreConflict
from retinue.runs.cancellation import cancel_run
from retinue.runs.leases import acquire_epoch
from retinue.runs.status import final_values
from retinue.runs.submissions import submit_decisions
from retinue.runs.teams import Caller, begin_members, member_run_id, new_member, settle_caller
from retinue.store.due import Reason
from retinue.store.engines import translate_errors
from retinue.store.event_log import Change, Entry, Fenced, append_entries
from retinue.store.run_queries import delete_runs, find_run, insert_run, update_run
from retinue.store.run_row import BY_MEMBERS, RunRow, RunValues

Write = Callable[[Connection], Any]
MEMBER = member_run_id("run_1", "call_1_0")
ASKED = AgentAction("pay", {"amount": 5}, id="call_1_0")


@dataclass
class Team:
    """A run that called a member; both are driven."""

    engine: Engine

    def __post_init__(self) -> None:
        with self.engine.begin() as connection:
            delete_runs(connection, ["run_1", MEMBER])
            values: dict[str, Any] = {"status": "in_progress", "epoch": 1, "progress": 0, "driver": "p"}
            insert_run(connection, new_run("run_1", **values))
            begun = [Started("?", "a", "react", "m", ("w",)), Called(1, AgentAction("w", "q", id="call_1_0"))]
            append_entries(connection, self.row(connection), _entries(*begun))
            link = {"parent_id": "run_1", "root_id": "run_1", "call_id": "call_1_0", "kind": "member"}
            insert_run(connection, new_run(MEMBER, **values, **link))

    def row(self, connection: Connection, run_id: str = "run_1") -> RunRow:
        run = find_run(connection, run_id)
        assert run is not None
        return run

    def now(self) -> tuple[RunRow, RunRow]:
        with self.engine.connect() as connection:
            return self.row(connection), self.row(connection, MEMBER)

    def hand_over(self, connection: Connection) -> None:
        def change(now: RunRow) -> Change:
            return Change(RunValues(driver=BY_MEMBERS), (), lambda one, after: settled(one))

        append_entries(connection, self.row(connection), [], change)

    def end(self, connection: Connection) -> None:
        """The member ends."""
        self._rests(connection, Finished("Done.", {}))

    def ask(self, connection: Connection) -> None:
        """The member waits for a person."""
        self._rests(connection, Paused(1, ASKED, "approval"), Stopped(StopReason.AWAITING_HUMAN))

    def _rests(self, connection: Connection, *events: Any) -> None:
        log = _entries(Started("q", "w", "react", "m", ("pay",)), *events)

        def change(now: RunRow) -> Change:
            return Change(final_values(now, log, {}), (), lambda one, after: settled(one))

        append_entries(connection, self.row(connection, MEMBER), log, change)

    def cancel(self, connection: Connection) -> None:
        cancel_run(connection, self.row(connection))

    def answer(self, connection: Connection) -> None:
        submit_decisions(connection, self.row(connection), {"call_1_0/call_1_0": Decision("approve")}, 600, "yes")


def settled(connection: Connection) -> None:
    list(settle_caller(connection, "run_1", 600, lambda *_: None))


def _entries(*events: Any) -> list[Entry]:
    return [Entry(at, float(at), event) for at, event in enumerate(events, 1)]


def in_order(engine: Engine, *writes: Write) -> list[Exception]:
    """Do one after the other. Return what they raised."""
    raised: list[Exception] = []
    for write in writes:
        try:
            with translate_errors(), engine.begin() as connection:
                write(connection)
        except (StoreConflict, Fenced) as error:
            raised.append(error)
    return raised


def at_once(engine: Engine, first: Write, second: Write) -> list[Exception]:
    """Let `second` run into the uncommitted writes of `first`. Return what it raised."""
    raised: list[Exception] = []
    thread = threading.Thread(target=lambda: raised.extend(in_order(engine, second)))
    with engine.begin() as connection:
        first(connection)
        thread.start()
        until(lambda: waits_for_lock(engine) or not thread.is_alive())
    thread.join(20)
    return raised


ORDERS = [["hand_over", "end"], ["end", "hand_over"]]


@pytest.mark.parametrize("names", ORDERS, ids="-".join)
def test_a_caller_goes_on_whether_its_member_ends_before_or_after_it_rests(
    any_engine: Engine, names: list[str]
) -> None:
    team = Team(any_engine)
    assert in_order(any_engine, *(getattr(team, name) for name in names)) == []
    goes_on(team)


@pytest.mark.parametrize("names", ORDERS, ids="-".join)
def test_a_caller_goes_on_if_its_member_ends_as_it_comes_to_rest(postgres_engine: Engine, names: list[str]) -> None:
    team = Team(postgres_engine)
    first, second = (getattr(team, name) for name in names)
    assert at_once(postgres_engine, first, second) == []
    goes_on(team)


def goes_on(team: Team) -> None:
    caller, member = team.now()
    assert (caller.status, caller.driver, member.status) == ("in_progress", None, "completed")
    with team.engine.begin() as connection:
        assert due_for(connection, Reason.LEFT) == []
        assert acquire_epoch(connection, "run_1", "p") is not None


@pytest.mark.parametrize("names", [["hand_over", "ask"], ["ask", "hand_over"]], ids="-".join)
def test_a_question_reaches_the_caller_whenever_it_rests(any_engine: Engine, names: list[str]) -> None:
    team = Team(any_engine)
    in_order(any_engine, *(getattr(team, name) for name in names))
    caller, member = team.now()
    assert (caller.status, member.status) == ("requires_action", "requires_action")
    assert [one["id"] for one in caller.waiting] == ["call_1_0/call_1_0"]
    assert in_order(any_engine, team.answer) == []
    caller, member = team.now()
    assert (caller.status, caller.driver, member.status, member.driver) == ("in_progress", BY_MEMBERS, "queued", None)


@pytest.mark.parametrize("late", ["end", "ask"])
def test_a_cancel_of_the_caller_ends_its_member_whatever_it_does_meanwhile(postgres_engine: Engine, late: str) -> None:
    for first, second in [("cancel", late), (late, "cancel")]:
        team = Team(postgres_engine)
        in_order(postgres_engine, team.hand_over)
        raised = at_once(postgres_engine, getattr(team, first), getattr(team, second))
        if raised:  # of two who wait for each other one is undone, and comes again
            assert isinstance(raised[0], StoreConflict | Fenced)
            in_order(postgres_engine, getattr(team, second))
        caller, member = team.now()
        assert caller.status == "cancelled"
        assert member.status in ("cancelled", "cancelling", "completed")


def member_of(connection: Connection, team: Team) -> tuple[RunRow, RunRow]:
    """The caller, and the row of its member, which has not begun."""
    delete_runs(connection, [MEMBER])
    caller = Caller(team.row(connection), "a", Task("?"), {"w"}, {})
    return caller.run, new_member(caller, MemberCall(Tool("w", len), "q", "call_1_0", Budget), Budget())


def test_of_two_drives_that_call_a_member_one_begins_it(any_engine: Engine) -> None:
    team = Team(any_engine)
    with any_engine.begin() as connection:
        caller, member = member_of(connection, team)

    def begin(connection: Connection) -> None:
        assert begin_members(connection, caller, [member], lambda _, row: row)

    if any_engine.dialect.name == "postgresql":
        (problem,) = at_once(any_engine, begin, begin)
    else:
        (problem,) = in_order(any_engine, begin, begin)
    assert isinstance(problem, StoreConflict)
    with any_engine.begin() as connection:
        update_run(connection, team.row(connection), epoch=2)
        delete_runs(connection, [MEMBER])
    assert isinstance(in_order(any_engine, begin)[0], Fenced)  # by a drive that was overtaken


def test_no_member_begins_for_a_caller_that_was_cancelled(any_engine: Engine) -> None:
    team = Team(any_engine)
    with any_engine.begin() as connection:
        caller, member = member_of(connection, team)
        team.cancel(connection)
        assert begin_members(connection, caller, [member], lambda _, row: row) == []


def test_a_caller_is_acquired_by_who_ends_its_last_member(any_engine: Engine) -> None:
    team = Team(any_engine)
    in_order(any_engine, team.hand_over)
    with any_engine.begin() as connection:
        update_run(connection, team.row(connection, MEMBER), status="completed", holds=False)
        (after,) = settle_caller(connection, "run_1", 600, lambda *_: None, "p")
    caller, _ = team.now()
    assert caller == after
    assert (caller.status, caller.driver, caller.epoch, caller.progress) == ("in_progress", "p", 2, 2)
    with any_engine.begin() as connection:
        assert list(settle_caller(connection, "run_1", 600, lambda *_: None, "p")) == []


def test_a_caller_that_has_expired_is_acquired_by_nobody(any_engine: Engine) -> None:
    team = Team(any_engine)
    with any_engine.begin() as connection:
        update_run(connection, team.row(connection), expires_at=1)
    in_order(any_engine, team.hand_over)
    with any_engine.begin() as connection:
        update_run(connection, team.row(connection, MEMBER), status="completed", holds=False)
        (after,) = settle_caller(connection, "run_1", 600, lambda *_: None, "p")
        assert after.driver is None
