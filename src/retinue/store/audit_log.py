"""The audit log: who did what, and when. An entry is written by the transaction that does what it says.

It has ids, names and numbers, and no text of prompts, questions or answers. Entries are chained by their hashes
(`audit_chain`), so one that is changed or removed later is noticed.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Row, delete, insert, select

from .audit_author import Author
from .audit_chain import seal
from .quota_tables import audit_entries

Action = Literal[
    "key.made",
    "key.revoked",
    "call.approve",
    "call.edit",
    "call.reject",
    "call.respond",
    "run.cancelled",
    "run.forked",
    "run.continued",
    "run.exported",
    "run.imported",
    "tool.registered",
    "tool.removed",
    "memory.deleted",
    "file.deleted",
    "quota.set",
    "quota.removed",
    "quota.recounted",
    "database.migrated",
    "database.backed_up",
    "database.restored",
    "audit.pruned",
]
OPERATOR = ""
"""The tenant of acts that concern the whole database."""
_COLUMNS = audit_entries.c


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which entries a list has: of a tenant, since a time in Unix seconds, and of an action, or of a kind of them
    (`run`: all that begin with `run.`); what is `None` excludes nothing."""

    tenant: str | None = None
    since: int | None = None
    action: str | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        """Return the conditions of a query."""
        found: list[ColumnElement[bool]] = []
        if self.tenant is not None:
            found.append(_COLUMNS.tenant == self.tenant)
        if self.since is not None:
            found.append(_COLUMNS.created_at >= self.since)
        if self.action is not None:
            kind = _COLUMNS.action.startswith(f"{self.action}.", autoescape=True)
            found.append((_COLUMNS.action == self.action) | kind)
        return found


def record(
    connection: Connection, author: Author, tenant: str, action: Action, target: str, detail: Mapping[str, Any] = {}
) -> None:
    """Write an entry: `author` did `action` to `target`, an id or a name, of `tenant`. Call it in the transaction that
    does so. `detail` is small JSON of whole numbers and strings."""
    values = {
        "tenant": tenant,
        "id": f"audit_{secrets.token_hex(12)}",
        "created_at": int(time.time()),
        "actor": author.name,
        "action": action,
        "target": target[:256],
        "detail": dict(detail),
        "request_id": author.request_id,
        "address": author.address,
    }
    connection.execute(insert(audit_entries).values(values))
    if connection.dialect.name == "sqlite":  # which has one writer; elsewhere the leader seals
        seal(connection)


def entries(connection: Connection, wanted: AuditFilter, most: int) -> Sequence[Row[Any]]:
    """Return the newest entries, newest first."""
    query = select(audit_entries).where(*wanted.conditions()).order_by(_COLUMNS.number.desc()).limit(most)
    return connection.execute(query).all()


def prune(connection: Connection, author: Author, before: int) -> int:
    """Delete the sealed entries up to the last one that is older than `before`, in Unix seconds, and record that.
    Return their number."""
    seal(connection)
    older = select(_COLUMNS.place).where(_COLUMNS.created_at < before, _COLUMNS.place.is_not(None))
    kept = select(_COLUMNS.place).where(_COLUMNS.created_at >= before, _COLUMNS.place.is_not(None))
    first_kept = connection.execute(kept.order_by(_COLUMNS.place).limit(1)).scalar()
    last = connection.execute(older.order_by(_COLUMNS.place.desc()).limit(1)).scalar()
    if first_kept is not None:
        last = None if last is None else min(last, first_kept - 1)
    if not last:
        return 0
    gone = connection.execute(delete(audit_entries).where(_COLUMNS.place <= last)).rowcount
    if gone:
        record(connection, author, OPERATOR, "audit.pruned", str(last), {"entries": gone})
        seal(connection)
    return gone
