"""What tenants used and keep, counted anew from logs and rows: the sums of the server have to say the same."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from sqlalchemy import Connection, func, or_, select

from retinue.core.events import Observed
from retinue.core.serialization import load
from retinue.core.values import Usage
from retinue.errors import DataError
from retinue.store import tables
from retinue.store.run_row import ACTIVE
from retinue.store.tables import events, runs, storage_used, usage_sums
from retinue.store.usage_sums import DAY, NOTHING, USING, Used, day_of, use_of, used_by

_BODIES = ("assistants", "threads", "messages", "conversations", "items", "registered_tools")


def use_differences(connection: Connection) -> list[tuple[Any, ...]]:
    """Return the days of tenants whose sums differ from the logs, with both."""
    sums = (func.sum(usage_sums.c[name]) for name in Used._fields)
    rows = connection.execute(
        select(usage_sums.c.tenant, usage_sums.c.day, *sums).group_by(usage_sums.c.tenant, usage_sums.c.day)
    )
    counted = {(row[0], row[1]): Used(*map(int, row[2:])) for row in rows}
    logged: dict[tuple[str, int], Used] = {}
    begun = select(runs.c.tenant, runs.c.created_at).where(runs.c.parent_id.is_(None), runs.c.kind != "imported")
    used = [(row.tenant, row.created_at, Used(runs=1)) for row in connection.execute(begun)]
    used += [(tenant, at, used_by(usage)) for tenant, at, usage in _requests(connection)]
    for tenant, at, more in used:
        key = tenant, int(at // DAY)
        assert key[1] == day_of(at)
        logged[key] = logged.get(key, NOTHING).plus(more)
    both = [(*key, counted.get(key, NOTHING), logged.get(key, NOTHING)) for key in sorted({*counted, *logged})]
    return [one for one in both if one[2] != one[3]]


def _requests(connection: Connection) -> Iterator[tuple[str, float, Usage]]:
    """What was asked of models, and when. A fork's first epoch is a copy, and what goes on is counted later."""
    members = select(runs.c.parent_id, runs.c.call_id).where(runs.c.parent_id.is_not(None))
    calls = {(row[0], row[1]) for row in connection.execute(members)}
    own = or_(runs.c.forked_from.is_(None), events.c.epoch > 1)
    due = or_(runs.c.status.not_in(ACTIVE), events.c.seq <= runs.c.counted)
    wanted = (events.c.kind.in_(USING), runs.c.kind != "imported", own, due)
    columns = events.c.run_id, runs.c.tenant, events.c.at, events.c.kind, events.c.payload
    for row in connection.execute(select(*columns).join(runs, runs.c.id == events.c.run_id).where(*wanted)):
        with suppress(DataError):
            event = load(row.kind, row.payload)
            call = event.observation.call_id if isinstance(event, Observed) else ""
            if (usage := use_of(event, {call} if (row.run_id, call) in calls else set())) is not None:
                yield row.tenant, row.at, usage


def bytes_differences(connection: Connection) -> list[tuple[Any, ...]]:
    """Return the tenants and kinds of what they keep whose sums differ from the rows, with both."""
    kept: Counter[tuple[str, str]] = Counter()
    for name in _BODIES:
        _count(connection, kept, f"SELECT tenant, body FROM {name}")
    _count(connection, kept, "SELECT tenant, content FROM run_messages")
    _count(connection, kept, "SELECT tenant, decisions, input, calls FROM submissions")
    _count(connection, kept, "SELECT tenant, request FROM runs")
    for tenant, request in connection.execute(select(runs.c.tenant, runs.c.request)):
        kept[tenant, "texts"] += request.get("imported_from", {}).get("bytes", 0)
    for what, table, size in (
        ("files", tables.contents, func.length(tables.contents.c.content)),
        ("images", tables.images, tables.images.c.bytes),
        ("memories", tables.memories, tables.memories.c.bytes),
        ("workspaces", tables.workspace_blobs, func.length(tables.workspace_blobs.c.content)),
    ):
        for tenant, number in connection.execute(select(table.c.tenant, size)):
            kept[tenant, what] += number
    sums = select(storage_used.c.tenant, storage_used.c.what, func.sum(storage_used.c.bytes))
    rows = connection.execute(sums.group_by(storage_used.c.tenant, storage_used.c.what))
    counted = {(row[0], row[1]): int(row[2]) for row in rows}
    both = [(*key, counted.get(key, 0), kept[key]) for key in sorted({*counted, *kept})]
    return [one for one in both if one[2] != one[3]]


def _count(connection: Connection, kept: Counter[tuple[str, str]], query: str) -> None:
    for tenant, *texts in connection.exec_driver_sql(query):
        kept[tenant, "texts"] += sum(map(_size, texts))


def _size(text: Any) -> int:
    """The bytes of a text; of JSON that a driver has read, as it was written."""
    if text is None:
        return 0
    if isinstance(text, bytes):
        return len(text)
    return len((text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)).encode())
