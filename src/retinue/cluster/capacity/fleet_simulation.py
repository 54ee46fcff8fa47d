"""The simulation: a run's way through servers, the database, the queue, workers and the model endpoint."""

from __future__ import annotations

import math
import random
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from .capacity_figures import Figures, spread_of
from .machine import Machine, Program
from .rate_limited_endpoint import RateLimitedEndpoint, drawn
from .run_places import CommitGroups, Places
from .virtual_time import Process, VirtualTime, Wait
from .workload import Endpoint, Fleet, Workload

_PERSON = 5.0  # seconds: a longer wait changes only how many wait, for who waits uses nothing


def simulate(load: Workload, endpoint: Endpoint, fleet: Fleet, *, seconds: float = 120.0, seed: int = 0) -> Figures:
    """Simulate so many seconds, after a quarter as many to get going. The same arguments give the same figures."""
    simulation = _Simulation(load, endpoint, fleet, random.Random(seed))
    warm = max(seconds / 4, 3 * (endpoint.seconds + load.tool_seconds) * load.mean_steps)
    simulation.start()
    simulation.time.run(warm)
    simulation.forget()
    simulation.time.run(warm + seconds)
    return simulation.figures(seconds)


@dataclass
class _Seen:
    """Of runs since the start, or since the last look."""

    offered: int = 0
    failed: int = 0
    seconds: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)


@dataclass
class _Visit:
    """One run: when it began, and how long it waited for a place and for a person."""

    began: float
    waited: float = 0.0
    person: float = 0.0


class _Simulation:
    def __init__(self, load: Workload, endpoint: Endpoint, fleet: Fleet, dice: random.Random) -> None:
        self.time = VirtualTime()
        self._load, self._what, self._fleet, self._dice = load, endpoint, fleet, dice
        self._cores = max(0.1, fleet.cores - _idle(fleet)) if fleet.cores else math.inf
        machine = Machine(self.time, self._cores)
        threads = math.inf if fleet.cores else fleet.database_cores
        self._database = Program(machine, threads)
        self._temporal, self._clients, model = (Program(machine, each) for each in (math.inf, 1, 1))
        self._servers = [self._process(machine) for _ in range(fleet.servers)]
        self._workers = [self._process(machine) for _ in range(fleet.workers)]
        self._places = Places(self.time, fleet.workers, fleet.places)
        self._endpoint = RateLimitedEndpoint(self.time, endpoint, dice, model)
        self._programs = [self._database, self._temporal, self._clients, model]
        self._programs += [program for program, _ in (*self._servers, *self._workers)]
        self._seen = _Seen()
        self._next = 0

    def start(self) -> None:
        """Let runs come."""
        if self._load.per_second:
            self.time.start(self._arrivals())
        for _ in range(self._load.clients):
            self.time.start(self._client())

    def forget(self) -> None:
        """Begin the figures anew."""
        self._seen = _Seen()
        for level in (self._places.used, self._places.queued, self._endpoint.places.used):
            level.reset()
        for program in self._programs:
            program.seconds = 0.0
        for _, commits in (*self._servers, *self._workers):
            commits.commits = 0
        self._endpoint.replies = self._endpoint.refusals = 0

    def figures(self, seconds: float) -> Figures:
        """Return what came of the last so many seconds."""
        seen, asked = self._seen, self._endpoint.replies + self._endpoint.refusals
        return Figures(
            offered=seen.offered / seconds,
            per_second=len(seen.seconds) / seconds,
            failed=seen.failed / seconds,
            seconds=spread_of(seen.seconds),
            waits=spread_of(seen.waits),
            queued=self._places.queued.mean,
            under_way=self._places.used.mean,
            used=self._used(seconds),
            refused=self._endpoint.refusals / asked if asked else 0.0,
            commits=sum(commits.commits for _, commits in (*self._servers, *self._workers)) / seconds,
        )

    def _used(self, seconds: float) -> dict[str, float]:
        fleet, what, minutes = self._fleet, self._what, seconds / 60
        used = {
            "servers": _busy(self._servers, seconds) + fleet.costs.server.idle,
            "workers": _busy(self._workers, seconds) + fleet.costs.worker.idle,
            "places": self._places.used.mean / (fleet.workers * fleet.places),
        }
        if fleet.cores:
            used["cores"] = sum(program.seconds for program in self._programs) / seconds / self._cores
        else:
            used["database"] = self._database.seconds / seconds / fleet.database_cores
        if what.places:
            used["model's places"] = self._endpoint.places.used.mean / what.places
        if what.requests_per_minute:
            used["model's requests"] = self._endpoint.replies / minutes / what.requests_per_minute
        if what.tokens_per_minute:
            used["model's tokens"] = self._endpoint.replies * what.tokens / minutes / what.tokens_per_minute
        return used

    def _process(self, machine: Machine) -> tuple[Program, CommitGroups]:
        return Program(machine), CommitGroups(self.time, self._database, self._fleet.costs.commit_seconds)

    def _arrivals(self) -> Process:
        while True:
            yield self.time.after(self._dice.expovariate(self._load.per_second))
            self.time.start(self._run())

    def _client(self) -> Process:
        while True:
            yield from self._run()

    def _run(self) -> Process:
        costs, visit = self._fleet.costs, _Visit(self.time.now)
        self._seen.offered += 1
        self._next += 1
        server, commits = self._servers[self._next % len(self._servers)]
        yield self._clients.work(costs.clients.run)
        yield server.work(costs.server.run / 2)
        yield commits.write(costs.postgres.run / 2)
        steps = self._dice.choices([*self._load.steps], [*self._load.steps.values()])[0]
        asked = self._dice.randrange(steps) if self._dice.random() < self._load.asks else None
        answered = yield from self._driven(visit, steps, asked, server)
        yield server.work(costs.server.run / 2)
        if answered:
            self._seen.seconds.append(self.time.now - visit.began - visit.person)
            self._seen.waits.append(visit.waited)
        else:
            self._seen.failed += 1

    def _driven(self, visit: _Visit, steps: int, asked: int | None, server: Program) -> Generator[Wait, Any, bool]:
        """Drive a run to its end, of which `server` hears; `asked`: the step after which a person is asked."""
        owner = yield from self._taken(visit, 1.0)
        answered = True
        for step in range(steps):
            answered = yield from self._step(owner)
            if not answered:
                break
            self._beside(server, self._fleet.costs.server.step)
            if step == asked:
                self._places.give(owner)
                before = self.time.now
                yield self.time.after(drawn(self._dice, min(self._load.person_seconds, _PERSON), 1.0))
                visit.person += self.time.now - before
                owner = yield from self._taken(visit, 0.5)
            elif step < steps - 1 and self._load.tool_seconds:
                yield self.time.after(drawn(self._dice, self._load.tool_seconds, self._load.tool_spread))
        worker, commits = self._workers[owner]
        yield worker.work(self._fleet.costs.worker.run / 2)
        yield commits.write(self._fleet.costs.postgres.run / 2)
        self._places.give(owner)
        self._beside(self._temporal, self._fleet.costs.temporal.run / 2)
        return answered

    def _beside(self, program: Program, seconds: float) -> None:
        """Let a program work while the run goes on."""

        def work() -> Process:
            yield program.work(seconds)

        if seconds:
            self.time.start(work())

    def _taken(self, visit: _Visit, part: float) -> Generator[Wait, Any, int]:
        """Dispatch a run, and wait for a place; `part`: of what a dispatch costs for a whole run."""
        costs = self._fleet.costs
        yield self._temporal.work(costs.temporal.run * part / 2)
        yield self.time.after(costs.dispatch_seconds * part)
        before = self.time.now
        owner: int = yield self._places.take()
        visit.waited += self.time.now - before
        yield self._workers[owner][0].work(costs.worker.run / 2)
        return owner

    def _step(self, owner: int) -> Generator[Wait, Any, bool]:
        costs, (worker, commits) = self._fleet.costs, self._workers[owner]
        yield worker.work(costs.worker.step / 2)
        if not (yield from self._endpoint.ask(costs.endpoint.step)):
            return False
        yield worker.work(costs.worker.step / 2)
        yield commits.write(costs.postgres.step)
        return True


def _idle(fleet: Fleet) -> float:
    """Return the cores that the processes take while nothing happens."""
    costs = fleet.costs
    one_each = (costs.postgres, costs.temporal, costs.clients, costs.endpoint)
    return fleet.servers * costs.server.idle + fleet.workers * costs.worker.idle + sum(cost.idle for cost in one_each)


def _busy(processes: list[tuple[Program, CommitGroups]], seconds: float) -> float:
    return sum(program.seconds for program, _ in processes) / seconds / len(processes)
