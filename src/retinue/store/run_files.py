"""The files (images, PDFs and sounds) that runs are shown: once for each tenant, under the SHA-256 of their bytes.

Logs and requests name them. Whoever keeps one inserts it before the run that shows it; one that no run shows any more
is deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from sqlalchemy import Connection, exists, select

from ..core.values import File
from .clock import CLOCK
from .prepared_statements import insert_once
from .tables import images, run_images
from .usage_sums import count_bytes, delete_counted

_SPARED = 3_600  # seconds for which an image may wait for its run


def keep_files(connection: Connection, tenant: str, given: Iterable[File]) -> None:
    """Keep the files for a run that is about to be inserted."""
    now, new = int(CLOCK.now()), 0
    for one in {image.id: image for image in given}.values():
        found = (images.c.tenant == tenant, images.c.id == one.id)
        if connection.execute(images.update().where(*found).values(created_at=now)).rowcount:
            continue  # and spared again
        values = {"tenant": tenant, "id": one.id, "created_at": now, "media_type": one.media_type}
        if insert_once(connection, images, {**values, "bytes": len(one.data), "content": one.data}):
            new += len(one.data)
    count_bytes(connection, tenant, images, new)


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
    return delete_counted(connection, images, (late, ~shown))
