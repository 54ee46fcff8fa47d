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
@JSON_OPTION
@DB_OPTION
def list_(db: str, as_json: bool) -> int:
    """List them, oldest first."""
    with server_database(db, read=True) as connection:
        from ..store.tables import policies

        found = connection.execute(policies.select().order_by(policies.c.number)).all()
    if as_json:
        print_json([{name: value for name, value in row._mapping.items() if name != "number"} for row in found])
        return 0
    names = ("agent", "tool", "always", "tool_input")
    rows = [
        (row.id, format_date(row.created_at), *map(_say, (row.tenant, row.user, *(row.body[name] for name in names))))
        for row in found
    ]
    for line in table_lines(("ID", "WHEN", "TENANT", "USER", "AGENT", "TOOL", "ALWAYS", "ARGUMENTS"), rows):
        click.echo(line)
    return 0


def _say(value: object) -> str:
    return clean(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


@command.command("revoke")
@click.argument("policy_id")
@DB_OPTION
def revoke(db: str, policy_id: str) -> int:
    """Revoke POLICY_ID: people are asked again, from the next call on."""
    with server_database(db) as connection:
        from ..store.tables import policies

        gone = policies.delete().where(policies.c.id == policy_id).returning(policies.c.tenant)
        if (tenant := connection.execute(gone).scalar()) is None:
            raise UsageError(f"there is no policy {policy_id!r:.80}; retinue policies list shows those that there are")
        record_act(connection, tenant, "policy.revoked", policy_id)
    click.echo(f"{policy_id} was revoked")
    return 0
