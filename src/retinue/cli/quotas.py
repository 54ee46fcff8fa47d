"""`retinue quotas`: what tenants may use and keep, and what they have used, also while servers run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ..display.terminal import clean
from ..errors import UsageError
from .output import print_json
from .server_database import DB_OPTION, JSON_OPTION, check_tenant, record_act, server_database

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from ..limits.quotas import Limit, Standing

_EVERYBODY = "*"  # the name of the default quota
_BAR = 20  # characters
_FULL, _NEAR = 1.0, 0.8
_DEFAULT = click.option("--default", "is_default", is_flag=True, help="The quota of tenants without their own.")
_TENANT = click.argument("tenant", metavar="TENANT", required=False)


@click.group("quotas")
def command() -> None:
    """Limit what tenants use: runs, tokens, money and stored bytes. Servers and workers obey within a second."""


@command.command("set")
@_TENANT
@_DEFAULT
@click.option("--runs", multiple=True, metavar="N/PERIOD", help="Runs: 1000/day, 20000/month. May be repeated.")
@click.option("--tokens", multiple=True, metavar="N/PERIOD", help="Tokens of requests to models: 5e6/month.")
@click.option("--cost", multiple=True, metavar="N/PERIOD", help="Money, by the prices of models: 50/month.")
@click.option("--bytes", metavar="SIZE", help="Stored files, images and memories: 10GB.")
@DB_OPTION
def set_(tenant: str | None, is_default: bool, db: str, **given: Any) -> int:
    """Set limits of TENANT. Limits of kinds that are not named stay; `none` lifts a kind of limit.

    A period is a calendar day or month of UTC: /day or /month.
    """
    name = _choose_name(tenant, is_default=is_default)
    with server_database(db, new=True) as connection:
        from ..limits.amounts import parse_limits, shown_limit
        from ..limits.quotas import KINDS, set_limits

        texts = {**given, "bytes": () if given["bytes"] is None else (given["bytes"],)}
        new = {what: parse_limits(what, texts[what]) for what in KINDS if texts[what]}
        if not new:
            raise UsageError("give at least one of --runs, --tokens, --cost and --bytes")
        now = set_limits(connection, name, [limit for limits in new.values() for limit in limits])
        detail: dict[str, str] = {what: " ".join(map(shown_limit, limits)) for what, limits in new.items()}
        record_act(connection, name, "quota.set", name, detail)
    click.echo(f"{_format_name(name)}: {', '.join(f'{one.what} {shown_limit(one)}' for one in now)}")
    return 0


@command.command("list")
@JSON_OPTION
@DB_OPTION
def list_(db: str, as_json: bool) -> int:
    """List the quotas, and what is used of each."""
    with server_database(db) as connection:
        from ..limits.quotas import all_limits

        found = {name: _standings(connection, name, limits) for name, limits in all_limits(connection).items()}
    if as_json:
        print_json([_quota_values(name, standings) for name, standings in found.items()])
    elif not found:
        click.echo("no quotas; retinue quotas set TENANT sets one", err=True)
    else:
        for name, standings in found.items():
            click.secho(_format_name(name), bold=True)
            _show_standings(standings, used=name != _EVERYBODY)
    return 0


@command.command("show")
@click.argument("tenant")
@JSON_OPTION
@DB_OPTION
def show(tenant: str, db: str, as_json: bool) -> int:
    """Show what TENANT has used of its quota, or of the default one."""
    with server_database(db) as connection:
        from ..limits.quotas import KINDS, Limit, limits_of

        limits = limits_of(connection, tenant)
        free = [Limit(what, "" if what == "bytes" else "month", None) for what in KINDS]
        standings = _standings(connection, tenant, limits or free)
    if as_json:
        print_json(_quota_values(tenant, standings))
    else:
        click.echo(click.style(clean(tenant), bold=True) + ("" if limits else ", which has no quota"))
        _show_standings(standings)
    return 0


@command.command("remove")
@_TENANT
@_DEFAULT
@DB_OPTION
def remove(tenant: str | None, is_default: bool, db: str) -> int:
    """Remove the quota of TENANT, which has the default one from then on."""
    name = _choose_name(tenant, is_default=is_default)
    with server_database(db) as connection:
        from ..limits.quotas import remove_limits

        if not remove_limits(connection, name):
            there = "retinue quotas list shows those that there are"
            raise UsageError(f"{_format_name(name)} has no quota of its own; {there}")
        record_act(connection, name, "quota.removed", name)
    click.echo(f"the quota of {_format_name(name)} was removed")
    return 0


def _choose_name(tenant: str | None, *, is_default: bool) -> str:
    if (tenant is None) != is_default:
        raise UsageError("name either a TENANT, or --default for those without a quota of their own")
    return _EVERYBODY if tenant is None else check_tenant(tenant)


def _format_name(name: str) -> str:
    return "tenants without their own" if name == _EVERYBODY else clean(name)


def _standings(connection: Connection, tenant: str, limits: Sequence[Limit]) -> Sequence[Standing]:
    from ..limits.quotas import standings_of
    from ..store.clock import CLOCK

    return standings_of(connection, tenant, limits, CLOCK.now())


def _quota_values(tenant: str, standings: Sequence[Standing]) -> dict[str, Any]:
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


def _show_standings(standings: Sequence[Standing], *, used: bool = True) -> None:
    """Print a line for each limit: what is used of it, as a bar and in words."""
    from ..limits.amounts import shown_amount, shown_limit
    from ..limits.quotas import format_time

    for one in standings:
        what = one.limit.what
        if not used:
            click.echo(f"  {what:<7} {shown_limit(one.limit)}")
            continue
        said = f"{shown_amount(what, one.used):>14}"
        if one.limit.most is not None:
            said = f"{_bar(one.used, one.limit.most)}{said} of {shown_limit(one.limit):<20}"
            said += f"  until {format_time(one.resets_at)}" if one.resets_at is not None else ""
        elif one.limit.period:
            said += " this month"
        click.echo(f"  {what:<7}{said}".rstrip())


def _bar(used: int, most: int) -> str:
    share = min(1.0, used / most) if most else 1.0
    filled = round(share * _BAR)
    colour = "red" if share >= _FULL else "yellow" if share >= _NEAR else "green"
    return f" {click.style('█' * filled, fg=colour)}{click.style('░' * (_BAR - filled), dim=True)} {share:>4.0%}"
