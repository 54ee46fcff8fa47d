"""Counts again what tenants used, from the logs, and mends the sums: after a server of a version that counts nothing
wrote to the database, or rows were restored from a backup."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, or_, select, text

from ..core.events import Observed
from ..core.serialization import load
from ..core.values import Usage
from ..errors import DataError
from .clock import CLOCK
from .processes import is_free
from .quota_tables import storage_used, usage_gaps, usage_sums
from .run_row import ACTIVE
from .tables import (
    assistants,
    conversations,
    events,
    files,
    images,
    items,
    memories,
    messages,
    registered_tools,
    runs,
    threads,
)
from .usage_sums import (
    DAY,
    NOTHING,
    SHARED,
    TEXTS,
    USING,
    Used,
    add_to_sum,
    count_bytes,
    day_of,
    month_begin,
    use_of,
    used_by,
)

_CORRECTIONS = "corrections"  # a part that no process counts in


class UseDifference(NamedTuple):
    """A day of a tenant whose sum is not what its logs say; `has_gap` if logs of it were deleted, so that they cannot
    say it."""

    tenant: str
    day: int
    counted: Used
    logged: Used
    has_gap: bool = False


class BytesDifference(NamedTuple):
    """What a tenant keeps in a table, by its sum and by its rows."""

    tenant: str
    table: str
    counted: int
    kept: int


@contextmanager
def snapshot(connection: Connection) -> Iterator[None]:
    """Let all statements in the block see the database at one moment, while others write."""
    begin = "BEGIN" if connection.dialect.name == "sqlite" else "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    connection.exec_driver_sql(begin)
    try:
        yield
    finally:
        connection.exec_driver_sql("ROLLBACK")


def use_differences(connection: Connection) -> list[UseDifference]:
    """Return the days of this month whose sums differ from the logs."""
    first = month_begin(CLOCK.now())
    sums = (func.sum(usage_sums.c[name]) for name in Used._fields)
    query = select(usage_sums.c.tenant, usage_sums.c.day, *sums).where(usage_sums.c.day >= first)
    rows = connection.execute(query.group_by(usage_sums.c.tenant, usage_sums.c.day))
    counted = {(row[0], row[1]): Used(*map(int, row[2:])) for row in rows}
    logged = _logged(connection, first)
    gaps = {(row[0], row[1]) for row in connection.execute(select(usage_gaps).where(usage_gaps.c.day >= first))}
    found = (
        UseDifference(*key, counted.get(key, NOTHING), logged.get(key, NOTHING), key in gaps)
        for key in sorted({*counted, *logged})
    )
    return [one for one in found if one.counted != one.logged]


def bytes_differences(connection: Connection) -> list[BytesDifference]:
    """Return the sums of stored bytes that differ from the rows."""
    sizes = {"files": (files, files.c.body["bytes"].as_integer()), "images": (images, images.c.bytes)}
    sizes["memories"] = (memories, memories.c.bytes)
    found = _texts_differences(connection)
    for name, (table, size) in sizes.items():
        rows = connection.execute(select(table.c.tenant, func.sum(size)).group_by(table.c.tenant))
        kept = {row[0]: int(row[1] or 0) for row in rows}
        sums = select(storage_used.c.tenant, storage_used.c.bytes).where(storage_used.c.what == name)
        counted = {row[0]: int(row[1]) for row in connection.execute(sums)}
        both = sorted({*kept, *counted})
        found += [BytesDifference(tenant, name, counted.get(tenant, 0), kept.get(tenant, 0)) for tenant in both]
    return [one for one in found if one.counted != one.kept]


def mend(connection: Connection, use: Sequence[UseDifference], stored: Sequence[BytesDifference]) -> None:
    """Add to the sums what they lack, and take away what they have too much. What was counted since the differences
    were found stays counted."""
    for one in use:
        if not one.has_gap:
            add_to_sum(connection, one.tenant, one.day, _CORRECTIONS, one.logged.minus(one.counted))
    tables = {table.name: table for table in (files, images, memories)}
    for kept in stored:
        count_bytes(connection, kept.tenant, tables.get(kept.table, kept.table), kept.kept - kept.counted)


def _texts_differences(connection: Connection) -> list[BytesDifference]:
    """Return the sums of texts that differ: counted are those of all parts."""
    length = "length(CAST({} AS BLOB))" if connection.dialect.name == "sqlite" else "octet_length(CAST({} AS TEXT))"
    bodies = (assistants, threads, messages, conversations, items, registered_tools)
    parts = [f"SELECT tenant, {length.format('body')} AS size FROM {table.name}" for table in bodies]
    imported = (
        "CASE WHEN json_valid(request) THEN coalesce(json_extract(request, '$.imported_from.bytes'), 0) ELSE 0 END"
    )
    of_run = (
        f"{length.format('request')} + {imported}" if connection.dialect.name == "sqlite" else "size_of_run(request)"
    )
    parts.append(f"SELECT tenant, {of_run} FROM runs")
    said = " + ".join(f"coalesce({length.format(f's.{name}')}, 0)" for name in ("decisions", "input", "calls"))
    parts.append(f"SELECT runs.tenant, {said} FROM submissions AS s JOIN runs ON runs.id = s.run_id")
    parts.append("SELECT tenant, length(content) FROM contents WHERE substr(id, 1, 4) <> 'file'")
    rows = connection.execute(text(f"SELECT tenant, sum(size) FROM ({' UNION ALL '.join(parts)}) AS t GROUP BY tenant"))
    kept = {row[0]: int(row[1] or 0) for row in rows}
    counts = select(storage_used.c.tenant, func.sum(storage_used.c.bytes)).group_by(storage_used.c.tenant)
    counted = {row[0]: int(row[1]) for row in connection.execute(counts.where(storage_used.c.what.like(f"{TEXTS}%")))}
    both = sorted({*kept, *counted})
    return [BytesDifference(tenant, TEXTS, counted.get(tenant, 0), kept.get(tenant, 0)) for tenant in both]


def _logged(connection: Connection, first: int) -> dict[tuple[str, int], Used]:
    """Return what runs and their logs say was used on each day from `first` on."""
    since = first * DAY
    found: dict[tuple[str, int], Used] = {}

    def add(tenant: str, at: float, used: Used) -> None:
        key = tenant, day_of(at)
        found[key] = found.get(key, NOTHING).plus(used)

    begun = select(runs.c.tenant, runs.c.created_at).where(
        runs.c.created_at >= since, runs.c.parent_id.is_(None), runs.c.kind != "imported"
    )
    for row in connection.execute(begun):
        add(row.tenant, row.created_at, Used(runs=1))
    for tenant, at, usage in _requests(connection, since):
        add(tenant, at, used_by(usage))
    return {key: used for key, used in found.items() if key[1] >= first}


def _requests(connection: Connection, since: int) -> Iterator[tuple[str, float, Usage]]:
    """Yield what was asked of models: whose, when, and what it used. A fork's first epoch is a copy. What a run under
    way has not counted yet, it will."""
    members = select(runs.c.parent_id, runs.c.call_id).where(runs.c.parent_id.is_not(None))
    calls = {(row[0], row[1]) for row in connection.execute(members)}
    own = or_(runs.c.forked_from.is_(None), events.c.epoch > 1)
    due = or_(runs.c.status.not_in(ACTIVE), events.c.seq <= runs.c.counted)
    wanted = (events.c.at >= since, events.c.kind.in_(USING), runs.c.kind != "imported", own, due)
    columns = events.c.run_id, runs.c.tenant, events.c.at, events.c.kind, events.c.payload
    for row in connection.execute(select(*columns).join(runs, runs.c.id == events.c.run_id).where(*wanted)):
        with suppress(DataError):
            event = load(row.kind, row.payload)
            call = event.observation.call_id if isinstance(event, Observed) else ""
            if (usage := use_of(event, {call} if (row.run_id, call) in calls else set())) is not None:
                yield row.tenant, row.at, usage


def fold_parts(connection: Connection) -> None:
    """Add the sums of processes that have ended to the common ones. Only one process may do so at a time."""
    if connection.dialect.name == "sqlite":
        return
    past = (usage_sums.c.day < day_of(CLOCK.now()), usage_sums.c.part.not_in((SHARED, _CORRECTIONS)))
    ended = delete(usage_sums).where(*past, is_free(usage_sums.c.part, ""))
    rows = connection.execute(ended.returning(*usage_sums.c)).all()
    for row in sorted(rows, key=lambda one: (one.tenant, one.day)):
        add_to_sum(connection, row.tenant, row.day, SHARED, Used(row.runs, row.tokens, row.cost))
