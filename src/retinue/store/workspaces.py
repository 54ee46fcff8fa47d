"""Workspaces in the database: the versions of files that a thread, a conversation or a run without one works with.

A file's row says from which version on it is there, and until which. So a change writes what it changes, the newest
files are found by an index however long the history is, and any version can be listed. Contents are kept once for each
tenant, under the SHA-256 of their bytes; what no file has is deleted, unless it is new.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, case, delete, exists, func, insert, literal, or_, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite

from ..core.workspace import MOST_FILES, ChangedFile, WorkspaceChange, WorkspaceError, WorkspaceFile
from ..errors import DataError
from .clock import CLOCK
from .prepared_statements import Prepared, insert_once
from .run_row import RunRow
from .tables import conversations, runs, threads, workspace_blobs, workspace_files, workspace_versions, workspaces

_SPARED = 3_600  # seconds for which a content may wait for its file
_INSERT: Mapping[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
_files, _blobs, _versions = workspace_files.c, workspace_blobs.c, workspace_versions.c
_there = _files.until.is_(None)
_BELOW = Prepared(
    select(_files.path)
    .where(_files.workspace_id == bindparam("of"), _there, _files.path > bindparam("a"), _files.path < bindparam("b"))
    .limit(1)
)


class Blob(NamedTuple):
    """A content: its id, its size, and its bytes as they are kept."""

    id: str
    size: int
    content: bytes


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
    """Return the files of a version, sorted. Raises `WorkspaceError` if it is not there."""
    query = select(_files.path, _files.size, _files.version).where(*_in_version(connection, workspace, version))
    return sorted(WorkspaceFile(*row) for row in connection.execute(query))


def read_files(
    connection: Connection, workspace: str, paths: Iterable[str], version: int | None = None
) -> dict[str, bytes]:
    """Return the contents of these files as they are kept (`unpack`), as far as they are there. Raises as
    `list_files`."""
    same = (_blobs.tenant == _files.tenant) & (_blobs.id == _files.blob_id)
    where = (*_in_version(connection, workspace, version), _files.path.in_(list(paths)))
    query = select(_files.path, _blobs.content).join(workspace_blobs, same).where(*where)
    return {path: content for path, content in connection.execute(query)}  # noqa: C416 -- a row is no pair to mypy


def pack(changes: Mapping[str, bytes | None]) -> dict[str, Blob | None]:
    """Return contents as they are kept."""
    return {
        path: one if one is None else Blob(hashlib.sha256(one).hexdigest(), len(one), zlib.compress(one, 1))
        for path, one in changes.items()
    }


def unpack(kept: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return contents that `read_files` returned as they were. Raises `DataError` for what nobody here wrote."""
    try:
        return {path: zlib.decompress(content) for path, content in kept.items()}
    except (zlib.error, TypeError) as error:
        raise DataError(f"the content of a file in the database cannot be read: {error}") from error


def find_version(connection: Connection, workspace: str, at: float | None = None) -> int:
    """Return the newest version, or that at a time in Unix seconds; 0 if there is none."""
    query = select(func.max(_versions.version)).where(_versions.workspace_id == workspace)
    return connection.execute(query if at is None else query.where(_versions.at <= at)).scalar() or 0


def find_change(connection: Connection, workspace: str, key: str) -> WorkspaceChange | None:
    """Return the change that was made under a key."""
    query = select(_versions.version).where(_versions.workspace_id == workspace, _versions.key == key)
    if (version := connection.execute(query).scalar()) is None:
        return None
    both = or_(_files.version == version, _files.until == version)
    rows = connection.execute(
        select(_files.path, _files.version, _files.size).where(_files.workspace_id == workspace, both)
    )
    now, before = dict[str, int](), dict[str, int]()
    for path, since, size in rows:
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
    workspace = _lock(connection, run)
    if (done := find_change(connection, workspace, key)) is not None:
        return done
    there = _current(connection, workspace, changes)
    kept = {path: row.blob_id for path, row in there.items()}
    new = {path: blob for path, blob in changes.items() if blob and kept.get(path) != blob.id}
    ended = {path: row.size for path, row in there.items() if path in new or changes[path] is None}
    version = find_version(connection, workspace) + 1
    mine = (_files.workspace_id == workspace, _there, _files.path.in_(list(ended)))
    connection.execute(update(workspace_files).where(*mine).values(until=version))
    _check_added(connection, workspace, [path for path in new if path not in there])
    _put_blobs(connection, run.tenant, {blob.id: blob for blob in new.values()}, check)
    if new:
        same = {"workspace_id": workspace, "version": version, "tenant": run.tenant}
        rows = [{**same, "path": path, "blob_id": blob.id, "size": blob.size} for path, blob in new.items()]
        connection.execute(insert(workspace_files), rows)
    noted = {"workspace_id": workspace, "version": version, "key": key, "at": CLOCK.now()}
    connection.execute(insert(workspace_versions).values(noted))
    return _describe(version, {path: blob.size for path, blob in new.items()}, ended)


def copy_version(connection: Connection, source: str, version: int, run: RunRow, *, history: bool) -> None:
    """Give a run the files of a version of another workspace, under the same number, unless it has a workspace; with
    `history`, those of the versions before it, too. Later changes of either are not seen in the other."""
    workspace = place_of(connection, run).id
    if not version or workspace == source or find_version(connection, workspace):
        return
    _lock(connection, run)
    last = [] if history else [or_(_there, _files.until > version)]
    until = case((_files.until <= version, _files.until), else_=None)
    first = 0 if history else version
    for table, where, more in (
        (workspace_files, [_files.version <= version, *last], {"until": until}),
        (workspace_versions, [_versions.version.between(first, version)], {}),
    ):
        values = {column.name: column for column in table.c} | {"workspace_id": literal(workspace)} | more
        query = select(*values.values()).where(table.c.workspace_id == source, *where)
        connection.execute(insert(table).from_select(list(values), query))


def find_unused_blobs(connection: Connection, most: int) -> Sequence[Any]:
    """Return the tenants and ids of at most `most` contents that no file has, unless they are new."""
    return connection.execute(select(_blobs.tenant, _blobs.id).where(*_unused()).limit(most)).all()


def delete_blobs(connection: Connection, found: Sequence[Any]) -> None:
    """Delete those of the contents that still no file has."""
    wanted = tuple_(_blobs.tenant, _blobs.id).in_([tuple(one) for one in found])
    connection.execute(delete(workspace_blobs).where(wanted, *_unused()))


def _unused() -> tuple[Any, Any]:
    used = exists().where(_files.tenant == _blobs.tenant, _files.blob_id == _blobs.id)
    return _blobs.created_at < int(CLOCK.now()) - _SPARED, ~used


def _in_version(connection: Connection, workspace: str, version: int | None) -> list[Any]:
    """Return the conditions of the files of a version."""
    if version is None:
        return [_files.workspace_id == workspace, _there]
    query = select(_versions.version).where(_versions.workspace_id == workspace, _versions.version == version)
    if version and connection.execute(query).first() is None:
        raise WorkspaceError(f"the workspace has no version {version}")
    return [_files.workspace_id == workspace, _files.version <= version, or_(_there, _files.until > version)]


def _lock(connection: Connection, run: RunRow) -> str:
    """Return the id of a run's workspace, which is made if it is not there. Nobody else changes it until the
    transaction ends."""
    place = place_of(connection, run)
    query = select(workspaces.c.id).where(workspaces.c.id == place.id).with_for_update()
    if connection.execute(query).first() is None:
        insert_once(connection, workspaces, {"id": place.id, "tenant": run.tenant, place.column: place.id})
        connection.execute(query)
    return place.id


def _current(connection: Connection, workspace: str, paths: Iterable[str]) -> dict[str, Any]:
    mine = (_files.workspace_id == workspace, _there, _files.path.in_(list(paths)))
    rows = connection.execute(select(_files.path, _files.size, _files.blob_id).where(*mine))
    return {row.path: row for row in rows}


def _check_added(connection: Connection, workspace: str, added: Collection[str]) -> None:
    """Raise `WorkspaceError` if there would be too many files, or a new one is where a folder is, or below a file."""
    if not added:
        return
    count = select(func.count()).select_from(workspace_files).where(_files.workspace_id == workspace, _there)
    if (files := (connection.execute(count).scalar() or 0) + len(added)) > MOST_FILES:
        raise WorkspaceError(f"a workspace has at most {MOST_FILES:,} files, and would have {files:,}")
    above = {path[:at] for path in added for at, letter in enumerate(path) if letter == "/"}
    if clash := above & {*added, *_current(connection, workspace, above)}:
        raise WorkspaceError(f"{min(clash)} is a file, and cannot be a folder")
    for path in added:
        if below := _BELOW.rows(connection, {"of": workspace, "a": f"{path}/", "b": f"{path}0"}):
            raise WorkspaceError(f"{path} is a folder, with {below[0][0]}")


def _put_blobs(
    connection: Connection, tenant: str, blobs: Mapping[str, Blob], check: Callable[[Connection, int], None]
) -> None:
    """Keep contents. Those that are there are spared again."""
    if not blobs:
        return
    kept = select(_blobs.id).where(_blobs.tenant == tenant, _blobs.id.in_(list(blobs)))
    there = set(connection.execute(kept).scalars())
    if size := sum(len(one.content) for one in blobs.values() if one.id not in there):
        check(connection, size)
    now = int(CLOCK.now())
    statement = _INSERT[connection.dialect.name](workspace_blobs)
    spared = statement.on_conflict_do_update(index_elements=["tenant", "id"], set_={"created_at": now})
    rows = [{"tenant": tenant, "id": one, "created_at": now, "content": blobs[one].content} for one in sorted(blobs)]
    connection.execute(spared, rows)  # in one order, so that none waits for another in a circle


def _describe(version: int, now: Mapping[str, int], before: Mapping[str, int]) -> WorkspaceChange:
    changed = sorted({*now, *before})
    return WorkspaceChange(version, tuple(ChangedFile(path, now.get(path), before.get(path)) for path in changed))
