"""Lists of runs for operators, and for whoever reads a run with those below it."""

from __future__ import annotations

from sqlalchemy import Connection

from .run_queries import ROWS, RunFilter, conditions
from .run_row import RunRow
from .run_store import read_runs
from .tables import runs
from .tenant_view import TenantView


def member_runs(connection: Connection, run_id: str) -> list[RunRow]:
    """Return the runs of a run's members, oldest first."""
    return read_runs(connection, ROWS.where(runs.c.parent_id == run_id).order_by(runs.c.number))


def newest_runs(connection: Connection, wanted: RunFilter, tenant: str | None, most: int) -> list[RunRow]:
    """Return the newest runs of a tenant, or of all tenants, without those of members."""
    mine = (runs.c.tenant == tenant,) if tenant is not None else ()
    query = ROWS.where(runs.c.parent_id.is_(None), *mine, *conditions(TenantView(tenant or ""), wanted))
    return read_runs(connection, query.order_by(runs.c.number.desc()).limit(most))
