"""`retinue audit`: who did what."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ..display.terminal import clean
from .option_types import SPAN
from .output import format_date, print_json, table_lines
from .server_database import DB_OPTION, JSON_OPTION, server_database

if TYPE_CHECKING:
    from sqlalchemy import Row


@click.group("audit")
def command() -> None:
    """The audit log: what was done to keys, runs, tools, memories, files and quotas, and by whom."""


@command.command("list")
@click.option("--tenant", help="Only what concerns this tenant.  [default: all]")
@click.option("--since", type=SPAN, help="Only the last 90m, 12h, 30d or 8w.")
@click.option("--action", help="Only this action (run.cancelled), or all of a kind (run).")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="How many.")
@JSON_OPTION
@DB_OPTION
def list_(db: str, as_json: bool, tenant: str | None, since: int | None, action: str | None, limit: int) -> int:
    """List the entries, newest first."""
    with server_database(db, read=True) as connection:
        from ..store.audit_log import AuditFilter, entries

        began = None if since is None else int(time.time()) - since
        found = entries(connection, AuditFilter(tenant, began, action), limit)
    if as_json:
        print_json([_shown(row) for row in found])
    elif not found:
        click.echo("no entries", err=True)
    else:
        for line in table_lines(("WHEN", "WHO", "ACTION", "TARGET", "TENANT", "DETAIL"), map(_cells, found)):
            click.echo(line)
    return 0


@command.command("prune")
@click.option("--older-than", type=SPAN, required=True, help="Delete what is older: 400d, 104w.")
@DB_OPTION
def prune(db: str, older_than: int) -> int:
    """Delete old entries, and record that. Nothing else ever deletes any."""
    with server_database(db) as connection:
        from ..store.audit_log import prune as prune_entries, system_user

        gone = prune_entries(connection, system_user(), int(time.time()) - older_than)
    click.echo(f"{gone:,} entries were deleted")
    return 0


def _shown(row: Row[Any]) -> dict[str, Any]:
    return {name: value for name, value in row._mapping.items() if name != "number"}


def _cells(row: Row[Any]) -> Sequence[str]:
    detail = " ".join(f"{name}={value}" for name, value in row.detail.items())
    return format_date(row.created_at), *(clean(one) for one in (row.actor, row.action, row.target, row.tenant, detail))
