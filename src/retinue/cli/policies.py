"""`retinue policies`: what people always allow users' agents."""

from __future__ import annotations

import json

import click

from ..display.terminal import clean
from ..errors import UsageError
from .output import format_date, print_json, table_lines
from .server_database import DB_OPTION, JSON_OPTION, record_act, server_database


@click.group("policies")
def command() -> None:
    """What people decided to allow always: nobody is asked about such calls of a user's agents."""


@command.command("list")
@click.option("--tenant", help="Only those of this tenant.  [default: all]")
@JSON_OPTION
@DB_OPTION
def list_(db: str, as_json: bool, tenant: str | None) -> int:
    """List them, oldest first."""
    with server_database(db, read=True) as connection:
        from ..store.tables import policies

        wanted = () if tenant is None else (policies.c.tenant == tenant,)
        found = connection.execute(policies.select().where(*wanted).order_by(policies.c.number)).all()
    if as_json:
        print_json([{"id": row.id, "tenant": row.tenant, "user": row.user, **row.body} for row in found])
    elif not found:
        click.echo("no policies", err=True)
    else:
        heads = ("ID", "WHEN", "TENANT", "USER", "AGENT", "TOOL", "ALWAYS", "ARGUMENTS")
        rows = [
            (
                row.id,
                format_date(row.created_at),
                *(clean(one) for one in (row.tenant, row.user or "", row.body["agent"], row.body["tool"])),
                *(
                    clean(one if isinstance(one, str) else json.dumps(one, ensure_ascii=False))
                    for one in (row.body["always"], row.body["tool_input"])
                ),
            )
            for row in found
        ]
        for line in table_lines(heads, rows):
            click.echo(line)
    return 0


@command.command("revoke")
@click.argument("policy_id")
@DB_OPTION
def revoke(db: str, policy_id: str) -> int:
    """Revoke POLICY_ID: people are asked again, from the next call on."""
    with server_database(db) as connection:
        from ..store.tables import policies

        gone = policies.delete().where(policies.c.id == policy_id).returning(policies.c.tenant)
        row = connection.execute(gone).first()
        if row is None:
            raise UsageError(f"there is no policy {policy_id!r:.80}; retinue policies list shows those that there are")
        record_act(connection, row.tenant, "policy.revoked", policy_id)
    click.echo(f"{policy_id} was revoked")
    return 0
