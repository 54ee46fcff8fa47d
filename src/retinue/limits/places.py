"""How many runs are driven at once, by this process and by all of a database together, and which of those that wait
come next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection

from ..store.due import TIERS, USUAL, Driven, Due, driven_runs
from ..store.engines import CLAIMING, lock_until_end
from ..store.run_row import RunRow

AT_ONCE = 200
_TIMES_FREE = 9  # a tenant drives at most so many times as many runs as there are free places
_SEVERAL, _KEPT = 10, 20  # of several places, one in so many is kept for tenants of which no run is driven

Bucket = tuple[str, str]  # what a limit counts: "tenant", "agent", "model" or "key", and its name


@dataclass(frozen=True, slots=True)
class RunLimits:
    """How many runs all processes of a database may drive at once.

    A run that only has to end needs no room; nor does one whose members have it, or that waits for a person.

    Args:
        tenant: For each tenant; `None` is unlimited.
        agents: By the agent's name.
        models: By the model's address (`HOST:PORT`), or its name if it has none.
        keys: Returns the limit of an API key, given the key's id.
        names: Returns the names of the agent at a path of a team, and of its model.
    """

    tenant: int | None = None
    agents: Mapping[str, int] = field(default_factory=dict)
    models: Mapping[str, int] = field(default_factory=dict)
    keys: Callable[[str | None], int | None] = lambda key_id: None
    names: Callable[[str], tuple[str, str]] = lambda path: (path, "")

    def concern(self, key_id: str | None) -> bool:
        """Whether a run of this key has to be counted against a limit."""
        return self.tenant is not None or bool(self.agents or self.models) or self.keys(key_id) is not None

    def admit(self, connection: Connection, run: RunRow) -> bool:
        """Whether there is room for a run that is about to be claimed, until the transaction ends. Call it before the
        run's row is locked."""
        lock_until_end(connection, CLAIMING)
        counted = self.count(driven_runs(connection, [run.id]))
        return self.has_room(counted, Driven(run.tenant, run.agent, run.key_id, 1))

    def has_room(self, counted: Mapping[Bucket, int], one: Driven | Due) -> bool:
        """Whether one more run may be driven beside those `counted`."""
        for bucket in self._buckets(one):
            kind, name = bucket
            match kind:
                case "tenant":
                    limit = self.tenant
                case "agent":
                    limit = self.agents.get(name)
                case "model":
                    limit = self.models.get(name)
                case _:
                    limit = self.keys(one.key_id)
            if limit is not None and counted.get(bucket, 0) >= limit:
                return False
        return True

    def count(self, driven: Iterable[Driven]) -> Counter[Bucket]:
        """Return how many runs are driven, by what limits count."""
        counted: Counter[Bucket] = Counter()
        for one in driven:
            for bucket in self._buckets(one):
                counted[bucket] += one.number
        return counted

    def add(self, counted: Counter[Bucket], one: Due) -> None:
        """Count one more run."""
        counted.update(self._buckets(one))

    def _buckets(self, one: Driven | Due) -> Iterator[Bucket]:
        agent, model = self.names(one.agent)
        yield from (("tenant", one.tenant), ("agent", agent), ("model", model), ("key", one.key_id or ""))


class Room:
    """The places of a process for the runs that it drives, and those that are known to wait for one.

    Tenants take turns: the next run is one of the tenant of which the fewest are driven, and of those with equally
    many, of the one that had its last turn first. Of a tenant's runs, the highest tier comes first, then the oldest.
    Some places are kept for tenants of which no run is driven, and of the others a tenant gets another one only while
    it has less than nine times as many as are free.
    """

    def __init__(self, at_once: int = AT_ONCE, limits: RunLimits | None = None) -> None:
        self.at_once = at_once
        self.limits = limits or RunLimits()
        self.waiting: dict[str, Due] = {}
        self._driven: dict[str, tuple[str, str | None]] = {}  # tenant and key, by run
        self._turns: dict[str, int] = {}  # the number of its last turn, by tenant
        self._turn = 0

    @property
    def driven(self) -> int:
        """The number of runs that this process drives."""
        return len(self._driven)

    @property
    def queued(self) -> int:
        """The number of runs that are known to wait."""
        return len(self.waiting)

    @property
    def free(self) -> int:
        """The number of free places."""
        return max(0, self.at_once - len(self._driven))

    def of_key(self, key_id: str) -> int:
        """Return how many runs of an API key are driven here, or known to wait."""
        waiting = sum(one.key_id == key_id for one in self.waiting.values())
        return waiting + sum(key == key_id for _, key in self._driven.values())

    def take(self, run: RunRow) -> None:
        """Count a run that this process drives from now on, unless it only has to end."""
        self.waiting.pop(run.id, None)
        if run.status != "cancelling" and not run.ending:
            self._turn += 1
            self._turns[run.tenant] = self._turn
            self._driven[run.id] = (run.tenant, run.key_id)

    def leave(self, run_id: str) -> bool:
        """Count a run no longer. Return whether it had a place."""
        return self._driven.pop(run_id, None) is not None

    def admits(self, run: RunRow) -> bool:
        """Whether this process should drive a run at once: nobody who waits comes first, and no limit of all processes
        has to be looked at."""
        if run.status == "cancelling" or run.ending or run.id in self._driven:
            return True
        counted = Counter(tenant for tenant, _ in self._driven.values())
        return not self.waiting and not self.limits.concern(run.key_id) and self._has_place(counted, run.tenant)

    def offer(self) -> Offer:
        """Return a copy of what is needed to choose the next runs, for another thread."""
        counted = Counter(tenant for tenant, _ in self._driven.values())
        return Offer(self, list(self.waiting.values()), counted, dict(self._turns))

    def _has_place(self, counted: Counter[str], tenant: str) -> bool:
        free = self.at_once - counted.total()
        kept = max(1, self.at_once // _KEPT) if self.at_once >= _SEVERAL else 0
        return free > 0 and (not counted[tenant] or counted[tenant] < _TIMES_FREE * (free - kept))


@dataclass(frozen=True, slots=True)
class Offer:
    """The runs that wait for this process, oldest first, how many it drives by tenant, and the tenants' last turns."""

    room: Room
    waiting: Sequence[Due]
    here: Counter[str] = field(default_factory=Counter)
    turns: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_limited(self) -> bool:
        """Whether limits of all processes concern one of the runs."""
        return any(self.room.limits.concern(one.key_id) for one in self.waiting)

    def choose(self, driven: Sequence[Driven] = ()) -> list[Due]:
        """Choose the runs to begin: those that only have to end, and of the others those for which there is room beside
        those `driven` by all processes."""
        limits, here, turns = self.room.limits, Counter(self.here), dict(self.turns)
        counted, share, turn = limits.count(driven), Counter(self.here), max(self.turns.values(), default=0)
        if driven:
            share = Counter()
            for each in driven:
                share[each.tenant] += each.number
        chosen = [one for one in self.waiting if one.ends]
        lanes: dict[str, list[Due]] = {}
        for one in self.waiting:
            if not one.ends:
                lanes.setdefault(one.tenant, []).append(one)
        for lane in lanes.values():
            lane.sort(key=lambda one: TIERS.get(one.tier or "", USUAL))
        while lanes:
            tenant = min(lanes, key=lambda one: (share[one], turns.get(one, 0)))
            next_one = None
            if self.room._has_place(here, tenant):
                next_one = next((one for one in lanes[tenant] if limits.has_room(counted, one)), None)
            if next_one is None:
                del lanes[tenant]
                continue
            lanes[tenant].remove(next_one)
            if not lanes[tenant]:
                del lanes[tenant]
            chosen.append(next_one)
            turn += 1
            turns[tenant] = turn
            share[tenant] += 1
            here[tenant] += 1
            limits.add(counted, next_one)
        return chosen
