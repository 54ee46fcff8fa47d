"""Limits on how many runs are driven at once by all processes of a database together, per tenant, agent and model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection

from ..store.advisory_lock import CLAIMING, lock_until_end
from ..store.run_queries import TIERS, USUAL, Driven, Waiting, driven_runs, runs_that_wait
from ..store.run_row import RunRow

Bucket = tuple[str, str]  # what a limit counts: "tenant", "agent" or "model", and its name


@dataclass(frozen=True, slots=True)
class ConcurrencyLimits:
    """How many runs may be driven at once.

    A run that only has to end needs no room; nor does one whose members have it, or that waits for a person.

    Args:
        tenant: For each tenant; `None` is unlimited.
        agents: By the agent's name.
        models: By the model's address (`HOST:PORT`), or its name if it has none.
        names: Returns the names of the agent at a path of a team, and of its model.
    """

    tenant: int | None = None
    agents: Mapping[str, int] = field(default_factory=dict)
    models: Mapping[str, int] = field(default_factory=dict)
    names: Callable[[str], tuple[str, str]] = lambda path: (path, "")

    def claim(self, connection: Connection, run_id: str) -> Claim:
        """Return what says whether a run may be driven, until the transaction ends. Call it before the run's row is
        locked."""
        lock_until_end(connection, CLAIMING)
        return Claim(self, self._counted(driven_runs(connection, run_id)))

    def next_runs(self, connection: Connection, process: str, most: int | None = None) -> list[str]:
        """Return the ids of the runs for which there is room and that no living process but `process` drives: at most
        `most`, in the order in which they should begin."""
        return self.choose(runs_that_wait(connection, process), driven_runs(connection), most)

    def choose(self, waiting: Sequence[Waiting], driven: Iterable[Driven], most: int | None = None) -> list[str]:
        """Choose from the runs that wait, oldest first, those for which there is room. The next one is always of the
        tenant of which the fewest are driven, and of these runs the one of the highest tier, then the oldest."""
        driven = list(driven)
        counted = self._counted(driven)
        share: Counter[str] = Counter()
        for tenant, _, number in driven:
            share[tenant] += number
        chosen = [one.run_id for one in waiting if one.ends]
        lanes: dict[str, list[Waiting]] = {}
        for one in waiting:
            if not one.ends:
                lanes.setdefault(one.tenant, []).append(one)
        for lane in lanes.values():
            lane.sort(key=lambda one: TIERS.get(one.tier or "", USUAL))
        while lanes and (most is None or len(chosen) < most):
            tenant = min(lanes, key=lambda one: share[one])
            there = next((one for one in lanes[tenant] if self.has_room(counted, one.tenant, one.agent)), None)
            if there is None:
                del lanes[tenant]
                continue
            lanes[tenant].remove(there)
            if not lanes[tenant]:
                del lanes[tenant]
            chosen.append(there.run_id)
            share[tenant] += 1
            counted.update(self._buckets(tenant, there.agent))
        return chosen[:most]

    def has_room(self, counted: Mapping[Bucket, int], tenant: str, path: str) -> bool:
        """Whether one more run may be driven beside those `counted`."""
        most = {"tenant": {tenant: self.tenant}, "agent": self.agents, "model": self.models}
        limits = ((bucket, most[bucket[0]].get(bucket[1])) for bucket in self._buckets(tenant, path))
        return all(limit is None or counted.get(bucket, 0) < limit for bucket, limit in limits)

    def _buckets(self, tenant: str, path: str) -> Iterator[Bucket]:
        agent, model = self.names(path)
        yield from (("tenant", tenant), ("agent", agent), ("model", model))

    def _counted(self, driven: Iterable[Driven]) -> Counter[Bucket]:
        counted: Counter[Bucket] = Counter()
        for one in driven:
            for bucket in self._buckets(one.tenant, one.agent):
                counted[bucket] += one.number
        return counted


@dataclass(frozen=True, slots=True)
class Claim:
    """Whether a run may be driven beside those `counted`."""

    limits: ConcurrencyLimits
    counted: Mapping[Bucket, int]

    def admits(self, run: RunRow) -> bool:
        """Whether there is room for the run, or it only has to end."""
        if run.status == "cancelling" or run.ending:
            return True
        return self.limits.has_room(self.counted, run.tenant, run.agent)
