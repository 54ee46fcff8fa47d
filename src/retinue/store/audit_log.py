"""The audit log: who did what, and when. An entry is written by the transaction that does what it says.

It has ids, names and numbers, and no text of prompts, questions or answers.
"""

from __future__ import annotations

import getpass
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, delete, insert, select

from .tables import audit_entries

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
    "secret.set",
    "secret.deleted",
    "file.deleted",
    "quota.set",
    "quota.removed",
    "policy.revoked",
    "database.migrated",
    "database.backed_up",
    "database.restored",
    "audit.pruned",
]
OPERATOR = ""
"""The tenant of acts that concern the whole database."""
_COLUMNS = audit_entries.c


class Author(NamedTuple):
    """Who acts: an API key by its id, a user of the operating system (`os:NAME`), or the server itself (`server`); and
    the request by which it came, with the client's address."""

    name: str
    request_id: str | None = None
    address: str | None = None


SERVER = Author("server")


def system_user() -> Author:
    """Return the user of the operating system that runs this process."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # no name, as in a container
        name = str(os.getuid()) if hasattr(os, "getuid") else "unknown"
    return Author(f"os:{name}"[:128])


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


def entries(connection: Connection, wanted: AuditFilter, most: int) -> Sequence[Row[Any]]:
    """Return the newest entries, newest first."""
    query = select(audit_entries).where(*wanted.conditions()).order_by(_COLUMNS.number.desc()).limit(most)
    return connection.execute(query).all()


def old_entries(connection: Connection, most: int, before: int) -> Sequence[int]:
    """Return the numbers of at most `most` entries that are older than `before`, in Unix seconds."""
    old = select(_COLUMNS.number).where(_COLUMNS.created_at < before).order_by(_COLUMNS.created_at)
    return connection.execute(old.limit(most)).scalars().all()


def prune_entries(connection: Connection, numbers: Sequence[int], author: Author) -> None:
    """Delete entries, and record that."""
    connection.execute(delete(audit_entries).where(_COLUMNS.number.in_(numbers)))
    record(connection, author, OPERATOR, "audit.pruned", "", {"entries": len(numbers)})


def prune(connection: Connection, author: Author, before: int) -> int:
    """Delete the entries that are older than `before`, in Unix seconds, and record that. Return their number."""
    gone = connection.execute(delete(audit_entries).where(_COLUMNS.created_at < before)).rowcount
    if gone:
        record(connection, author, OPERATOR, "audit.pruned", "", {"entries": gone})
    return gone
