"""Storage quotas of a tenant, from its `TenantView`. The checks raise `ApiError` (400)."""

from __future__ import annotations

from sqlalchemy import Connection, Table, func, select

from ...store.tables import files, vector_store_files, vector_stores
from ...store.tenant_view import TenantView
from ..wire.api_errors import ApiError


def problem_of_upload(connection: Connection, scope: TenantView, size: int) -> ApiError | None:
    """Return the error for one more file of `size` bytes, or `None` if it fits. Scans all files, so call it before a
    transaction writes."""
    quota = scope.quota
    if quota is None:
        return None
    columns = func.count(), func.sum(files.c.body["bytes"].as_integer())
    number, kept = connection.execute(select(*columns).where(files.c.tenant == scope.tenant)).one()
    if number >= quota.files:
        return reached("files", quota.files)
    return reached("bytes of files", quota.bytes) if int(kept or 0) + size > quota.bytes else None


def room_for_store(connection: Connection, scope: TenantView) -> None:
    """Check the quota for one more vector store."""
    if scope.quota is not None and _number(connection, scope, vector_stores) >= scope.quota.stores:
        raise reached("vector stores", scope.quota.stores)


def room_in_stores(connection: Connection, scope: TenantView, more: int) -> None:
    """Check the quota for `more` files in vector stores. The size of their text is known only after indexing."""
    quota = scope.quota
    if quota is None:
        return
    if _number(connection, scope, vector_store_files) + more > quota.files:
        raise reached("files in vector stores", quota.files)
    used = select(func.sum(vector_store_files.c.usage_bytes)).where(vector_store_files.c.tenant == scope.tenant)
    if int(connection.execute(used).scalar() or 0) >= quota.bytes:
        raise reached("bytes of texts in vector stores", quota.bytes)


def _number(connection: Connection, scope: TenantView, table: Table) -> int:
    counted = select(func.count()).select_from(table).where(table.c.tenant == scope.tenant)
    return connection.execute(counted).scalar() or 0


def reached(what: str, most: int) -> ApiError:
    """Return the error for a quota of `most` that is used up."""
    message = (
        f"Storage limit reached: you may keep {most:,} {what}. Delete some, or ask the server's operator for more."
    )
    return ApiError(400, message, code="storage_limit_reached")
