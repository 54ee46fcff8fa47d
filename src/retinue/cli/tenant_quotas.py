"""`retinue quotas`: what tenants may use and keep, and what they have used, also while servers run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..display.terminal import clean
from ..errors import UsageError
from .server_database import DB_OPTION, server_database

if TYPE_CHECKING:
    from ..limits.quotas import Standing

_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_BAR = 20  # characters
_FULL, _NEAR = 1.0, 0.8
_DEFAULT = click.option("--default", "is_default", is_flag=True, help="The quota of tenants without their own.")
_TENANT_ARGUMENT = click.argument("tenant", metavar="TENANT", required=False)
_JSON = click.option("--json", "as_json", is_flag=True, help="As JSON.")


@click.group("quotas")
def command() -> None:
    """Limit what tenants use: runs, tokens, money and stored bytes. Servers and workers obey within a second."""


@command.command("set")
@_TENANT_ARGUMENT
@_DEFAULT
@click.option("--runs", multiple=True, metavar="N/PERIOD", help="Runs: 1000/day, 20000/month. May be repeated.")
@click.option("--tokens", multiple=True, metavar="N/PERIOD", help="Tokens of requests to models: 5e6/month.")
@click.option("--cost", multiple=True, metavar="N/PERIOD", help="Money, by the prices of models: 50/month.")
@click.option("--bytes", "bytes_", metavar="SIZE", help="Stored files, images and memories: 10GB.")
@DB_OPTION
def set_(tenant: str | None, is_default: bool, db: str, bytes_: str | None, **given: tuple[str, ...]) -> int:
    """Set limits of TENANT. Limits of kinds that are not named stay; `none` lifts a kind of limit.

    A period is a calendar day or month of UTC: /day or /month.
    """
    name = _name(tenant, is_default=is_default)
    with server_database(db, new=True) as connection:
        from ..limits.amounts import parse_limits, shown_limit
        from ..limits.quotas import KINDS, set_limits
        from ..store.audit_log import record, system_user

        texts = {**given, "bytes": () if bytes_ is None else (bytes_,)}
        limits = [limit for what in KINDS for limit in parse_limits(what, texts[what])]
        if not limits:
            raise UsageError("give at least one of --runs, --tokens, --cost and --bytes")
        now = set_limits(connection, name, limits)
        detail: dict[str, str] = {
            one.what: " ".join(shown_limit(other) for other in limits if other.what == one.what) for one in limits
        }
        record(connection, system_user(), name, "quota.set", name, detail)
    click.echo(f"{_who(name)}: {', '.join(f'{one.what} {shown_limit(one)}' for one in now)}")
    return 0


@command.command("list")
@_JSON
@DB_OPTION
def list_(db: str, as_json: bool) -> int:
    """List the quotas, and what is used of each."""
    with server_database(db) as connection:
        from ..limits.quotas import DEFAULT, all_limits, standings_of
        from ..store.clock import CLOCK

        found = [
            (name, standings_of(connection, name, limits, CLOCK.now()))
            for name, limits in all_limits(connection).items()
        ]
    if as_json:
        click.echo(json.dumps([_shown(name, standings) for name, standings in found], indent=2))
        return 0
    if not found:
        click.echo("no quotas; retinue quotas set TENANT sets one", err=True)
    for name, standings in found:
        click.echo(click.style(_who(name), bold=True))
        for line in _lines(standings, used=name != DEFAULT):
            click.echo(line)
    return 0


@command.command("show")
@click.argument("tenant")
@_JSON
@DB_OPTION
def show(tenant: str, db: str, as_json: bool) -> int:
    """Show what TENANT has used of its quota, or of the default one."""
    with server_database(db) as connection:
        from ..limits.quotas import KINDS, Limit, limits_of, standings_of
        from ..store.clock import CLOCK

        limits = limits_of(connection, tenant)
        free = [Limit(what, "" if what == "bytes" else "month", None) for what in KINDS]
        standings = standings_of(connection, tenant, limits or free, CLOCK.now())
    if as_json:
        click.echo(json.dumps(_shown(tenant, standings), indent=2))
        return 0
    click.echo(click.style(clean(tenant), bold=True) + ("" if limits else ", which has no quota"))
    for line in _lines(standings):
        click.echo(line)
    return 0


@command.command("remove")
@_TENANT_ARGUMENT
@_DEFAULT
@DB_OPTION
def remove(tenant: str | None, is_default: bool, db: str) -> int:
    """Remove the quota of TENANT, which has the default one from then on."""
    name = _name(tenant, is_default=is_default)
    with server_database(db) as connection:
        from ..limits.quotas import remove_limits
        from ..store.audit_log import record, system_user

        if not remove_limits(connection, name):
            raise UsageError(f"{_who(name)} has no quota of its own; retinue quotas list shows those that there are")
        record(connection, system_user(), name, "quota.removed", name)
    click.echo(f"the quota of {_who(name)} was removed")
    return 0


def _name(tenant: str | None, *, is_default: bool) -> str:
    if (tenant is None) != is_default:
        raise UsageError("name either a TENANT, or --default for those without a quota of their own")
    if tenant is None:
        return "*"
    if not _TENANT.fullmatch(tenant):
        raise UsageError(f"{tenant[:80]!r} is not a valid tenant: want up to 64 letters, digits, '.', '_' and '-'")
    return tenant


def _who(name: str) -> str:
    return "tenants without their own" if name == "*" else clean(name)


def _shown(tenant: str, standings: Sequence[Standing]) -> dict[str, Any]:
    limits = [
        {
            "type": one.limit.what,
            "period": one.limit.period or None,
            "limit": one.limit.amount(one.limit.most),
            "used": one.limit.amount(one.used),
            "resets_at": one.resets_at,
        }
        for one in standings
    ]
    return {"tenant": tenant, "limits": limits}


def _lines(standings: Sequence[Standing], *, used: bool = True) -> Iterator[str]:
    """Yield a line for each limit: what is used of it, as a bar and in words."""
    from ..limits.amounts import shown_amount, shown_limit
    from ..limits.quotas import format_time

    for one in standings:
        what, most = one.limit.what, one.limit.most
        if not used:
            yield f"  {what:<7} {shown_limit(one.limit)}"
            continue
        said = f"{shown_amount(what, one.used):>14}"
        if most is not None:
            said += f" of {shown_limit(one.limit):<20}"
        elif one.limit.period:
            said += " this month"
        until = f"  until {format_time(one.resets_at)}" if one.resets_at is not None and most is not None else ""
        yield f"  {what:<7}{_bar(one)}{said}{until}".rstrip()


def _bar(one: Standing) -> str:
    if one.limit.most is None:
        return ""
    share = 1.0 if not one.limit.most else min(1.0, one.used / one.limit.most)
    filled = round(share * _BAR)
    colour = "red" if share >= _FULL else "yellow" if share >= _NEAR else "green"
    return f" {click.style('█' * filled, fg=colour)}{click.style('░' * (_BAR - filled), dim=True)} {share:>4.0%}"
