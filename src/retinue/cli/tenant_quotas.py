"""`retinue quotas`: what tenants may use and keep, and what they have used, also while servers run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import click

from ..display.terminal import clean
from ..errors import UsageError
from .server_database import DB_OPTION, read_database, server_database

if TYPE_CHECKING:
    from ..limits.quotas import Standing
    from ..store.usage_recount import BytesDifference, UseDifference

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
        from ..store.audit_author import system_user
        from ..store.audit_log import record

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
        from ..limits.quotas import Limit, limits_of, standings_of
        from ..store.clock import CLOCK

        limits = limits_of(connection, tenant)
        free: list[Limit] = [Limit("runs", "month", None), Limit("tokens", "month", None), Limit("cost", "month", None)]
        shown = limits or [*free, Limit("bytes", "", None)]
        standings = standings_of(connection, tenant, shown, CLOCK.now())
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
        from ..store.audit_author import system_user
        from ..store.audit_log import record

        if not remove_limits(connection, name):
            raise UsageError(f"{_who(name)} has no quota of its own; retinue quotas list shows those that there are")
        record(connection, system_user(), name, "quota.removed", name)
    click.echo(f"the quota of {_who(name)} was removed")
    return 0


@command.command("recount")
@click.option("--dry-run", is_flag=True, help="Only say what differs.")
@DB_OPTION
def recount(db: str, dry_run: bool) -> int:
    """Count this month's use again from the logs, mend sums that differ, and say which did.

    Do so once after an upgrade during which a server of a version without quotas was still running.
    """
    with read_database(db) as connection:
        from ..store.usage_recount import bytes_differences, mend, snapshot, use_differences

        with snapshot(connection):
            use, stored = use_differences(connection), bytes_differences(connection)
    mended = [one for one in use if not one.has_gap]
    if not dry_run and (mended or stored):
        with server_database(db) as connection:
            from ..store.audit_author import system_user
            from ..store.audit_log import OPERATOR, record

            mend(connection, use, stored)
            record(connection, system_user(), OPERATOR, "quota.recounted", "", {"sums": len(mended) + len(stored)})
    for line in _differences(use, stored, "differs" if dry_run else "was mended"):
        click.echo(line)
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
    from ..store.usage_sums import NANOS

    def amount(one: Standing, number: int | None) -> float | None:
        return number / NANOS if number is not None and one.limit.what == "cost" else number

    limits = [
        {
            "type": one.limit.what,
            "period": one.limit.period or None,
            "limit": amount(one, one.limit.most),
            "used": amount(one, one.used),
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
        said = (
            f"{shown_amount(what, one.used):>14} of {shown_limit(one.limit):<20}"
            if most is not None
            else (
                f"{shown_amount(what, one.used):>14} this month"
                if one.limit.period
                else f"{shown_amount(what, one.used):>14}"
            )
        )
        until = f"  until {format_time(one.resets_at)}" if one.resets_at is not None and most is not None else ""
        yield f"  {what:<7}{_bar(one)}{said}{until}".rstrip()


def _bar(one: Standing) -> str:
    if one.limit.most is None:
        return ""
    share = 1.0 if not one.limit.most else min(1.0, one.used / one.limit.most)
    filled = round(share * _BAR)
    colour = "red" if share >= _FULL else "yellow" if share >= _NEAR else "green"
    return f" {click.style('█' * filled, fg=colour)}{click.style('░' * (_BAR - filled), dim=True)} {share:>4.0%}"


def _differences(use: Sequence[UseDifference], stored: Sequence[BytesDifference], done: str) -> Iterator[str]:
    from ..limits.amounts import shown_amount

    for one in use:
        when = date(1970, 1, 1) + timedelta(days=one.day)
        words = [
            f"{what} {shown_amount(what, getattr(one.counted, what))}, by the logs {shown_amount(what, there)}"
            for what in ("runs", "tokens", "cost")
            if (there := getattr(one.logged, what)) != getattr(one.counted, what)
        ]
        outcome = "stays, because logs of that day were deleted" if one.has_gap else done
        yield f"{clean(one.tenant)} {when}: {'; '.join(words)} ({outcome})"
    for kept in stored:
        yield f"{clean(kept.tenant)} {kept.table}: {kept.counted:,} bytes, in fact {kept.kept:,} ({done})"
    if not use and not stored:
        yield "all sums are what the logs say"
