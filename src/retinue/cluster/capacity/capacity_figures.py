"""What came of a simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

BUSY = 0.85  # of a resource, from which on it holds the others up


@dataclass(frozen=True, slots=True)
class Spread:
    """Seconds: their mean, and how many are exceeded by half, by 5 % and by 1 % of runs."""

    mean: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one simulation.

    Attributes:
        offered, per_second, failed: runs a second that came, that ended, and that the endpoint refused too often
        seconds: from a run's request to its end, without the time that people take
        waits: for a place
        queued, under_way: runs that wait for a place, and that have one, on average
        used: the share that is used of each resource with a limit
        refused: the share of requests to the model that are refused at first
        commits: groups of writes a second
    """

    offered: float
    per_second: float
    failed: float
    seconds: Spread
    waits: Spread
    queued: float
    under_way: float
    used: Mapping[str, float] = field(default_factory=dict)
    refused: float = 0.0
    commits: float = 0.0

    @property
    def bottleneck(self) -> str | None:
        """The resource that holds the others up, if one does."""
        name = max(self.used, key=lambda one: self.used[one], default=None)
        return name if name is not None and self.used[name] >= BUSY else None


def spread_of(values: Sequence[float]) -> Spread:
    """Return how values are spread; nothing for no values."""
    if not values:
        return Spread()
    ordered = sorted(values)
    p50, p95, p99 = (ordered[min(len(ordered) - 1, int(len(ordered) * part))] for part in (0.5, 0.95, 0.99))
    return Spread(sum(ordered) / len(ordered), p50, p95, p99)
