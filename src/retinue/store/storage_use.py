"""How many bytes a tenant has of something: a count, kept by the transactions that add rows and delete them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from sqlalchemy import ColumnElement, Connection, Table, bindparam, delete, func, select, update

from .prepared_statements import Prepared, insert_once
from .quota_tables import storage_used

TEXTS = "texts"
_TEXTS = Prepared(
    select(func.sum(storage_used.c.bytes)).where(
        storage_used.c.tenant == bindparam("of"), storage_used.c.what >= TEXTS, storage_used.c.what < f"{TEXTS}~"
    )
)


def bytes_used(connection: Connection, tenant: str, table: Table) -> int:
    """Return the bytes of all of a tenant's rows in `table`, whose use is counted."""
    return connection.execute(select(storage_used.c.bytes).where(*_count(tenant, table))).scalar() or 0


def texts_kept(connection: Connection, tenant: str) -> int:
    """Return the bytes of the texts that clients of a tenant wrote: runs' requests, imported logs, threads, messages,
    items, assistants, tools. Triggers count them, wherever rows are written."""
    return int(_TEXTS.rows(connection, {"of": tenant})[0][0] or 0)


def count_bytes(connection: Connection, tenant: str, table: Table | str, more: int) -> None:
    """Count so many bytes more, or less, of a table or of texts. Call it in the transaction that changes the rows."""
    if not more:
        return
    add = update(storage_used).where(*_count(tenant, table)).values(bytes=storage_used.c.bytes + more)
    first = {"tenant": tenant, "what": str(table), "bytes": more}
    while not connection.execute(add).rowcount:
        if insert_once(connection, storage_used, first):
            return  # else another server has just inserted the first count


def delete_counted(connection: Connection, table: Table, where: Iterable[ColumnElement[bool]]) -> int:
    """Delete the rows of `table` matching `where`, of whichever tenants, and count them off. Return their number."""
    rows = connection.execute(delete(table).where(*where).returning(table.c.tenant, table.c.bytes)).all()
    freed = Counter[str]()
    for row in rows:
        freed[row.tenant] += row.bytes
    for tenant in sorted(freed):  # in the same order everywhere: none waits for another that waits for it
        count_bytes(connection, tenant, table, -freed[tenant])
    return len(rows)


def _count(tenant: str, table: Table | str) -> tuple[ColumnElement[bool], ...]:
    return storage_used.c.tenant == tenant, storage_used.c.what == str(table)
