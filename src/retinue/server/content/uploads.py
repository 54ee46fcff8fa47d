"""What a run's workspace has before the run begins: the files of the response that it goes on from, and what its user
uploaded, under `uploads/`: files that messages of its thread have or name, or the input of its request."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

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


class _Upload(NamedTuple):
    """A file, and the key under which it comes into a workspace once."""

    key: str
    name: str
    content: bytes


async def prepare_workspace(database: Database, run: RunRow, quota: Quota) -> None:
    """Give a run that begins its files, once. Raises `WorkspaceError` if they are more than the tenant may keep."""
    if run.request.get("continues"):
        await database.write(partial(_go_on, run=run))
    workspace = StoredWorkspace(database, run, quota)
    uploads = await database.read(partial(_find_uploads, run=run))
    there = {one.path for one in await workspace.list_files()} if uploads else set()
    for one in uploads:
        stem, dot, ending = _STRANGE.sub("_", one.name)[-200:].rpartition(".")
        names = (f"uploads/{stem}{f'-{n}' if n else ''}{dot}{ending}" for n in range(len(there) + 1))
        path = next(name for name in names if name not in there)
        there.add(path)
        await workspace.change_files({path: one.content}, one.key)


def _go_on(connection: Connection, run: RunRow) -> None:
    before = find_run(connection, run.request["continues"])
    if before is not None and before.tenant == run.tenant:
        source = workspaces.place_of(connection, before).id
        workspaces.copy_version(connection, source, workspaces.find_version(connection, source), run, history=False)


def _find_uploads(connection: Connection, run: RunRow) -> list[_Upload]:
    """Return the uploads that the run's workspace has not got yet."""
    workspace, scope = workspaces.place_of(connection, run).id, TenantView(run.tenant, user=run.user)
    found: dict[str, _Upload] = {}
    for source in _list_sources(connection, run):
        key = f"upload/{source.file_id or hashlib.sha256(source.url.encode()).hexdigest()}"
        if key in found or workspaces.find_change(connection, workspace, key) is not None:
            continue
        if source.file_id:
            row, kept = (scope.find(connection, table, source.file_id) for table in (files, contents))
            if row is not None and kept is not None:
                found[key] = _Upload(key, row.body["filename"], bytes(kept.content))
        elif source.url[:5].lower() == "data:":
            with suppress(DataError):  # the client was told, or the model is
                found[key] = _Upload(key, source.name or f"file-{key[7:15]}", decode_data_url(source.url))
    return list(found.values())


def _list_sources(connection: Connection, run: RunRow) -> Iterator[FileSource]:
    said: list[Mapping[str, Any]] = [one for one in run.request.get("input") or () if isinstance(one, Mapping)]
    if run.thread_id is not None:
        said += [body for _, body in messages_on(connection, run.thread_id)]
    for one in said:
        if one.get("role") == "user":
            yield from (source for _, source in files_in(one.get("content")))
            for attached in one.get("attachments") or ():
                yield FileSource("", str(attached.get("file_id") or ""), "auto")
