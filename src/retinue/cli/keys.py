"""`retinue keys`: manages API keys with their tenants, scopes and limits, also while the server runs."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from ..display.terminal import clean
from ..errors import UsageError
from .option_types import SPAN, Parsed, parse_rate
from .output import format_date, print_json, table_lines
from .server_database import DB_OPTION, check_tenant, check_user, record_act, server_database

if TYPE_CHECKING:
    from ..store.api_keys import Key

_SCOPES = ("read", "runs", "agents", "memories", "tools", "secrets", "prompts", "audit", "act-as", "all")
_A_MINUTE = ("requests", "tokens")
_LIMITS = (*_A_MINUTE, "runs", "queue", "streams")


def _parse_limit(text: str) -> tuple[str, int | None]:
    name, _, amount = text.partition("=")
    if name not in _LIMITS:
        raise ValueError(f"{text!r} is not a limit; there are {', '.join(f'{one}=N' for one in _LIMITS)}")
    if amount == "none":
        return name, None
    if name in _A_MINUTE:
        return name, parse_rate(amount)
    least = 0 if name == "queue" else 1
    if not amount.isdecimal() or not least <= int(amount[:10]) < 10**9:
        raise ValueError(f"{amount[:20]!r} is not a number of {name}: want {least} or more, or none")
    return name, int(amount)


@click.group("keys")
def command() -> None:
    """Make, list and revoke the API keys of a server. A running server applies changes within a second."""


@command.command("make")
@click.option(
    "--tenant", default="default", show_default=True, help="The tenant it belongs to: tenants see only their own data."
)
@click.option("--user", help="For whom it acts: sees only what belongs to this user.  [default: the whole tenant]")
@click.option("--name", default="", help="Its purpose, shown in lists.")
@click.option("--scope", "scopes", multiple=True, type=click.Choice(_SCOPES), help="May be repeated.  [default: all]")
@click.option("--expires", type=SPAN, help="Lifetime: 90m, 12h, 30d, 8w.  [default: until revoked]")
@click.option(
    "--limit",
    "limits",
    multiple=True,
    type=Parsed("NAME=N", _parse_limit),
    help="Overrides the server's limit; N may be none.",
)
@click.option("--json", "as_json", is_flag=True, help="Print all its data as JSON.")
@DB_OPTION
def make(db: str, as_json: bool, tenant: str, name: str, **wanted: Any) -> int:
    """Make a key and show it. It cannot be shown again, because only its SHA-256 is stored.

    Scopes: read; runs (threads, runs, completions, responses); agents (assistants, files, vector stores); memories
    (see and delete what agents remember); tools (register tools); secrets (set secrets); all; and, which no other scope
    contains, prompts (see the prompts of agents), audit (see the audit log) and act-as (say in X-Retinue-User for which
    user a request is). Limits: requests=N/min, tokens=N/min, runs=N, queue=N,
    streams=N.
    """
    check_tenant(tenant)
    if wanted["user"] is not None:
        check_user(wanted["user"])
    if len(name) > 256 or not name.isprintable():
        raise UsageError("a key's name must be one line of at most 256 characters")
    scopes = set(wanted["scopes"])
    if "all" in scopes:
        scopes &= {"all", "prompts", "audit", "act-as"}  # `all` contains every other scope
    with server_database(db, new=True) as connection:
        from ..store.api_keys import create_key, find_key, hash_key

        given = None if scopes <= {"all"} else sorted(scopes)
        key = create_key(connection, tenant, name, given, dict(wanted["limits"]), wanted["expires"], wanted["user"])
        made = find_key(connection, hash_key(key))
        assert made is not None  # it was just written
        record_act(connection, tenant, "key.made", made.id)
    if as_json:
        click.echo(json.dumps({"key": key, **_key_values(made)}))
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
        print_json([_key_values(key) for key in found])
        return 0
    names = ("ID", "KEY", "TENANT", "USER", "NAME", "SCOPES", "LIMITS", "MADE", "STATE")
    rows = []
    for key in found:
        limits = " ".join(f"{name}={_format_limit(name, most)}" for name, most in key.limits.items())
        who = (
            key.id,
            f"{key.prefix}…",
            key.tenant,
            clean(key.user or ""),
            clean(key.name),
            ",".join(key.scopes or ("all",)),
        )
        rows.append((*who, limits, format_date(key.created_at), _state(key)))
    for line in table_lines(names, rows):
        click.echo(line)
    return 0


@command.command("revoke")
@click.argument("id_", metavar="ID")
@DB_OPTION
def revoke(id_: str, db: str) -> int:
    """Revoke the key ID, and close its open streams."""
    with server_database(db) as connection:
        from ..store.api_keys import revoke_key

        key = revoke_key(connection, id_)
        if key is None:
            raise UsageError(f"there is no key {id_[:80]!r}; `retinue keys list` shows their ids")
        record_act(connection, key.tenant, "key.revoked", key.id)
    click.echo(f"{key.id} of {key.tenant} was revoked")
    return 0


def _key_values(key: Key) -> Mapping[str, Any]:
    known = {name: getattr(key, name) for name in type(key).__slots__}
    return {**known, "scopes": list(key.scopes or ("all",)), "state": _state(key)}


def _format_limit(name: str, most: int | None) -> str:
    return "none" if most is None else f"{most}/min" if name in _A_MINUTE else str(most)


def _state(key: Key) -> str:
    if key.revoked_at is not None:
        return f"revoked {format_date(key.revoked_at)}"
    if key.expires_at is None:
        return "good"
    return f"{'good until' if key.good(time.time()) else 'expired'} {format_date(key.expires_at)}"
