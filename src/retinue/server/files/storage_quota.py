"""Storage quotas of a tenant, from its `TenantView`. The checks raise `ApiError` (400 or 429). Call them in the
transaction that inserts the rows: what is checked before it is no limit for requests that come together."""

from __future__ import annotations

from sqlalchemy import Connection, Table, func, select

from ...store.advisory_lock import COUNTING, lock_until_end
from ...store.storage_use import bytes_used
from ...store.tables import files, vector_store_files, vector_stores
from ...store.tenant_view import Quota, TenantView
from ..middleware.quota_limits import check_bytes, reached


def room_for_file(connection: Connection, scope: TenantView, size: int) -> None:
    """Check the quotas for one more file of `size` bytes."""
    check_bytes(connection, scope, size)
    quota = _counting(connection, scope)
    if quota is None:
        return
    if _number(connection, scope, files) >= quota.files:
        raise reached("files", quota.files)
    if bytes_used(connection, scope.tenant, "files") + size > quota.bytes:
        raise reached("bytes of files", quota.bytes)


def room_for_store(connection: Connection, scope: TenantView) -> None:
    """Check the quota for one more vector store."""
    quota = _counting(connection, scope)
    if quota is not None and _number(connection, scope, vector_stores) >= quota.stores:
        raise reached("vector stores", quota.stores)


def room_in_stores(connection: Connection, scope: TenantView, more: int) -> None:
    """Check the quota for `more` files in vector stores. The size of their text is known only after indexing."""
    quota = _counting(connection, scope)
    if quota is None:
        return
    if _number(connection, scope, vector_store_files) + more > quota.files:
        raise reached("files in vector stores", quota.files)
    used = select(func.sum(vector_store_files.c.usage_bytes)).where(vector_store_files.c.tenant == scope.tenant)
    if int(connection.execute(used).scalar() or 0) >= quota.bytes:
        raise reached("bytes of texts in vector stores", quota.bytes)


def _counting(connection: Connection, scope: TenantView) -> Quota | None:
    """Return the quota, if there is one; others that count meanwhile wait for this transaction's end."""
    if scope.quota is not None:
        lock_until_end(connection, COUNTING)
    return scope.quota


def _number(connection: Connection, scope: TenantView, table: Table) -> int:
    counted = select(func.count()).select_from(table).where(table.c.tenant == scope.tenant)
    return connection.execute(counted).scalar() or 0
