"""Quotas of tenants: what each may use in a day or month of UTC and keep, what it has used, and what is left.

An operator sets the limits of runs, tokens, money and bytes for a tenant, or for those without their own (`DEFAULT`).
Beside them, a server grants each tenant so many files, vector stores and bytes of each kind (`TenantView.quota`).
The checks raise `LimitReached`. Call them in the transaction that inserts the rows: what is checked before it is no
limit for requests that come together.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Generic, Literal, NamedTuple, TypeVar

from sqlalchemy import Connection, Table, bindparam, delete, func, select

from ..core.events import Finished, Stopped
from ..core.values import StopReason
from ..store.clock import CLOCK
from ..store.database import Database
from ..store.engines import COUNTING, lock_until_end
from ..store.prepared_statements import Prepared, insert_once
from ..store.tables import files, quotas, vector_store_files, vector_stores
from ..store.tenant_view import Quota, TenantView
from ..store.usage_sums import (
    DAY,
    NANOS,
    NOTHING,
    Used,
    bytes_kept,
    bytes_used,
    day_of,
    month_begin,
    used_since,
)
from . import LimitReached

T = TypeVar("T")
What = Literal["runs", "tokens", "cost", "bytes"]
Period = Literal["day", "month", ""]
DEFAULT = "*"
"""The name under which the quota of tenants without their own stands; no tenant can be called so."""
KINDS: tuple[What, ...] = ("runs", "tokens", "cost", "bytes")
PERIODS: tuple[Period, ...] = ("day", "month", "")
_FRESH = 0.5  # seconds for which what was read counts
_KEPT = 10_000  # tenants whose standings are remembered
_STOPS = {"tokens": StopReason.TOKEN_BUDGET_EXCEEDED, "cost": StopReason.COST_BUDGET_EXCEEDED}
_PLAN = "You exceeded your current quota"
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

    def amount(self, number: int | None) -> float | None:
        """Return a number of what is limited as people count it: money in the currency of the prices."""
        return number / NANOS if number is not None and self.what == "cost" else number


class Standing(NamedTuple):
    """A limit, what is used of it, and when the period ends, in Unix seconds (`None`: never)."""

    limit: Limit
    used: int
    resets_at: int | None = None

    @property
    def left(self) -> int | None:
        """What is left, at least 0; `None` without a limit."""
        return None if self.limit.most is None else max(0, self.limit.most - self.used)

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left."""
        return self.left == 0

    def describe(self) -> str:
        """Say that the limit is used up, and when it begins anew."""
        begins = "" if self.resets_at is None else f"; it begins anew at {format_time(self.resets_at)}"
        each = f" of this {self.limit.period}" if self.limit.period else ""
        return f"the quota of {self.limit.what}{each} is used up{begins}"


# ── limits ───────────────────────────────────────────────────────────────────────────────────────


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


# ── what is used of them ─────────────────────────────────────────────────────────────────────────


def standings(connection: Connection, tenant: str) -> tuple[Standing, ...]:
    """Return how a tenant stands with its quota now; empty if it has none."""
    return standings_of(connection, tenant, limits_of(connection, tenant), CLOCK.now())


def standings_of(connection: Connection, tenant: str, limits: Sequence[Limit], now: float) -> tuple[Standing, ...]:
    """Return how a tenant stands with each of `limits`. It takes the same time however much was used."""
    days: Mapping[int, Used] = {}
    if any(limit.period for limit in limits):
        days = used_since(connection, tenant, month_begin(now))
    used = {"day": days.get(day_of(now), NOTHING), "month": Used(*map(sum, zip(NOTHING, *days.values(), strict=True)))}
    return tuple(
        Standing(
            limit,
            bytes_kept(connection, tenant) if limit.what == "bytes" else getattr(used[limit.period], limit.what),
            period_end(limit.period, now),
        )
        for limit in limits
    )


def period_end(period: Period, now: float) -> int | None:
    """Return when the period that `now` is in ends, in Unix seconds; `None` for a level."""
    if not period:
        return None
    if period == "day":
        return (day_of(now) + 1) * DAY
    first = datetime.fromtimestamp(month_begin(now) * DAY, UTC)
    return int((first + timedelta(days=32)).replace(day=1).timestamp())


def format_time(seconds: int) -> str:
    """Return a time in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


class QuotaWatch:
    """The standings of tenants as of the last half second, for what is looked up often. A database without quotas is
    read once in that time, whatever is asked. Those who ask at the same time share one reading."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._limits = _Recent(lambda: database.read(all_limits, small=True))
        self._known: dict[tuple[str, tuple[Limit, ...]], _Recent[tuple[Standing, ...]]] = {}

    async def of(self, tenant: str) -> tuple[Standing, ...]:
        """Return how a tenant stands with its quota; empty if it has none. Raises `StoreUnavailable`."""
        there = await self._limits.get()
        limits = there.get(tenant) or there.get(DEFAULT)
        if not limits:
            return ()
        if (tenant, limits) not in self._known:
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[tenant, limits] = _Recent(partial(self._read, tenant, limits))
        return await self._known[tenant, limits].get()

    async def _read(self, tenant: str, limits: tuple[Limit, ...]) -> tuple[Standing, ...]:
        work = partial(standings_of, tenant=tenant, limits=limits, now=CLOCK.now())
        return await self._database.read(work, small=True)


class _Recent(Generic[T]):
    """What `read` returned within the last half second; of those who wait for it, one reads."""

    def __init__(self, read: Callable[[], Awaitable[T]]) -> None:
        self._read = read
        self._value: tuple[float, T] | None = None  # when it was read
        self._turn = asyncio.Lock()

    async def get(self) -> T:
        if self._value is None or time.monotonic() - self._value[0] > _FRESH:
            async with self._turn:
                if self._value is None or time.monotonic() - self._value[0] > _FRESH:
                    self._value = time.monotonic(), await self._read()
        return self._value[1]


# ── checks ───────────────────────────────────────────────────────────────────────────────────────


def check_run(connection: Connection, view: TenantView) -> None:
    """Check the quota for one more run. Other servers that would count meanwhile wait for the transaction's end, so a
    limit of runs holds exactly."""
    for one in _counting(connection, view.tenant, "runs"):
        if one.is_spent and one.limit.what != "bytes":
            wait = None if one.resets_at is None else max(1, math.ceil(one.resets_at - CLOCK.now()))
            raise LimitReached("quota", f"{_PLAN}: {one.describe()}. The server's operator may raise it.", wait)


def check_bytes(connection: Connection, view: TenantView, more: int) -> None:
    """Check the quota for so many more bytes than a tenant has."""
    for one in _counting(connection, view.tenant, "bytes"):
        if one.limit.what == "bytes" and one.limit.most is not None and one.used + more > one.limit.most:
            said = f"{one.used:,} of {one.limit.most:,} bytes are used, and {more:,} more are asked for"
            message = f"{_PLAN}: {said}. Delete something, or ask the server's operator for more."
            raise LimitReached("quota", message)


def _counting(connection: Connection, tenant: str, what: What) -> tuple[Standing, ...]:
    limits = limits_of(connection, tenant)
    if any(limit.what == what and limit.most is not None for limit in limits):
        lock_until_end(connection, COUNTING)
    return standings_of(connection, tenant, limits, CLOCK.now())


def check_texts(connection: Connection, view: TenantView, before: int) -> None:
    """Check the texts that a tenant has now, if they are more than `before` in this transaction."""
    kept = bytes_used(connection, view.tenant, "texts")
    if kept > before:
        check_bytes(connection, view, 0)
        if view.quota is not None:
            _check("bytes of texts", view.quota.bytes, kept)


def check_file(connection: Connection, view: TenantView, size: int) -> None:
    """Check one more file of `size` bytes."""
    check_bytes(connection, view, size)
    if (grant := _lock_grant(connection, view)) is not None:
        _check("files", grant.files, _count_rows(connection, view, files) + 1)
        _check("bytes of files", grant.bytes, bytes_used(connection, view.tenant, "files") + size)


def check_images(connection: Connection, view: TenantView, size: int) -> None:
    """Check images of `size` bytes together."""
    check_bytes(connection, view, size)
    if (grant := _lock_grant(connection, view)) is not None:
        _check("bytes of images", grant.bytes, bytes_used(connection, view.tenant, "images") + size)


def check_workspace(connection: Connection, view: TenantView, size: int) -> None:
    """Check contents of files in workspaces, of `size` bytes together as they are kept."""
    check_bytes(connection, view, size)
    if (grant := _lock_grant(connection, view)) is not None:
        _check("bytes in workspaces", grant.bytes, bytes_used(connection, view.tenant, "workspaces") + size)


def check_store(connection: Connection, view: TenantView) -> None:
    """Check one more vector store."""
    if (grant := _lock_grant(connection, view)) is not None:
        _check("vector stores", grant.stores, _count_rows(connection, view, vector_stores) + 1)


def check_store_files(connection: Connection, view: TenantView, more: int) -> None:
    """Check `more` files in vector stores. The size of their text is known only after indexing."""
    if (grant := _lock_grant(connection, view)) is None:
        return
    _check("files in vector stores", grant.files, _count_rows(connection, view, vector_store_files) + more)
    used = select(func.sum(vector_store_files.c.usage_bytes)).where(vector_store_files.c.tenant == view.tenant)
    _check("bytes of texts in vector stores", grant.bytes, int(connection.execute(used).scalar() or 0) + 1)


def _lock_grant(connection: Connection, view: TenantView) -> Quota | None:
    if view.quota is not None:
        lock_until_end(connection, COUNTING)
    return view.quota


def _count_rows(connection: Connection, view: TenantView, table: Table) -> int:
    counted = select(func.count()).select_from(table).where(table.c.tenant == view.tenant)
    return connection.execute(counted).scalar() or 0


def _check(what: str, most: int, wanted: int) -> None:
    if wanted > most:
        said = f"you may keep {most:,} {what}. Delete some, or ask the server's operator for more."
        raise LimitReached("storage", f"Storage limit reached: {said}")


class QuotaStop:
    """Looks after the quota of `tenant` for one drive of a run. What the run was doing is not interrupted: it is looked
    at where a request to a model is about to be made."""

    def __init__(self, watch: QuotaWatch, tenant: str) -> None:
        self._watch = watch
        self._tenant = tenant
        self._spent: Standing | None = None
        self.is_limited = False
        """Whether the tenant has a quota, so that what its runs use is counted at once."""

    async def lets_ask(self) -> bool:
        """Whether the model may be asked. Raises `StoreUnavailable`."""
        there = await self._watch.of(self._tenant)
        self.is_limited = bool(there)
        self._spent = next((one for one in there if one.is_spent and one.limit.what in _STOPS), None)
        return self._spent is None

    def end_of(self, event: Finished | Stopped) -> Finished | Stopped:
        """Return how the run ends: if it was stopped here, not as cancelled, but as by a budget that is used up."""
        if self._spent is None or not isinstance(event, Stopped) or event.reason is not StopReason.CANCELLED:
            return event
        return replace(event, reason=_STOPS[self._spent.limit.what], detail=self._spent.describe())
