"""How many bytes a tenant keeps of something: triggers count them (`schema`), wherever rows are written or deleted."""

from __future__ import annotations

from typing import Literal

from sqlalchemy import Connection, bindparam, func, select, text

from .prepared_statements import Prepared
from .tables import storage_used

Stored = Literal["texts", "files", "images", "memories"]
"""What is counted. Texts are what clients wrote: runs' requests, imported logs, threads, messages, items, assistants,
tools."""
_OF_TENANT = storage_used.c.tenant == bindparam("of")
_SUM = select(func.sum(storage_used.c.bytes)).where(_OF_TENANT)
_ALL, _OF_A_KIND = Prepared(_SUM), Prepared(_SUM.where(storage_used.c.what == bindparam("kind")))
_FOLD = text("""
    WITH ended AS (
        DELETE FROM storage_used WHERE part <> 0 AND part NOT IN (SELECT pid FROM pg_stat_activity) RETURNING *
    )
    INSERT INTO storage_used SELECT tenant, what, 0, sum(bytes) FROM ended GROUP BY tenant, what ORDER BY tenant, what
    ON CONFLICT (tenant, what, part) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes
""")


def bytes_used(connection: Connection, tenant: str, what: Stored) -> int:
    """Return the bytes that a tenant keeps of `what`."""
    return int(_OF_A_KIND.rows(connection, {"of": tenant, "kind": what})[0][0] or 0)


def bytes_kept(connection: Connection, tenant: str) -> int:
    """Return the bytes of files, images, memories and texts that a tenant keeps."""
    return int(_ALL.rows(connection, {"of": tenant})[0][0] or 0)


def fold_sessions(connection: Connection) -> None:
    """Add what sessions counted that have ended to the common part, so that there are few parts to add up."""
    if connection.dialect.name == "postgresql":
        connection.execute(_FOLD)
