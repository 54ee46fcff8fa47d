"""What a run's workspace has before the run begins: the files of the response that it goes on from, and what its user
uploaded, under `uploads/`: files that messages of its thread have or name, or the input of its request."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from sqlalchemy import Connection

from ...core.files import decode_data_url
from ...errors import DataError
from ...runs.stored_workspace import StoredWorkspace
from ...store import workspaces
from ...store.database import Database
from ...store.run_queries import find_run
from ...store.run_row import RunRow
from ...store.tables import contents, files
from ...store.tenant_view import Quota, TenantView
from ...store.thread_messages import messages_on
from .message_files import FileSource, files_in

_STRANGE = re.compile(r"[^\w .()+,=@#~-]|^\.+")


async def prepare_workspace(database: Database, run: RunRow, quota: Quota) -> None:
    """Give a run that begins its files, once. Raises `WorkspaceError` if they are more than the tenant may keep."""
    if run.request.get("continues"):
        await database.write(partial(_go_on, run=run))
    workspace = StoredWorkspace(database, run, quota)
    uploads = await database.read(partial(_find_uploads, run=run))
    there = {one.path for one in await workspace.list_files()} if uploads else set()
    for key, source in uploads.items():
        name, content = await database.read(partial(_read_upload, run=run, source=source))
        if content is not None:
            stem, dot, ending = _STRANGE.sub("_", name)[-200:].rpartition(".")
            names = (f"uploads/{stem}{f'-{n}' if n else ''}{dot}{ending}" for n in range(len(there) + 1))
            path = next(name for name in names if name not in there)
            there.add(path)
            await workspace.change_files({path: content}, key)


def _go_on(connection: Connection, run: RunRow) -> None:
    before = find_run(connection, run.request["continues"])
    if before is not None and before.tenant == run.tenant:
        source = workspaces.place_of(connection, before).id
        workspaces.copy_version(connection, source, workspaces.find_version(connection, source), run, history=False)


def _find_uploads(connection: Connection, run: RunRow) -> dict[str, FileSource]:
    """Return the uploads that the run's workspace has not got yet, by the keys under which they come into it once."""
    workspace, found = workspaces.place_of(connection, run).id, dict[str, FileSource]()
    for source in _list_sources(connection, run):
        key = f"upload/{source.file_id or hashlib.sha256(source.url.encode()).hexdigest()}"
        if key not in found and workspaces.find_change(connection, workspace, key) is None:
            found[key] = source
    return found


def _read_upload(connection: Connection, run: RunRow, source: FileSource) -> tuple[str, bytes | None]:
    """Return the name and the content of an upload; `None` of one that cannot be had, of which the model is told."""
    scope = TenantView(run.tenant, user=run.user)
    if source.file_id:
        row, kept = (scope.find(connection, table, source.file_id) for table in (files, contents))
        return ("", None) if row is None or kept is None else (row.body["filename"], bytes(kept.content))
    with suppress(DataError):
        return source.name or f"file-{hashlib.sha256(source.url.encode()).hexdigest()[:8]}", decode_data_url(source.url)
    return "", None


def _list_sources(connection: Connection, run: RunRow) -> Iterator[FileSource]:
    said: list[Mapping[str, Any]] = [one for one in run.request.get("input") or () if isinstance(one, Mapping)]
    if run.thread_id is not None:
        said += [body for _, body in messages_on(connection, run.thread_id)]
    for one in said:
        if one.get("role") == "user":
            yield from (source for _, source in files_in(one.get("content")))
            for attached in one.get("attachments") or ():
                yield FileSource("", str(attached.get("file_id") or ""), "auto")
