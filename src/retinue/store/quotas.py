"""Quotas: how much a tenant may use in a day or a month of UTC, and how many bytes it may keep."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from sqlalchemy import Connection, bindparam, delete, select

from .prepared_statements import Prepared, insert_once
from .tables import quotas

What = Literal["runs", "tokens", "cost", "bytes"]
Period = Literal["day", "month", ""]
DEFAULT = "*"
"""The name under which the quota of tenants without their own stands; no tenant can be called so."""
KINDS: tuple[What, ...] = ("runs", "tokens", "cost", "bytes")
PERIODS: tuple[Period, ...] = ("day", "month", "")
_OF = Prepared(
    select(quotas.c.tenant, quotas.c.what, quotas.c.period, quotas.c.most).where(
        (quotas.c.tenant == bindparam("of")) | (quotas.c.tenant == DEFAULT)
    )
)


class Limit(NamedTuple):
    """At most so much of something in each period; the period of bytes, which are a level, is empty. `cost` is in
    billionths of the prices' currency. `most` is `None` if there is no limit."""

    what: What
    period: Period
    most: int | None


def limits_of(connection: Connection, tenant: str) -> tuple[Limit, ...]:
    """Return the limits of a tenant: its own, if it has a quota of its own, or else those of the default."""
    rows = _OF.rows(connection, {"of": tenant})
    own = [row for row in rows if row[0] == tenant] or rows
    return _ordered(Limit(*row[1:]) for row in own)


def all_limits(connection: Connection) -> dict[str, tuple[Limit, ...]]:
    """Return the limits of each tenant that has a quota of its own, and those of `DEFAULT`, by their names."""
    found: dict[str, list[Limit]] = {}
    for row in connection.execute(select(quotas).order_by(quotas.c.tenant)):
        found.setdefault(row.tenant, []).append(Limit(row.what, row.period, row.most))
    return {tenant: _ordered(limits) for tenant, limits in found.items()}


def set_limits(connection: Connection, tenant: str, limits: Sequence[Limit]) -> tuple[Limit, ...]:
    """Replace the tenant's limits of the kinds that `limits` name. Return all that it has now. A limit of `None`
    lets a tenant use as much as it likes, whatever the default."""
    for what in {limit.what for limit in limits}:
        connection.execute(delete(quotas).where(quotas.c.tenant == tenant, quotas.c.what == what))
    for limit in limits:
        insert_once(connection, quotas, {"tenant": tenant, **limit._asdict()})
    return all_limits(connection)[tenant]


def remove_limits(connection: Connection, tenant: str) -> bool:
    """Remove a tenant's quota, so that it has the default one. Return whether it had its own."""
    return connection.execute(delete(quotas).where(quotas.c.tenant == tenant)).rowcount > 0


def _ordered(limits: Iterable[Limit]) -> tuple[Limit, ...]:
    return tuple(sorted(limits, key=lambda one: (KINDS.index(one.what), PERIODS.index(one.period))))
