"""How a tenant stands with its quota: what it has used of each limit, and when that begins anew."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NamedTuple
from weakref import WeakValueDictionary

from sqlalchemy import Connection

from ..core.values import StopReason
from .clock import CLOCK
from .database import Database
from .quotas import DEFAULT, Limit, Period, all_limits, limits_of
from .storage_use import bytes_kept
from .usage_sums import DAY, NOTHING, Used, day_of, used_since

_FRESH = 0.5  # seconds for which what was read counts
_KEPT = 10_000  # tenants whose standings are remembered
_STOPS = {"tokens": StopReason.TOKEN_BUDGET_EXCEEDED, "cost": StopReason.COST_BUDGET_EXCEEDED}


class Standing(NamedTuple):
    """A limit, what is used of it, and when the period ends, in Unix seconds (`None`: never)."""

    limit: Limit
    used: int
    resets_at: int | None = None

    @property
    def left(self) -> int | None:
        """What is left, at least 0; `None` without a limit."""
        return None if self.limit.most is None else max(0, self.limit.most - self.used)


class SpentQuota(NamedTuple):
    """Why a run may ask no model any more: the budget's reason, and words for a person."""

    reason: StopReason
    detail: str


def period_begin(period: Period, now: float) -> int:
    """Return the first day of the period that `now` is in, counted from 1970 in UTC."""
    today = day_of(now)
    return today if period == "day" else today - datetime.fromtimestamp(now, UTC).day + 1


def period_end(period: Period, now: float) -> int | None:
    """Return when the period that `now` is in ends, in Unix seconds; `None` for a level."""
    if not period:
        return None
    if period == "day":
        return (day_of(now) + 1) * DAY
    first = datetime.fromtimestamp(period_begin(period, now) * DAY, UTC)
    return int((first + timedelta(days=32)).replace(day=1).timestamp())


def standings_of(connection: Connection, tenant: str, limits: Sequence[Limit], now: float) -> tuple[Standing, ...]:
    """Return how a tenant stands with each of `limits`. It takes the same time however much was used."""
    if not limits:
        return ()
    month = period_begin("month", now)
    days = used_since(connection, tenant, month) if any(limit.period for limit in limits) else {}
    used = {"day": days.get(day_of(now), NOTHING), "month": _sum(days)}
    return tuple(
        Standing(
            limit,
            bytes_kept(connection, tenant) if limit.what == "bytes" else getattr(used[limit.period], limit.what),
            period_end(limit.period, now),
        )
        for limit in limits
    )


def standing(connection: Connection, tenant: str) -> tuple[Standing, ...]:
    """Return how a tenant stands with its quota now; empty if it has none."""
    return standings_of(connection, tenant, limits_of(connection, tenant), CLOCK.now())


def _sum(days: Mapping[int, Used]) -> Used:
    total = NOTHING
    for one in days.values():
        total = total.plus(one)
    return total


class QuotaWatch:
    """The standings of tenants as of the last half second, for what is looked up often. A database without quotas is
    read once in that time, whatever is asked. Those who ask at the same time share one reading."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._limits: Mapping[str, tuple[Limit, ...]] = {}
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()  # held by the one who reads the limits
        self._known: dict[str, tuple[float, tuple[Standing, ...]]] = {}
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # of who reads a tenant's standing

    async def of(self, tenant: str) -> tuple[Standing, ...]:
        """Return how a tenant stands with its quota; empty if it has none. Raises `StoreUnavailable`."""
        if self._are_old():
            async with self._reading:
                if self._are_old():
                    now = time.monotonic()
                    self._limits = await self._database.read(all_limits, small=True)
                    self._read_at = now
        limits = self._limits.get(tenant) or self._limits.get(DEFAULT)
        if not limits:
            return ()
        known = self._fresh(tenant, limits)
        return await self._read(tenant, limits) if known is None else known

    def _are_old(self) -> bool:
        return time.monotonic() - self._read_at > _FRESH

    def _fresh(self, tenant: str, limits: Sequence[Limit]) -> tuple[Standing, ...] | None:
        read_at, known = self._known.get(tenant, (float("-inf"), ()))
        is_fresh = time.monotonic() - read_at <= _FRESH and [one.limit for one in known] == list(limits)
        return known if is_fresh else None

    async def _read(self, tenant: str, limits: Sequence[Limit]) -> tuple[Standing, ...]:
        async with self._turns.setdefault(tenant, asyncio.Lock()):
            if (known := self._fresh(tenant, limits)) is not None:
                return known
            now = time.monotonic()
            work = partial(standings_of, tenant=tenant, limits=limits, now=CLOCK.now())
            read = await self._database.read(work, small=True)
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[tenant] = now, read
            return read


def spent_quota(standings: Sequence[Standing]) -> SpentQuota | None:
    """Return why a run of a tenant that stands so may ask no model any more; `None` while it may."""
    for one in standings:
        if one.left == 0 and one.limit.what in _STOPS:
            return SpentQuota(_STOPS[one.limit.what], spent_words(one))
    return None


def spent_words(one: Standing) -> str:
    """Say that a limit is used up, and when it begins anew."""
    begins = "" if one.resets_at is None else f"; it begins anew at {moment(one.resets_at)}"
    each = f" of this {one.limit.period}" if one.limit.period else ""
    return f"the quota of {one.limit.what}{each} is used up{begins}"


def moment(seconds: int) -> str:
    """Return a time in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
