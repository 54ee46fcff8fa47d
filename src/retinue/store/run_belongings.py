"""What belongs to a run beside its row and its log: the files it is shown, its conversation, its agent's specification.

**Files** (images, PDFs and sounds) are kept once for each tenant, under the SHA-256 of their bytes. Logs and requests
name them. Whoever keeps one does so before the run that shows it is inserted. One that no run shows is deleted.

**A long conversation** is not in the request, since a row is rewritten as a whole whenever its status changes, and all
other writes wait for that.

**A snapshot** is the specification of the agent with which a run began, stored once per tenant.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from sqlalchemy import Connection, bindparam, delete, exists, insert, literal, select
from sqlalchemy.dialects import postgresql, sqlite

from ..core.values import File
from .clock import CLOCK
from .engines import json_text
from .prepared_statements import Prepared, insert_once
from .run_row import RunRow
from .tables import images, run_images, run_messages, run_texts, run_tools, runs, snapshots

_SPARED = 3_600  # seconds for which an image may wait for its run
_LONG = 50_000  # characters of a conversation
_BESIDE = "messages_beside"
_INSERT: Mapping[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
Snapshot: TypeAlias = tuple[str, Mapping[str, Any]]
"""The hash of an agent's specification, and that as JSON."""
_THERE = Prepared(
    select(snapshots.c.hash)
    .where(snapshots.c.tenant == bindparam("of"), snapshots.c.hash == bindparam("wanted"))
    .with_for_update(read=True, key_share=True)  # nobody deletes it until the run that begins with it is committed
)


def keep_files(connection: Connection, tenant: str, given: Iterable[File]) -> None:
    """Keep the files for a run that is about to be inserted."""
    now = int(CLOCK.now())
    for one in {image.id: image for image in given}.values():
        found = (images.c.tenant == tenant, images.c.id == one.id)
        if not connection.execute(images.update().where(*found).values(created_at=now)).rowcount:  # spared again
            values = {"tenant": tenant, "id": one.id, "created_at": now, "media_type": one.media_type}
            insert_once(connection, images, {**values, "bytes": len(one.data), "content": one.data})


def show_files(connection: Connection, tenant: str, run_id: str, ids: Iterable[str]) -> None:
    """Note that a run is shown these files."""
    there = set(connection.execute(select(run_images.c.image_id).where(run_images.c.run_id == run_id)).scalars())
    for one in sorted(set(ids) - there):
        insert_once(connection, run_images, {"run_id": run_id, "tenant": tenant, "image_id": one})


def sizes_of_files(connection: Connection, tenant: str, ids: Collection[str]) -> Mapping[str, int]:
    """Return the bytes of those of these files that are there, by id."""
    query = select(images.c.id, images.c.bytes).where(images.c.tenant == tenant, images.c.id.in_(ids))
    return {row.id: row.bytes for row in connection.execute(query)}


def data_of_files(connection: Connection, tenant: str, ids: Collection[str]) -> Mapping[str, bytes]:
    """Return what is in those of these files that are there, by id."""
    query = select(images.c.id, images.c.content).where(images.c.tenant == tenant, images.c.id.in_(ids))
    return {row.id: row.content for row in connection.execute(query)}


def files_of_run(connection: Connection, run_id: str) -> Sequence[File]:
    """Return the files that a run is shown."""
    same = (images.c.tenant == run_images.c.tenant) & (images.c.id == run_images.c.image_id)
    query = select(images.c.id, images.c.media_type, images.c.content).join(run_images, same)
    rows = connection.execute(query.where(run_images.c.run_id == run_id))
    return [File(row.id, row.media_type, data=row.content) for row in rows]


def delete_unused_files(connection: Connection) -> int:
    """Delete the files that no run shows, unless they are new. Return their number."""
    shown = exists().where(run_images.c.tenant == images.c.tenant, run_images.c.image_id == images.c.id)
    late = images.c.created_at < int(CLOCK.now()) - _SPARED
    return connection.execute(delete(images).where(late, ~shown)).rowcount


def shorten_request(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the request to store in a run's row: without its `messages` if they are long (`put_messages`)."""
    said: Sequence[Mapping[str, Any]] = request.get("messages") or ()
    if sum(len(one["content"]) for one in said) <= _LONG:
        return request
    return {name: value for name, value in request.items() if name != "messages"} | {_BESIDE: True}


def put_messages(connection: Connection, run: RunRow, said: Sequence[Mapping[str, Any]]) -> None:
    """Store the messages of a run that was inserted without them."""
    values = {"tenant": run.tenant, "run_id": run.id, "content": json_text(said).encode()}
    connection.execute(insert(run_messages).values(values))


def is_beside(run: RunRow) -> bool:
    """Whether the `messages` of the run's request are stored in a separate table."""
    return bool(run.request.get(_BESIDE))


def conversation_of(connection: Connection, run: RunRow) -> list[Mapping[str, Any]] | None:
    """Return the `messages` of the run's request, wherever they are stored; `None` if it has none."""
    if not is_beside(run):
        return run.request.get("messages")
    query = select(run_messages.c.content).where(run_messages.c.run_id == run.id, run_messages.c.tenant == run.tenant)
    found: list[Mapping[str, Any]] = json.loads(connection.execute(query).scalar_one())
    return found


def copy_belongings(connection: Connection, run_id: str, to: str) -> None:
    """Give the run `to` the files, the tools, the long conversation and the texts that belong to a run."""
    for table in (run_images, run_tools, run_messages, run_texts):
        others = [column for column in table.c if column.name != "run_id"]
        found = select(literal(to), *others).where(table.c.run_id == run_id)
        connection.execute(insert(table).from_select(["run_id", *(column.name for column in others)], found))


class SnapshotWriter:
    """Stores the snapshots with which runs begin; `snapshot_of` gives that of a run's agent, if there is one."""

    def __init__(self, snapshot_of: Callable[[RunRow], Snapshot | None] = lambda run: None) -> None:
        self._snapshot_of = snapshot_of

    def write(self, connection: Connection, run: RunRow) -> str | None:
        """Store the snapshot of a run that begins now, unless it is there. Return its hash."""
        snapshot = self._snapshot_of(run)
        if snapshot is None:
            return None
        digest, body = snapshot
        if not _THERE.rows(connection, {"of": run.tenant, "wanted": digest}):
            statement = _INSERT[connection.dialect.name](snapshots)
            values = {"tenant": run.tenant, "hash": digest, "body": body}
            connection.execute(statement.values(values).on_conflict_do_nothing())
        return digest


def find_snapshot(connection: Connection, run: RunRow) -> Mapping[str, Any] | None:
    """Return the specification with which a run began; `None` if none was stored. It may hold anything if somebody else
    wrote it."""
    wanted = (snapshots.c.tenant == run.tenant, snapshots.c.hash == run.snapshot)
    body: Mapping[str, Any] | None = connection.execute(select(snapshots.c.body).where(*wanted)).scalar()
    return body


def delete_unused_snapshots(connection: Connection) -> None:
    """Delete the snapshots with which no run began that is still there."""
    began = exists().where(runs.c.tenant == snapshots.c.tenant, runs.c.snapshot == snapshots.c.hash)
    wait = select(snapshots.c.hash).where(~began).with_for_update()  # for runs that begin with one just now
    if connection.execute(wait).first() is not None:
        connection.execute(delete(snapshots).where(~began))
