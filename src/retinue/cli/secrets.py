"""`retinue secrets`: what tenants and their users entrust to a server for the tools of its runs."""

from __future__ import annotations

import os
import sys

import click

from ..errors import UsageError
from .output import format_date, print_json, table_lines
from .server_database import DB_OPTION, JSON_OPTION, check_tenant, check_user, record_act, server_database

_NAME = click.argument("name")
_TENANT = click.option("--tenant", default="default", show_default=True, callback=lambda *given: check_tenant(given[2]))
_USER = click.option(
    "--user",
    callback=lambda *given: None if given[2] is None else check_user(given[2]),
    help="Whose it is.  [default: the tenant's own]",
)


@click.group("secrets")
def command() -> None:
    """Set, list and delete secrets that tools use for a user: `${user.secret:NAME}`, `context.secret("NAME")`.

    They are encrypted with a key in the variable RETINUE_SECRETS_KEY, which the database does not hold.
    """


@command.command("key")
def key() -> int:
    """Make a key for RETINUE_SECRETS_KEY. Without it, secrets that were set with it are lost."""
    from ..store.sealed_secrets import make_secrets_key

    click.echo(make_secrets_key())
    return 0


@command.command("set")
@_NAME
@_TENANT
@_USER
@DB_OPTION
def set_(name: str, tenant: str, user: str | None, db: str) -> int:
    """Set the secret NAME, which is asked for, or read from the standard input."""
    stdin = sys.stdin
    value = click.prompt(name, hide_input=True, err=True) if stdin.isatty() else stdin.read().strip()
    with server_database(db, new=True) as connection:
        from ..store.sealed_secrets import SecretOwner, set_secret

        set_secret(connection, SecretOwner(tenant, user), name, value, os.environ)
        record_act(connection, tenant, "secret.set", name, {"user": user} if user else {})
    click.echo(f"{name} of {user or tenant} was set", err=True)
    return 0


@command.command("list")
@_TENANT
@_USER
@JSON_OPTION
@DB_OPTION
def list_(tenant: str, user: str | None, db: str, as_json: bool) -> int:
    """List the names of secrets, and when they were set."""
    with server_database(db, read=True) as connection:
        from ..store.sealed_secrets import SecretOwner, list_secrets

        found = list_secrets(connection, SecretOwner(tenant, user))
    if as_json:
        print_json([{"name": name, "changed_at": changed} for name, changed in found.items()])
    else:
        for line in table_lines(("NAME", "SET"), [(name, format_date(changed)) for name, changed in found.items()]):
            click.echo(line)
    return 0


@command.command("delete")
@_NAME
@_TENANT
@_USER
@DB_OPTION
def delete(name: str, tenant: str, user: str | None, db: str) -> int:
    """Delete the secret NAME."""
    with server_database(db) as connection:
        from ..store.sealed_secrets import SecretOwner, delete_secret

        if not delete_secret(connection, SecretOwner(tenant, user), name):
            raise UsageError(
                f"{user or tenant} has no secret {name[:80]!r}; `retinue secrets list` shows those there are"
            )
        record_act(connection, tenant, "secret.deleted", name, {"user": user} if user else {})
    return 0


@command.command("rotate")
@DB_OPTION
def rotate(db: str) -> int:
    """Encrypt all secrets anew with the first key in RETINUE_SECRETS_KEY. The others are not needed afterwards."""
    with server_database(db) as connection:
        from ..store.sealed_secrets import rotate_secrets

        click.echo(f"{rotate_secrets(connection)} secrets are encrypted with the first key", err=True)
    return 0
