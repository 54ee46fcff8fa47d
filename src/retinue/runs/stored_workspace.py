"""The workspace of a kept run, in the database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection

from .._internal.concurrency import run_in_thread
from ..core.workspace import WorkspaceChange, WorkspaceError, WorkspaceFile, normalize_changes, normalize_path
from ..limits import LimitReached
from ..limits.quotas import check_workspace
from ..store import workspaces
from ..store.database import Database
from ..store.event_log import Fenced, lock_holder
from ..store.run_row import RunRow
from ..store.tenant_view import Quota, TenantView

T = TypeVar("T")


@dataclass(frozen=True, slots=True, weakref_slot=True)
class StoredWorkspace:
    """The files that `run` works with, as `Workspace` documents it. A tenant keeps at most its `quota` of them.

    Methods raise `StoreUnavailable`; a change raises `Fenced` if another drive has the run by now, as the one that
    acquired `run`."""

    database: Database
    run: RunRow
    quota: Quota | None = None

    async def list_files(self, version: int | None = None) -> Sequence[WorkspaceFile]:
        """Return the files of a version, sorted. Raises `WorkspaceError` if it is not there."""
        return await self._read(workspaces.list_files, version=version)

    async def read_files(self, paths: Iterable[str], version: int | None = None) -> Mapping[str, bytes]:
        """Return the contents of files by their paths, without those that are not there."""
        wanted = list(map(normalize_path, paths))
        kept = await self._read(workspaces.read_files, paths=wanted, version=version)
        return await run_in_thread(partial(workspaces.unpack, kept))

    async def read_file(self, path: str, version: int | None = None) -> bytes:
        """Return the content of a file. Raises `WorkspaceError` if there is none."""
        for content in (await self.read_files([path], version)).values():
            return content
        raise WorkspaceError(f"there is no file {path[:200]}")

    async def find_change(self, key: str) -> WorkspaceChange | None:
        """Return the change that was made under this key."""
        return await self._read(workspaces.find_change, key=key)

    async def change_files(self, changes: Mapping[str, bytes | None], key: str) -> WorkspaceChange:
        """Write and remove files as one new version, once."""
        wanted = normalize_changes(changes)
        packed = await run_in_thread(partial(workspaces.pack, wanted))
        return await self.database.write(partial(self._change, packed=packed, key=key))

    async def _read(self, work: Callable[..., T], **values: Any) -> T:
        def read(connection: Connection) -> T:
            return work(connection, workspaces.place_of(connection, self.run).id, **values)

        return await self.database.read(read)

    def _change(
        self, connection: Connection, packed: Mapping[str, workspaces.Blob | None], key: str
    ) -> WorkspaceChange:
        if not lock_holder(connection, self.run):
            raise Fenced(self.run.id)
        view = TenantView(self.run.tenant, quota=self.quota)

        def check(connection: Connection, size: int) -> None:
            try:
                check_workspace(connection, view, size)
            except LimitReached as error:
                raise WorkspaceError(f"nothing is written: {error}") from error

        return workspaces.change_files(connection, self.run, packed, key, check)
