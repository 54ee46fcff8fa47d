"""Workspaces in the database, of either kind: versions, who may write, quotas, and what is deleted."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from functools import partial

import pytest
from hypothesis import given, settings, strategies as st
from sqlalchemy import Connection, func, select, update

from fakes.kept_runs import add_run, new_run
from fakes.recount import bytes_differences
from retinue.core.workspace import WorkspaceError
from retinue.limits.quotas import Limit, set_limits
from retinue.runs.leases import acquire_epoch
from retinue.runs.stored_workspace import StoredWorkspace
from retinue.store import workspaces
from retinue.store.database import Database
from retinue.store.event_log import Fenced
from retinue.store.run_queries import delete_runs
from retinue.store.tables import workspace_blobs, workspace_files
from retinue.store.tenant_view import Quota
from sampling import examples

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def database(any_url: str) -> AsyncIterator[Database]:
    database = Database(any_url)
    yield database
    await database.close_async()


async def begin(
    database: Database, run_id: str = "run_1", quota: Quota | None = None, **values: object
) -> StoredWorkspace:
    """The workspace of a new run, without a thread unless `values` say so."""
    row = new_run(run_id, **{"thread_id": None, **values})
    await database.write(partial(add_run, run=row))
    return await drive(database, run_id, quota)


async def drive(database: Database, run_id: str = "run_1", quota: Quota | None = None) -> StoredWorkspace:
    lease = await database.write(partial(acquire_epoch, run_id=run_id, process=database.process))
    assert lease is not None
    return StoredWorkspace(database, lease.run, quota)


async def count(database: Database, table: object) -> int:
    query = select(func.count()).select_from(table)  # type: ignore[arg-type]
    return await database.read(lambda connection: connection.execute(query).scalar() or 0)


async def test_a_change_is_one_version_and_is_made_once(database: Database) -> None:
    files = await begin(database)
    assert list(await files.list_files()) == []
    first = await files.change_files({"a": b"1", "d//b": b"22", "./c": b""}, "one")
    assert [tuple(one) for one in first.files] == [("a", 1, None), ("c", 0, None), ("d/b", 2, None)]
    second = await files.change_files({"a": None, "c": b"3", "d/b": b"22", "gone": None}, "two")
    assert (second.version, [tuple(one) for one in second.files]) == (2, [("a", None, 1), ("c", 1, 0)])
    assert await files.change_files({"a": b"other"}, "one") == first == await files.find_change("one")
    assert await files.find_change("two") == second
    assert await files.find_change("three") is None
    assert [tuple(one) for one in await files.list_files()] == [("c", 1, 2), ("d/b", 2, 1)]
    assert await files.read_files(["a", "c", "d/b"], 1) == {"a": b"1", "c": b"", "d/b": b"22"}
    assert await files.read_files(["a", "c", "d/b"]) == {"c": b"3", "d/b": b"22"}
    with pytest.raises(WorkspaceError, match="there is no file a"):
        await files.read_file("a")
    with pytest.raises(WorkspaceError, match="no version 3"):
        await files.read_file("a", 3)


async def test_a_file_is_no_folder(database: Database) -> None:
    files = await begin(database)
    await files.change_files({"a/b/c": b"", "a-b": b"", "f": b""}, "1")
    for number, (changes, said) in enumerate(
        [
            ({"a": b""}, "a is a folder, with a/b/c"),
            ({"a/b": b""}, "a/b is a folder, with a/b/c"),
            ({"a/b/c/d": b""}, "a/b/c is a file, and cannot be a folder"),
            ({"x": b"", "x/y": b""}, "x is a file"),
            ({"f/g": b""}, "f is a file"),
            ({"big": bytes(20_000_001)}, "big would have 20,000,001 bytes; a file has at most 20,000,000"),
            ({f"n/{at}": b"" for at in range(9_998)}, "at most 10,000 files, and would have 10,001"),
        ]
    ):
        with pytest.raises(WorkspaceError, match=said):
            await files.change_files(changes, f"bad {number}")
    change = await files.change_files({"a/b/c": None, "a": b"", "f": None, "f/g": b""}, "2")
    assert change.version == 2
    assert [one.path for one in await files.list_files()] == ["a", "a-b", "f/g"]


async def test_a_drive_that_lost_its_run_changes_nothing(database: Database) -> None:
    files = await begin(database)
    await files.change_files({"a": b"1"}, "1")
    later = await drive(database)
    with pytest.raises(Fenced):
        await files.change_files({"a": b"2"}, "2")
    assert (await later.change_files({"a": b"3"}, "2")).version == 2
    assert await files.read_file("a") == b"3"


async def test_members_write_at_the_same_time_in_one_order(database: Database) -> None:
    await begin(database, thread_id="thread_1")
    members = [
        await begin(database, f"run_{at}", kind="member", parent_id="run_1", root_id="run_1") for at in range(2, 6)
    ]
    changes = await asyncio.gather(
        *(one.change_files({f"{at}/{n}": b"x", "shared": f"{at} {n}".encode()}, f"{at}/{n}")
          for n in range(5) for at, one in enumerate(members))
    )  # fmt: skip
    assert sorted(one.version for one in changes) == list(range(1, 21))
    assert len(await members[0].list_files()) == 21
    last = max(changes)
    assert await members[1].read_file("shared") == last.files[0].path.replace("/", " ").encode()
    place = await database.read(lambda connection: workspaces.place_of(connection, members[0].run))
    assert place == ("thread_1", "thread_id")


async def test_a_tenant_keeps_no_more_than_it_may(database: Database) -> None:
    small = Quota(bytes=100)
    files = await begin(database, quota=small)
    await files.change_files({"a": b"a" * 5_000}, "1")  # compressed
    with pytest.raises(WorkspaceError, match="nothing is written: Storage limit reached: you may keep 100 bytes"):
        await files.change_files({"b": bytes(range(256))}, "2")
    await files.change_files({"copy": b"a" * 5_000}, "3")  # which is kept already
    await database.write(partial(set_limits, tenant="t", limits=[Limit("bytes", "", 200)]))
    other = StoredWorkspace(database, files.run)
    with pytest.raises(WorkspaceError, match=r"nothing is written: You exceeded your current quota"):
        await other.change_files({"b": bytes(range(256))}, "4")
    assert await database.read(bytes_differences) == []


async def test_contents_are_kept_once_and_go_when_no_file_has_them(database: Database) -> None:
    one, two = await begin(database), await begin(database, "run_2")
    other = await begin(database, "run_3", tenant="other")
    for files in (one, two, other):
        await files.change_files({"a": b"same", "b": b"same"}, "1")
    await one.change_files({"a": b"mine"}, "2")
    assert await count(database, workspace_blobs) == 3

    def sweep(connection: Connection) -> None:
        connection.execute(update(workspace_blobs).values(created_at=0))
        workspaces.delete_blobs(connection, workspaces.find_unused_blobs(connection, 10))

    await database.write(sweep)
    assert await count(database, workspace_blobs) == 3
    await database.write(lambda connection: delete_runs(connection, ["run_1", "run_3"]))
    await database.write(sweep)
    assert await count(database, workspace_blobs) == 1
    assert await count(database, workspace_files) == 2
    assert await two.read_file("a") == b"same"
    assert await database.read(bytes_differences) == []


PATHS = st.sampled_from(["a", "b", "d/a", "d/b"])
CHANGES = st.lists(st.dictionaries(PATHS, st.none() | st.binary(max_size=3), min_size=1), max_size=8)


@settings(max_examples=examples(60))
@given(changes=CHANGES, at=st.integers(0, 8))
def test_every_version_is_as_it_was_and_copies_have_the_same(changes: list[dict[str, bytes | None]], at: int) -> None:
    async def main(folder: str) -> None:
        database = Database(f"sqlite:///{folder}/runs.db")
        try:
            files = await begin(database)
            there: list[dict[str, bytes]] = [{}]
            for number, change in enumerate(changes):
                await files.change_files(change, str(number))
                there.append({path: one for path, one in {**there[-1], **change}.items() if one is not None})
            begun = min(at, len(changes))
            copy = await begin(database, "run_2")
            work = partial(workspaces.copy_version, source="run_1", version=begun, run=copy.run, history=True)
            await database.write(work)
            await copy.change_files({"new": b"new"}, "new")
            for version, wanted in enumerate(there):
                assert await files.read_files(there_ever(there), version) == wanted
                if version <= begun:
                    assert await copy.read_files(there_ever(there), version) == wanted
            now = {one.path for one in await copy.list_files()}
            assert now == {*there[begun], "new"}
        finally:
            await database.close_async()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(folder))


def there_ever(there: list[dict[str, bytes]]) -> set[str]:
    return {path for one in there for path in one}
