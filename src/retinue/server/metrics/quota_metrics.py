"""Prometheus metrics of quotas: what each tenant with a quota of its own has used, and its limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy import Connection

from ...limits.quotas import DEFAULT, all_limits, standings_of
from ...store.clock import CLOCK
from ...store.usage_sums import NANOS

MOST_TENANTS = 1_000
"""How many tenants are told of, the first by their names: each is a series of its own."""


class QuotaFigure(NamedTuple):
    """A tenant's limit: which (`tokens_month`, `bytes`), what is used of it, and the limit. Money is in the currency
    of the prices."""

    tenant: str
    quota: str
    used: float
    limit: float


def quota_figures(connection: Connection) -> list[QuotaFigure]:
    """Return the limits of the tenants that have a quota of their own. Reads two to four rows by key for each."""
    own = sorted((name, limits) for name, limits in all_limits(connection).items() if name != DEFAULT)
    found: list[QuotaFigure] = []
    for tenant, limits in own[:MOST_TENANTS]:
        for one in standings_of(connection, tenant, limits, CLOCK.now()):
            if one.limit.most is not None:
                unit = NANOS if one.limit.what == "cost" else 1
                name = f"{one.limit.what}_{one.limit.period}".rstrip("_")
                found.append(QuotaFigure(tenant, name, one.used / unit, one.limit.most / unit))
    return found


class QuotaCollector(Collector):
    """Collects `retinue_quota_used` and `retinue_quota_limit`. `read` returns what `quota_figures` does."""

    def __init__(self, read: Callable[[], Sequence[QuotaFigure]]) -> None:
        self._read = read

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metrics without samples: to register them reads nothing."""
        yield from _families()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metrics."""
        used, limit = _families()
        for one in self._read():
            used.add_metric([one.tenant, one.quota], one.used)
            limit.add_metric([one.tenant, one.quota], one.limit)
        yield from (used, limit)


def _families() -> tuple[GaugeMetricFamily, GaugeMetricFamily]:
    labels = ("tenant", "quota")
    return (
        GaugeMetricFamily("retinue_quota_used", "What a tenant has used of a limit of its quota.", labels=labels),
        GaugeMetricFamily("retinue_quota_limit", "The limit of a tenant's quota.", labels=labels),
    )
