"""The counts of bytes are the sums of what is there, whatever came and went, and two servers count together."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st
from sqlalchemy import Connection, Engine, delete, func, select, update

from fakes.postgres import Postgres
from fakes.until import until
from retinue.core.values import File
from retinue.store.engines import begin_at_once, engine_of
from retinue.store.memory_states import (
    MemoryState,
    Owner,
    forget_thread,
    put_state,
    read_states,
    thread_name,
    user_names,
)
from retinue.store.migrations import migrate
from retinue.store.run_belongings import delete_unused_files, keep_files
from retinue.store.tables import images, memories, storage_used
from retinue.store.usage_sums import Stored, bytes_used, fold_sessions
from sampling import examples

TENANTS = ("a", "b")
WHAT: dict[str, Stored] = {"images": "images", "memories": "memories"}


def forget(connection: Connection, tenant: str) -> None:
    """All that is remembered for a tenant."""
    connection.execute(delete(memories).where(memories.c.tenant == tenant))


OWNERS = (user_names("u")[0], thread_name("1"), thread_name("2"))


@pytest.fixture
def engine(any_url: str) -> Iterator[Engine]:
    engine = engine_of(any_url)
    migrate(engine)
    yield engine
    engine.dispose()


def remember(connection: Connection, tenant: str, owner: str, size: int) -> None:
    whose = Owner(tenant, owner, "agent")
    before = read_states(connection, whose, lock=True).get(0)
    state = MemoryState(f"{tenant}{owner}", "conversation", "ä" * size)
    assert put_state(connection, whose, 0, state, before)


def keep(connection: Connection, tenant: str, sizes: list[int]) -> None:
    data = [bytes(size) for size in sizes]
    keep_files(connection, tenant, [File(hashlib.sha256(one).hexdigest(), "image/png", data=one) for one in data])


def forget_images(connection: Connection, size: int) -> None:
    connection.execute(update(images).where(images.c.bytes == size).values(created_at=0))
    delete_unused_files(connection)


def assert_exact(connection: Connection) -> None:
    for tenant in TENANTS:
        for table in (images, memories):
            there = connection.execute(select(func.sum(table.c.bytes)).where(table.c.tenant == tenant)).scalar()
            assert bytes_used(connection, tenant, WHAT[table.name]) == (there or 0), (tenant, table.name)


TENANT, SIZE = st.sampled_from(TENANTS), st.integers(0, 3)
CHANGES = st.one_of(
    st.tuples(st.just(remember), TENANT, st.sampled_from(OWNERS), SIZE),
    st.tuples(st.just(keep), TENANT, st.lists(SIZE, max_size=3)),
    st.tuples(st.just(forget_images), SIZE),
    st.tuples(st.just(forget), TENANT),
    st.tuples(st.just(forget_thread), TENANT, st.sampled_from(["1", "2"])),
)


@pytest.mark.full
@given(changes=st.lists(CHANGES, max_size=examples(12)))
def test_what_is_counted_is_what_is_there(changes: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        engine = engine_of(f"sqlite:///{folder}/runs.db")
        migrate(engine)
        with engine.begin() as connection:
            for change, *arguments in changes:
                change(connection, *arguments)
                assert_exact(connection)
        engine.dispose()


def test_each_change_is_counted_on_either_database(engine: Engine) -> None:
    changes: list[tuple[Any, ...]] = [
        (keep, "a", [1, 2, 2]),
        (keep, "b", [1, 3]),
        (keep, "a", [2, 3]),
        *((remember, tenant, owner, size) for size in (2, 5, 1) for tenant in TENANTS for owner in OWNERS),
        (forget_thread, "a", "1"),
        (forget_images, 1),
        (forget_images, 3),
        (forget, "b"),
    ]
    for change, *arguments in changes:
        with engine.begin() as connection:
            change(connection, *arguments)
        with engine.connect() as connection:
            assert_exact(connection)
    with engine.connect() as connection:
        assert (bytes_used(connection, "a", "images"), bytes_used(connection, "a", "memories")) == (2, 4)


def test_what_is_undone_is_not_counted(engine: Engine) -> None:
    with engine.connect() as connection:
        with begin_at_once(connection).begin() as transaction:
            keep(connection, "a", [2])
            transaction.rollback()
        assert bytes_used(connection, "a", "images") == 0


def test_sessions_count_beside_each_other_and_are_added_up_once_they_ended(a_postgres: Postgres) -> None:
    engine = engine_of(a_postgres.database())
    migrate(engine)
    with engine.connect() as first, engine.connect() as second:
        with first.begin(), second.begin():  # neither waits for the other
            keep(first, "a", [7])
            keep(second, "a", [5])
        with second.begin():
            forget_images(second, 7)
        first.invalidate()
    with engine.connect() as connection:
        until(lambda: _fold(connection) == 2)  # what the two counted, as long as one of them goes on
        assert bytes_used(connection, "a", "images") == 5
    engine.dispose()


def _fold(connection: Connection) -> int:
    with connection.begin():
        fold_sessions(connection)
        return len(connection.execute(select(storage_used.c.part)).all())
