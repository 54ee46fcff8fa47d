"""A SQLite file that is being written to is not taken for one that was harmed; to one that was, nothing is written."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Connection, func, insert, select

from retinue.errors import StoreLost, StoreUnavailable
from retinue.store.database import Database
from retinue.store.tables import threads

pytestmark = pytest.mark.anyio
PAGE = 1_024


def add(connection: Connection) -> None:
    number = connection.execute(select(func.count()).select_from(threads)).scalar()
    connection.execute(insert(threads).values(tenant="t", id=f"thread_{number}", created_at=1, body={"x": "y" * 9_000}))


def count(connection: Connection) -> int:
    return connection.execute(select(func.count()).select_from(threads)).scalar() or 0


async def test_only_its_owner_may_read_a_database(tmp_path: Path) -> None:
    with closing(Database(f"sqlite:///{tmp_path}/runs.db")) as database:
        await database.write(add)
        names = ("runs.db", "runs.db-wal", "runs.db-shm", "runs.db.lock")
        assert {(tmp_path / name).stat().st_mode & 0o777 for name in names} == {0o600}


async def half_checkpointed(folder: Path) -> Path:
    """A database as it is left by who died, or had no room any more, when the first page of the log was in the file."""
    db, kept = folder / "runs.db", folder / "kept"
    kept.mkdir()
    database = Database(f"sqlite:///{db}")
    for _ in range(20):
        await database.write(add)
    for name in ("runs.db", "runs.db-wal"):
        shutil.copy(folder / name, kept / name)
    with closing(sqlite3.connect(db)) as beside:
        assert beside.execute("PRAGMA wal_checkpoint").fetchone()[0] == 0
    first = db.read_bytes()[:PAGE]
    await database.close_async()
    with (kept / "runs.db").open("r+b") as file:
        file.write(first)
    assert int.from_bytes(first[28:32]) * PAGE > (kept / "runs.db").stat().st_size
    return kept / "runs.db"


async def test_a_step_writes_little_because_pages_are_small(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'runs.db'}")

    async def page_size() -> int:
        return int(await database.read(lambda connection: connection.exec_driver_sql("PRAGMA page_size").scalar_one()))

    assert await page_size() == PAGE
    await database.close_async()


async def test_a_file_that_somebody_had_no_time_to_make_longer_is_as_good_as_any(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{await half_checkpointed(tmp_path)}")
    assert await database.read(count) == 20
    await database.write(add)
    await database.look()
    await database.write(add)
    assert await database.read(count) == 22
    await database.close_async()


async def test_one_that_there_was_no_room_to_make_longer_is_looked_into(tmp_path: Path) -> None:
    db = await half_checkpointed(tmp_path)
    database = Database(f"sqlite:///{db}")
    os.utime(db)  # as if it had just been tried
    with pytest.raises(StoreUnavailable, match="is shorter than its header says"):
        database.check()
    await database.look()
    database.check()
    assert await database.read(count) == 20
    await database.close_async()


async def test_one_that_is_too_short_though_all_of_the_log_is_in_it_was_cut_off(tmp_path: Path) -> None:
    db = tmp_path / "runs.db"
    database = Database(f"sqlite:///{db}")
    for _ in range(20):
        await database.write(add)
    with closing(sqlite3.connect(db)) as beside:
        beside.execute("PRAGMA wal_checkpoint")
    await database.write(add)
    os.truncate(db, 5 * PAGE)
    with pytest.raises(StoreLost, match="was cut off or overwritten"):
        await database.write(add)
    for _ in range(2):
        with pytest.raises(StoreLost, match="was cut off or overwritten; nothing more is written to it"):
            await database.look()
    with pytest.raises(StoreUnavailable):
        await database.write(add)
    await database.close_async()
