"""How large a fleet must be for a load: workers, servers, the database, disk, and what the model must allow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from .capacity_figures import Figures
from .fleet_simulation import simulate
from .workload import Endpoint, Fleet, Workload

WORKER_CPU = 0.7  # of a process's one core: beyond that, steps begin to wait for each other
DATABASE_CPU = 0.5  # of PostgreSQL's cores: the rest is for vacuuming, backups and bad days
LONGEST_WAIT = 0.5  # seconds for a place, of 95 % of runs
CONNECTIONS = 17  # of a process, at most: a pool of 15, one for notifications and one for its lock
LIMIT_USED = 0.9  # of an endpoint's limits: nearer to them, requests are refused by chance
MOST_CONNECTIONS = 1_000  # of one PostgreSQL
_LEAST = 2  # of each kind of process, so that one may die
_SLICE = 40.0  # runs a second: of a larger fleet, an equal slice of everything is simulated
_SECONDS = 90.0  # that are simulated
_TRIES = 30


@dataclass(frozen=True, slots=True)
class Demand:
    """What is asked of a fleet: runs a day, of which `peak` times as many come at the busiest time as on average."""

    per_day: float
    peak: float = 3.0

    @property
    def per_second(self) -> float:
        """Runs a second at the busiest time."""
        return self.per_day / 86_400 * self.peak


@dataclass(frozen=True, slots=True)
class Size:
    """A fleet, and what it does at the peak.

    Attributes:
        figures: of a slice that is `slices` times smaller
        database_cores: that PostgreSQL is busy with
        connections: to PostgreSQL, at most
        databases: that are needed, each with a fleet of its own
        too_low: limits of the model's endpoint, by their names: what is wanted a minute (or at once), and what there is
        waiting: runs that wait for people
    """

    workers: int
    servers: int
    figures: Figures
    slices: float
    database_cores: float
    connections: int
    databases: int
    transactions: float
    bytes_per_day: float
    requests_per_minute: float
    tokens_per_minute: float
    replies_at_once: float
    too_low: Mapping[str, tuple[float, float]]
    waiting: float

    @property
    def enough(self) -> bool:
        """Whether the load is carried: the model allows it, and no queue grows."""
        return not self.too_low and self.figures.per_second >= 0.95 * self.figures.offered

    @property
    def next_limit(self) -> str:
        """The resource that is used most."""
        return max(self.figures.used, key=lambda name: self.figures.used[name])


def size_fleet(
    demand: Demand, load: Workload, endpoint: Endpoint, fleet: Fleet, *, workers: int | None = None, seed: int = 0
) -> Size:
    """Return the smallest fleet that is not busier than advisable, or one of so many `workers`. `fleet` says the rest:
    its places, costs and the database's cores. The load's own rate does not matter."""
    rate, steps, costs = demand.per_second, load.mean_steps, fleet.costs
    slices = max(1.0, rate / _SLICE)
    database = rate * (costs.postgres.run + steps * costs.postgres.step)
    too_low = _too_low(endpoint, rate * steps)
    there = endpoint if not too_low else replace(endpoint, requests_per_minute=0, tokens_per_minute=0, places=0)
    servers = max(_LEAST, math.ceil(rate * (costs.server.run + steps * costs.server.step) / WORKER_CPU))
    part = replace(fleet, servers=math.ceil(servers / slices))
    sliced = replace(load, per_second=rate / slices, clients=0)
    narrow = _narrowed(there, slices)
    if workers is None:
        found, figures = _smallest(sliced, narrow, part, seed)
        workers = max(_LEAST, math.ceil(found * slices))
    else:
        part = replace(part, workers=max(1, round(workers / slices)))
        figures = simulate(sliced, narrow, part, seconds=_SECONDS, seed=seed)
    connections = (workers + servers) * CONNECTIONS
    databases = max(database / (fleet.database_cores * DATABASE_CPU), connections / MOST_CONNECTIONS)
    return Size(
        workers=workers,
        servers=servers,
        figures=figures,
        slices=slices,
        database_cores=database,
        connections=connections,
        databases=max(1, math.ceil(databases)),
        transactions=rate * (costs.commits_run + steps * costs.commits_step),
        bytes_per_day=demand.per_day * (costs.bytes_run + steps * costs.bytes_step),
        requests_per_minute=rate * steps * 60,
        tokens_per_minute=rate * steps * endpoint.tokens * 60,
        replies_at_once=rate * steps * endpoint.seconds,
        too_low=too_low,
        waiting=demand.per_day / 86_400 * load.asks * load.person_seconds,
    )


def _too_low(endpoint: Endpoint, per_second: float) -> dict[str, tuple[float, float]]:
    """Return the limits that so many requests a second would exceed, or come too near to."""
    wanted = {
        "requests a minute": (per_second * 60, endpoint.requests_per_minute),
        "tokens a minute": (per_second * 60 * endpoint.tokens, endpoint.tokens_per_minute),
        "replies at once": (per_second * endpoint.seconds, float(endpoint.places)),
    }
    return {name: (want, most) for name, (want, most) in wanted.items() if most and want > most * LIMIT_USED}


def _narrowed(endpoint: Endpoint, slices: float) -> Endpoint:
    return replace(
        endpoint,
        places=math.ceil(endpoint.places / slices),
        requests_per_minute=endpoint.requests_per_minute / slices,
        tokens_per_minute=endpoint.tokens_per_minute / slices,
    )


def _smallest(load: Workload, endpoint: Endpoint, fleet: Fleet, seed: int) -> tuple[int, Figures]:
    """Return the least number of workers that are not too busy and leave nobody waiting, and what they do."""
    cpu = load.per_second * (fleet.costs.worker.run + load.mean_steps * fleet.costs.worker.step)
    seconds = load.mean_steps * (endpoint.seconds + load.tool_seconds)
    workers = max(1, math.ceil(max(cpu / WORKER_CPU, load.per_second * seconds / fleet.places)))
    for _ in range(_TRIES):
        figures = simulate(load, endpoint, replace(fleet, workers=workers), seconds=_SECONDS, seed=seed)
        if figures.used["workers"] < WORKER_CPU * 1.05 and figures.waits.p95 <= LONGEST_WAIT:
            break
        workers += max(1, workers // 10)
    return workers, figures
