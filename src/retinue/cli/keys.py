"""`retinue keys`: manages API keys with their tenants, scopes and limits, also while the server runs."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from ..display.terminal import clean
from ..errors import UsageError
from .option_types import PER_MINUTE, SPAN
from .server_database import DB_OPTION, server_database

if TYPE_CHECKING:
    from ..store.api_keys import Key

_SCOPES = ("read", "runs", "agents", "memories", "tools", "prompts", "audit", "all")
_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_A_MINUTE = ("requests", "tokens")
_LIMITS = (*_A_MINUTE, "runs", "queue", "streams")


class _Limit(click.ParamType):  # type: ignore[type-arg] # newer versions of click have some
    name = "NAME=N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int | None]:
        name, _, amount = str(value).partition("=")
        if name not in _LIMITS:
            self.fail(f"{value!r} is not a limit; there are {', '.join(f'{one}=N' for one in _LIMITS)}", param, ctx)
        if amount == "none":
            return name, None
        if name in _A_MINUTE:
            return name, PER_MINUTE.convert(amount, param, ctx)
        least = 0 if name == "queue" else 1
        if not amount.isdecimal() or not least <= int(amount[:10]) < 10**9:
            self.fail(f"{amount[:20]!r} is not a number of {name}: want {least} or more, or none", param, ctx)
        return name, int(amount)


@click.group("keys")
def command() -> None:
    """Make, list and revoke the API keys of a server. A running server applies changes within a second."""


@command.command("make")
@click.option(
    "--tenant", default="default", show_default=True, help="The tenant it belongs to: tenants see only their own data."
)
@click.option("--name", default="", help="Its purpose, shown in lists.")
@click.option("--scope", "scopes", multiple=True, type=click.Choice(_SCOPES), help="May be repeated.  [default: all]")
@click.option("--expires", type=SPAN, help="Lifetime: 90m, 12h, 30d, 8w.  [default: until revoked]")
@click.option("--limit", "limits", multiple=True, type=_Limit(), help="Overrides the server's limit; N may be none.")
@click.option("--json", "as_json", is_flag=True, help="Print all its data as JSON.")
@DB_OPTION
def make_(db: str, as_json: bool, **wanted: Any) -> int:
    """Make a key and show it. It cannot be shown again, because only its SHA-256 is stored.

    Scopes: read; runs (threads, runs, completions, responses); agents (assistants, files, vector stores); memories
    (see and delete what agents remember); tools (register tools); all; prompts (see the prompts of agents) and audit
    (see the audit log), which no other scope contains. Limits: requests=N/min, tokens=N/min, runs=N, queue=N,
    streams=N.
    """
    tenant, name = wanted["tenant"], wanted["name"]
    if not _TENANT.fullmatch(tenant):
        raise UsageError(f"{tenant[:80]!r} is not a valid tenant: want up to 64 letters, digits, '.', '_' and '-'")
    if len(name) > 256 or not name.isprintable():
        raise UsageError("a key's name must be one line of at most 256 characters")
    with server_database(db, new=True) as connection:
        from ..store.api_keys import create_key, find_key, hash_key
        from ..store.audit_log import record, system_user

        given = set(wanted["scopes"])
        if "all" in given:
            given &= {"all", "prompts", "audit"}  # `all` contains every other scope
        scopes = None if given <= {"all"} else sorted(given)
        key = create_key(connection, tenant, name, scopes, dict(wanted["limits"]), wanted["expires"])
        made = find_key(connection, hash_key(key))
        assert made is not None  # it was just written
        record(connection, system_user(), tenant, "key.made", made.id)
    if as_json:
        click.echo(json.dumps({"key": key, **_shown(made)}))
    else:
        click.echo(key)
        click.echo(f"{made.id} of {tenant}; the key cannot be shown again", err=True)
    return 0


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print all data as JSON.")
@DB_OPTION
def list_(db: str, as_json: bool) -> int:
    """List the keys of a database, oldest first."""
    with server_database(db) as connection:
        from ..store.api_keys import all_keys

        found = all_keys(connection)
    if as_json:
        click.echo(json.dumps([_shown(key) for key in found], indent=2))
        return 0
    rows = [("ID", "KEY", "TENANT", "NAME", "SCOPES", "LIMITS", "MADE", "STATE"), *map(_row, found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


@command.command("revoke")
@click.argument("id_", metavar="ID")
@DB_OPTION
def revoke(id_: str, db: str) -> int:
    """Revoke the key ID, and close its open streams."""
    with server_database(db) as connection:
        from ..store.api_keys import revoke_key
        from ..store.audit_log import record, system_user

        key = revoke_key(connection, id_)
        if key is None:
            raise UsageError(f"there is no key {id_[:80]!r}; `retinue keys list` shows their ids")
        record(connection, system_user(), key.tenant, "key.revoked", key.id)
    click.echo(f"{key.id} of {key.tenant} was revoked")
    return 0


def _shown(key: Key) -> Mapping[str, Any]:
    known = {name: getattr(key, name) for name in type(key).__slots__}
    return {**known, "scopes": list(key.scopes or ("all",)), "state": _state(key)}


def _row(key: Key) -> tuple[str, ...]:
    limits = " ".join(f"{name}={_amount(name, most)}" for name, most in key.limits.items())
    return (
        key.id,
        f"{key.prefix}…",
        key.tenant,
        clean(key.name),
        ",".join(key.scopes or ("all",)),
        limits,
        _date(key.created_at),
        _state(key),
    )


def _amount(name: str, most: int | None) -> str:
    return "none" if most is None else f"{most}/min" if name in _A_MINUTE else str(most)


def _state(key: Key) -> str:
    if key.revoked_at is not None:
        return f"revoked {_date(key.revoked_at)}"
    if key.expires_at is None:
        return "good"
    return f"{'good until' if key.good(time.time()) else 'expired'} {_date(key.expires_at)}"


def _date(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
