"""The audit log's chain: whatever is changed or removed is noticed, and the first entry that does not fit is named."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, Engine, delete, select, text, update

from retinue.store.audit_author import Author
from retinue.store.audit_chain import seal, verify_chain
from retinue.store.audit_log import prune, record
from retinue.store.engines import engine_of
from retinue.store.migrations import migrate
from retinue.store.quota_tables import audit_entries

COLUMNS = audit_entries.c


@pytest.fixture
def engine(any_url: str) -> Iterator[Engine]:
    engine = engine_of(any_url)
    migrate(engine)
    with engine.begin() as connection:
        for number in range(5):
            record(connection, Author("key_1", "req_1", "::1"), "t", "run.cancelled", f"run_{number}", {"n": number})
        seal(connection)
    yield engine
    engine.dispose()


def problem(engine: Engine, known: tuple[int, str] | None = None) -> str:
    with engine.connect() as connection:
        return verify_chain(connection, known).problem


def id_at(connection: Connection, place: int) -> str:
    return str(connection.execute(select(COLUMNS.id).where(COLUMNS.place == place)).scalar_one())


def test_a_log_that_nobody_touched_fits(engine: Engine) -> None:
    with engine.connect() as connection:
        found = verify_chain(connection)
    assert (found.checked, found.place, found.unsealed, found.problem) == (5, 5, 0, "")
    assert problem(engine, (5, found.head)) == ""


@pytest.mark.parametrize(
    "change",
    [
        *({"tenant": "u"}, {"actor": "key_2"}, {"action": "run.forked"}, {"target": "run_9"}, {"detail": {"n": 9}}),
        *({"request_id": None}, {"address": "::2"}, {"created_at": 1}, {"hash": "0" * 64}),
    ],
    ids=str,
)
def test_a_changed_entry_is_named(engine: Engine, change: dict[str, object]) -> None:
    with engine.begin() as connection:
        id_ = id_at(connection, 3)
        connection.execute(update(audit_entries).where(COLUMNS.place == 3).values(change))
    assert f"entry 3 ({id_})" in problem(engine)


@pytest.mark.parametrize("broken", ["{", "[" * 5_000, '"x"', ""])
def test_an_entry_that_cannot_be_read_is_named(engine: Engine, broken: str) -> None:
    if engine.dialect.name != "sqlite":
        pytest.skip("PostgreSQL takes no JSON that is none")
    with engine.begin() as connection:
        id_ = id_at(connection, 3)
        connection.execute(text("UPDATE audit_entries SET detail = :broken WHERE place = 3"), {"broken": broken})
    assert f"entry 3 ({id_})" in problem(engine)


def test_entries_that_swap_places_are_noticed(engine: Engine) -> None:
    with engine.begin() as connection:
        numbers = [connection.execute(select(COLUMNS.number).where(COLUMNS.place == at)).scalar_one() for at in (2, 4)]
        created = COLUMNS.created_at if engine.dialect.name == "sqlite" else COLUMNS.created_at - 1_000
        for place, number in ((2, -1), (4, numbers[0]), (2, numbers[1])):
            values = {"number": number, "created_at": created}
            connection.execute(update(audit_entries).where(COLUMNS.place == place).values(values))
    assert "entry " in problem(engine)


def test_a_removed_entry_is_noticed_wherever_it_was(engine: Engine) -> None:
    with engine.connect() as connection:
        head = verify_chain(connection).head
    for place, said in (
        (5, "entry 5, which was noted, is missing"),
        (1, "begins with entry 2"),
        (3, "follows entry 2"),
    ):
        with engine.begin() as connection:
            connection.execute(delete(audit_entries).where(COLUMNS.place == place))
        assert said in problem(engine, (5, head))
        if place == 5:
            assert problem(engine) == ""  # which is why the end is noted elsewhere


def test_pruning_is_recorded_and_the_rest_still_fits(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(update(audit_entries).where(COLUMNS.place > 3).values(created_at=2**40))
    with engine.begin() as connection:
        assert prune(connection, Author("os:me"), 1) == 0
    with engine.begin() as connection:  # as if entries 4 and 5 had been written then
        connection.execute(update(audit_entries).where(COLUMNS.place > 3).values(place=None, former=None, hash=None))
        seal(connection)
        assert prune(connection, Author("os:me"), 2**39) == 3
    with engine.connect() as connection:
        found = verify_chain(connection)
    assert (found.checked, found.place, found.problem) == (3, 6, "")


def test_an_entry_is_as_its_transaction(engine: Engine) -> None:
    with engine.begin() as connection, connection.begin_nested() as inner:
        record(connection, Author("key_1"), "t", "file.deleted", "file_1")
        inner.rollback()
    with engine.connect() as connection:
        assert verify_chain(connection).checked + verify_chain(connection).unsealed == 5
