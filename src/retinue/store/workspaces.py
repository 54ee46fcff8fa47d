"""Workspaces in the database: the versions of files that a thread, a conversation or a run without one works with.

A file's row says from which version on it is there, and until which. So a change writes what it changes, the newest
files are found by an index however long the history is, and any version can be listed. Contents are kept once for each
tenant, under the SHA-256 of their bytes; what no file has is deleted, unless it is new.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, case, delete, exists, func, insert, literal, or_, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite

from ..core.workspace import (
    MOST_FILES,
    ChangedFile,
    WorkspaceChange,
    WorkspaceFile,
    check_clash,
)
from ..errors import NotDone
from .clock import CLOCK
from .prepared_statements import bound_insert, insert_once
from .run_row import RunRow
from .tables import conversations, runs, threads, workspace_blobs, workspace_files, workspace_versions, workspaces

_SPARED = 3_600  # seconds for which a content may wait for its file
_SOME = 200  # values in a statement
_INSERT: Mapping[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
_files, _blobs = workspace_files.c, workspace_blobs.c
_there = _files.until.is_(None)
_ADD = bound_insert(workspace_files)


class Blob(NamedTuple):
    """A content: its id, its size, and its bytes as they are kept."""

    id: str
    size: int
    content: bytes

    @classmethod
    def of(cls, content: bytes) -> Blob:
        """Return a content as it is kept."""
        return cls(hashlib.sha256(content).hexdigest(), len(content), zlib.compress(content, 1))


class Place(NamedTuple):
    """A workspace: its id, which is that of what it belongs to, and the column that refers to that."""

    id: str
    column: str


def place_of(connection: Connection, run: RunRow) -> Place:
    """Return the workspace of a run, which may not be there yet: that of its thread or conversation, or its own.
    Members work with that of the run at the top."""
    top, thread = run.root_id or run.id, run.thread_id
    if run.root_id is not None:
        thread = connection.execute(select(runs.c.thread_id).where(runs.c.id == top)).scalar()
    for table, column in ((threads, "thread_id"), (conversations, "conversation_id")) if thread else ():
        mine = (table.c.id == thread, table.c.tenant == run.tenant)
        if connection.execute(select(table.c.id).where(*mine)).first():
            return Place(str(thread), column)
    return Place(top, "run_id")


def list_files(connection: Connection, workspace: str, version: int | None = None) -> list[WorkspaceFile]:
    """Return the files of a version, sorted. Raises `NotDone` if it is not there."""
    query = select(_files.path, _files.size, _files.version).where(*_in_version(connection, workspace, version))
    return sorted(WorkspaceFile(*row) for row in connection.execute(query))


def read_files(
    connection: Connection, workspace: str, paths: Iterable[str], version: int | None = None
) -> dict[str, bytes]:
    """Return the contents of these files as they are kept (`unpack`), as far as they are there. Raises as
    `list_files`."""
    where = _in_version(connection, workspace, version)
    same = (_blobs.tenant == _files.tenant) & (_blobs.id == _files.blob_id)
    found: dict[str, bytes] = {}
    for some in _batch(paths):
        query = select(_files.path, _blobs.content).join(workspace_blobs, same).where(*where, _files.path.in_(some))
        found |= {row.path: row.content for row in connection.execute(query)}
    return found


def unpack(kept: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return contents that `read_files` returned as they were."""
    return {path: zlib.decompress(content) for path, content in kept.items()}


def find_version(connection: Connection, workspace: str) -> int:
    """Return the newest version; 0 if there is none."""
    return connection.execute(select(workspaces.c.version).where(workspaces.c.id == workspace)).scalar() or 0


def find_version_at(connection: Connection, workspace: str, at: float) -> int:
    """Return the version at a time, in Unix seconds; 0 if there was none."""
    columns = workspace_versions.c
    query = select(func.max(columns.version)).where(columns.workspace_id == workspace, columns.at <= at)
    return connection.execute(query).scalar() or 0


def find_change(connection: Connection, workspace: str, key: str) -> WorkspaceChange | None:
    """Return the change that was made under a key."""
    columns = workspace_versions.c
    query = select(columns.version).where(columns.workspace_id == workspace, columns.key == key)
    version = connection.execute(query).scalar()
    if version is None:
        return None
    sizes = select(_files.path, _files.version, _files.size).where(
        _files.workspace_id == workspace, or_(_files.version == version, _files.until == version)
    )
    now, before = dict[str, int](), dict[str, int]()
    for path, since, size in connection.execute(sizes):
        (now if since == version else before)[path] = size
    return _describe(version, now, before)


def change_files(
    connection: Connection,
    run: RunRow,
    changes: Mapping[str, Blob | None],
    key: str,
    check: Callable[[Connection, int], None],
) -> WorkspaceChange:
    """Change the workspace of a run, as `Workspace.change_files` does. `check` is told how many bytes are new, and
    raises if they are too many."""
    place = place_of(connection, run)
    row = _lock(connection, run.tenant, place)
    if (done := find_change(connection, place.id, key)) is not None:
        return done
    there = {row.path: row for row in _current(connection, place.id, changes)}
    new = {
        path: blob for path, blob in changes.items() if blob and (path not in there or there[path].blob_id != blob.id)
    }
    ended = [path for path in there if path in new or changes[path] is None]
    version, added = row.version + 1, [path for path in new if path not in there]
    count = row.files + len(added) - len([path for path in ended if path not in new])
    if added and count > MOST_FILES:
        raise NotDone(f"a workspace has at most {MOST_FILES:,} files, and would have {count:,}")
    for some in _batch(ended):
        mine = (_files.workspace_id == place.id, _there, _files.path.in_(some))
        connection.execute(update(workspace_files).where(*mine).values(until=version))
    _check_folders(connection, place.id, added)
    _put_blobs(connection, run.tenant, {blob.id: blob for blob in new.values()}, check)
    for path, blob in new.items():
        values = {"workspace_id": place.id, "path": path, "version": version, "until": None, "tenant": run.tenant}
        _ADD.run(connection, {**values, "blob_id": blob.id, "size": blob.size})
    noted = {"workspace_id": place.id, "version": version, "key": key, "at": CLOCK.now()}
    connection.execute(insert(workspace_versions).values(noted))
    counts = {"version": version, "files": count}
    connection.execute(update(workspaces).where(workspaces.c.id == place.id).values(counts))
    return _describe(version, {path: blob.size for path, blob in new.items()}, {one: there[one].size for one in ended})


def copy_version(connection: Connection, source: str, version: int, run: RunRow, *, history: bool) -> None:
    """Give a run the files of a version of another workspace, under the same number, unless it has a workspace; with
    `history`, those of the versions before it, too. Later changes of either are not seen in the other."""
    place, columns = place_of(connection, run), workspace_versions.c
    if not version or place.id == source or find_version(connection, place.id):
        return
    _lock(connection, run.tenant, place)
    kept, noted = ("path", "version", "tenant", "blob_id", "size"), ("version", "key", "at")
    until = case((_files.until <= version, _files.until), else_=None)
    mine = [_files.workspace_id == source, _files.version <= version]
    mine += [] if history else [or_(_there, _files.until > version)]
    query = select(literal(place.id), until, *(_files[name] for name in kept)).where(*mine)
    connection.execute(insert(workspace_files).from_select(["workspace_id", "until", *kept], query))
    since = [columns.version <= version] if history else [columns.version == version]
    versions = select(literal(place.id), *(columns[name] for name in noted)).where(
        columns.workspace_id == source, *since
    )
    connection.execute(insert(workspace_versions).from_select(["workspace_id", *noted], versions))
    count = select(func.count()).where(_files.workspace_id == place.id, _there).scalar_subquery()
    mine = [workspaces.c.id == place.id]
    connection.execute(update(workspaces).where(*mine).values(version=version, files=count))


def find_unused_blobs(connection: Connection, most: int) -> Sequence[Any]:
    """Return the tenants and ids of at most `most` contents that no file has, unless they are new."""
    query = select(_blobs.tenant, _blobs.id).where(*_unused()).limit(most)
    return connection.execute(query).all()


def delete_blobs(connection: Connection, found: Sequence[Any]) -> None:
    """Delete those of the contents that still no file has."""
    wanted = tuple_(_blobs.tenant, _blobs.id).in_([tuple(one) for one in found])
    connection.execute(delete(workspace_blobs).where(wanted, *_unused()))


def _unused() -> Iterator[Any]:
    yield _blobs.created_at < int(CLOCK.now()) - _SPARED
    yield ~exists().where(_files.tenant == _blobs.tenant, _files.blob_id == _blobs.id)


def _in_version(connection: Connection, workspace: str, version: int | None) -> list[Any]:
    """Return the conditions of the files of a version."""
    if version is None:
        return [_files.workspace_id == workspace, _there]
    columns = workspace_versions.c
    query = select(columns.version).where(columns.workspace_id == workspace, columns.version == version)
    if version and connection.execute(query).first() is None:
        newest = find_version(connection, workspace)
        raise NotDone(f"the workspace has no version {version}; the newest is {newest}")
    until = or_(_there, _files.until > version)
    return [_files.workspace_id == workspace, _files.version <= version, until]


def _lock(connection: Connection, tenant: str, place: Place) -> Any:
    """Return the row of a workspace, which is made if it is not there. Nobody else changes it until the transaction
    ends."""
    query = select(workspaces.c.version, workspaces.c.files).where(workspaces.c.id == place.id).with_for_update()
    if (row := connection.execute(query).first()) is None:
        values = {"id": place.id, "tenant": tenant, place.column: place.id, "version": 0, "files": 0}
        insert_once(connection, workspaces, values)
        row = connection.execute(query).one()
    return row


def _batch(values: Iterable[str]) -> Iterator[list[str]]:
    """Yield as many of the values at a time as a statement has."""
    left = iter(values)
    while some := list(islice(left, _SOME)):
        yield some


def _current(connection: Connection, workspace: str, paths: Iterable[str]) -> Iterator[Any]:
    for some in _batch(paths):
        mine = (_files.workspace_id == workspace, _there, _files.path.in_(some))
        yield from connection.execute(select(_files.path, _files.size, _files.blob_id).where(*mine))


def _check_folders(connection: Connection, workspace: str, added: Collection[str]) -> None:
    """Raise `NotDone` if a new file is where a folder is, or below a file."""
    above = {path[:at] for path in added for at, letter in enumerate(path) if letter == "/"}
    files = {*added, *(row.path for row in _current(connection, workspace, above))}
    check_clash(added, files)
    for some in _batch(path for path in added if path not in above):
        below = or_(*(and_(_files.path > f"{path}/", _files.path < f"{path}0") for path in some))
        inner = select(_files.path).where(_files.workspace_id == workspace, _there, below).limit(1)
        if (found := connection.execute(inner).scalar()) is not None:
            raise NotDone(f"there is a folder with this name, which has {found}")


def _put_blobs(
    connection: Connection, tenant: str, blobs: Mapping[str, Blob], check: Callable[[Connection, int], None]
) -> None:
    """Keep contents. Those that are there are spared again."""
    size = sum(len(one.content) for one in blobs.values())
    for some in _batch(blobs):
        sizes = select(func.sum(func.length(_blobs.content))).where(_blobs.tenant == tenant, _blobs.id.in_(some))
        size -= connection.execute(sizes).scalar() or 0
    if size > 0:
        check(connection, size)
    now = int(CLOCK.now())
    for one in sorted(blobs):  # in one order, so that none waits for another in a circle
        values = {"tenant": tenant, "id": one, "created_at": now, "content": blobs[one].content}
        statement = _INSERT[connection.dialect.name](workspace_blobs).values(values)
        again = {"index_elements": ["tenant", "id"], "set_": {"created_at": now}}
        connection.execute(statement.on_conflict_do_update(**again))


def _describe(version: int, now: Mapping[str, int], before: Mapping[str, int]) -> WorkspaceChange:
    changed = sorted({*now, *before})
    return WorkspaceChange(version, tuple(ChangedFile(path, now.get(path), before.get(path)) for path in changed))
