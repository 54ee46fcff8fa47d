"""The chain of the audit log: the SHA-256 of each entry covers that of the former one.

An entry is sealed after it was written: at once on SQLite, which has one writer, and by the leader within a second or
so on PostgreSQL, where a chain that every writer continued would make all of them wait for each other. What is not
sealed yet may have been changed unnoticed; `verify_chain` says how many entries that are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, Text, func, select, type_coerce, update

from .advisory_lock import SEALING, lock_until_end
from .quota_tables import audit_entries

_COLUMNS = audit_entries.c
_COVERED = ("tenant", "id", "created_at", "actor", "action", "target", "detail", "request_id", "address")
_FIRST = "0" * 64
_AT_ONCE = 1_000
_OUT_OF_ORDER = 60  # seconds by which writers on PostgreSQL may commit in another order than they got their numbers in


class ChainCheck(NamedTuple):
    """What `verify_chain` found: how many entries it checked, the place and hash of the last, how many are not sealed
    yet, and, if something does not fit, where and what."""

    checked: int
    place: int
    head: str
    unsealed: int
    problem: str = ""


def seal(connection: Connection) -> int:
    """Continue the chain with the entries that are not sealed, in the order in which they are found. Return their
    number."""
    lock_until_end(connection, SEALING)
    open_ones = select(audit_entries).where(_COLUMNS.place.is_(None)).order_by(_COLUMNS.number).limit(_AT_ONCE)
    rows = connection.execute(open_ones).all()
    if not rows:
        return 0
    last = select(_COLUMNS.place, _COLUMNS.hash).where(_COLUMNS.place.is_not(None)).order_by(_COLUMNS.place.desc())
    found = connection.execute(last.limit(1)).first()
    place, former = (0, _FIRST) if found is None else (int(found.place), str(found.hash))
    for row in rows:
        place, sealed = place + 1, _hash(row, place + 1, former)
        values = {"place": place, "former": former, "hash": sealed}
        connection.execute(update(audit_entries).where(_COLUMNS.number == row.number).values(values))
        former = sealed
    return len(rows)


def has_unsealed(connection: Connection) -> bool:
    """Whether entries wait to be sealed."""
    return connection.execute(select(_COLUMNS.number).where(_COLUMNS.place.is_(None)).limit(1)).first() is not None


def verify_chain(connection: Connection, known: tuple[int, str] | None = None) -> ChainCheck:
    """Check every entry against its hash, and each against the former one. `known` is the place and the hash of an
    entry that was noted elsewhere: it must be there as it was, unless it was pruned."""
    checked, place, head, pruned = 0, 0, _FIRST, 0
    waiting = select(func.count()).where(_COLUMNS.place.is_(None))
    sealed_at_once = connection.dialect.name == "sqlite"
    unsealed = connection.execute(waiting.select_from(audit_entries)).scalar() or 0
    began = latest = written = 0
    for row in _sealed(connection):
        problem = _problem(row, place, head, first=not checked)
        if not problem and row.number < latest and (sealed_at_once or row.created_at > written + _OUT_OF_ORDER):
            problem = f"entry {row.place} ({row.id}) stands before one that was written earlier"
        latest, written = max(latest, row.number), row.created_at
        if not problem and known is not None and row.place == known[0] and row.hash != known[1]:
            problem = f"entry {row.place} ({row.id}) is not the one that was noted: its hash is {row.hash}"
        if problem:
            return ChainCheck(checked, place, head, unsealed, problem)
        began = began or row.place
        if row.action == "audit.pruned" and row.target.isdecimal():
            pruned = max(pruned, int(row.target))
        checked, place, head = checked + 1, row.place, row.hash
    problem = ""
    if began > 1 and pruned != began - 1:
        problem = f"the log begins with entry {began}, and no entry says that those before it were pruned"
    elif known is not None and known[0] > place:
        problem = f"the log ends with entry {place}, and entry {known[0]}, which was noted, is missing"
    return ChainCheck(checked, place, head, unsealed, problem)


def _sealed(connection: Connection) -> Iterator[Row[Any]]:
    """Yield the sealed entries; their details as SQLite has them, which may be anything."""
    raw = connection.dialect.name == "sqlite"
    columns = [type_coerce(one, Text) if raw and one is _COLUMNS.detail else one for one in audit_entries.c]
    after = 0
    while True:
        query = select(*columns).where(_COLUMNS.place > after).order_by(_COLUMNS.place).limit(_AT_ONCE)
        rows = connection.execute(query).all()
        yield from rows
        if len(rows) < _AT_ONCE:
            return
        after = rows[-1].place


def _problem(row: Row[Any], place: int, head: str, *, first: bool) -> str:
    name = f"entry {row.place} ({row.id})"
    if not first and row.place != place + 1:
        return f"{name} follows entry {place}: what was between them is missing"
    if row.former != (head if not first or row.place == 1 else row.former):
        return f"{name} does not continue entry {place}"
    try:
        fits = row.hash == _hash(row, row.place, row.former)
    except (ValueError, TypeError, RecursionError):  # what is no JSON
        fits = False
    return "" if fits else f"{name} is not what it was when it was written"


def _hash(row: Row[Any], place: int, former: str) -> str:
    values = dict(row._mapping)
    if isinstance(values["detail"], str):
        values["detail"] = json.loads(values["detail"])
    covered = [place, former, *(values[name] for name in _COVERED)]
    return hashlib.sha256(json.dumps(covered, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
