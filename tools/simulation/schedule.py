"""A schedule: orders and faults that follow from a seed, and what came of them."""

from __future__ import annotations

import gc
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from random import Random

from retinue.server.agents.deployment import Deployment
from retinue.server.context import Options

from .clients import Clients, Order
from .invariants import Watch, check_end
from .notifications import Notifications
from .orders import LEDGER, Ledger, made_agents
from .server import SimulatedServer
from .store import Store
from .virtual_time import virtual_time
from .world import World

SERVERS = 3
_UNTIL = 400.0  # virtual seconds after which a schedule should long have ended
_SHORT = ("look", "pay", "pay", "sign", "fetch", "pay+note", "note, pay")
_SHAPES = ("look", "pay", "sign", "note, pay", "look+look, note", "pay+note", "fetch", "sign+pay", "look, sign, note")
_TEAMS = ("pay, look", "sign, note", "note+pay, sign", "fetch, pay")
_LEVELS = {"worker": (), "lead": (2,), "chief": (2, 2), "tight": (2,), "giver": (2,), "hasty": (2,)}


@dataclass(frozen=True)
class Size:
    """How much a schedule has: numbers of orders and of faults to choose from, the weights of the agents (worker, lead,
    chief, tight, giver, hasty), what workers do, and how many clients read a run's stream. Most schedules are small:
    there, all that can come in another order does so soon. Of 100,000, each size has thousands."""

    orders: tuple[int, ...]
    faults: tuple[int, ...]
    agents: tuple[float, ...]
    shapes: tuple[str, ...]
    reads: tuple[int, ...] = (0, 0, 1, 1, 2)


_SIZES = {
    Size((1,), (1, 1, 2), (1, 0, 0, 0, 0, 0), _SHORT, (0, 0, 0, 1)): 90,
    Size((1, 1, 1, 2), (0, 1, 1, 2), (4, 3, 0, 0.5, 2, 0.5), _SHAPES): 7,
    Size((1, 1, 1, 2, 2, 3), (0, 1, 1, 2, 2, 3, 4), (10, 5, 1, 1, 3, 1), _SHAPES): 3,
}


@dataclass(frozen=True)
class Fault:
    """A fault that is planned: when, what, at which server, and how long or how far."""

    at: float
    kind: str
    server: int
    size: float
    fuse: int = 0

    def __str__(self) -> str:
        return f"{self.kind} at {self.at:.2f} s, server {self.server}, size {self.size:.2f}, after {self.fuse} steps"


@dataclass(frozen=True)
class Plan:
    """What a seed comes to. `drop` are the numbers of the parts that are left out."""

    seed: int
    orders: tuple[Order, ...]
    faults: tuple[Fault, ...]
    loses: float
    flaky: float
    joins: float  # seconds after which the last server starts, while the others work
    options: Options


@dataclass
class Outcome:
    """What came of a schedule."""

    seed: int
    problems: list[str]
    faults: Counter[str]
    runs: int = 0
    teams: int = 0  # orders of a team
    asks: int = 0  # orders for which a person, or a client, is asked
    seconds: float = 0.0
    statements: int = 0
    parts: int = 0
    trace: list[str] = field(default_factory=list)


def planned(seed: int, drop: Collection[int] = ()) -> Plan:
    """Return the plan of a seed."""
    dice = Random(f"plan {seed}")
    expires = dice.random() < 0.1
    size = dice.choices(list(_SIZES), list(_SIZES.values()))[0]
    orders = [_order(dice, size, number) for number in range(dice.choice(size.orders))]
    for order in orders:
        order.expires = expires
    faults = [_fault(dice) for _ in range(dice.choice(size.faults))]
    loses = dice.choice((0.0, 0.0, 0.05, 0.2))
    flaky = dice.choice((0.0, 0.0, 0.0, 0.02, 0.2))
    joins = dice.choice((0.0, 4.0, 4.0, 4.0)) * dice.random()
    kept = [order for at, order in enumerate(orders) if at not in drop]
    for order in kept:
        order.abandons = order.abandons and all(one is order or one.thread != order.thread for one in kept)
        order.interrupted = any(one.thread == order.thread and one.strategy == "interrupt" for one in kept)
    left = [fault for at, fault in enumerate(faults, len(orders)) if at not in drop]
    ttl = dice.choice((2, 8)) if expires else 10_000
    options = Options(run_ttl=ttl, human_ttl=ttl)
    return Plan(seed, tuple(kept), tuple(left), loses, flaky, joins, options)


def _order(dice: Random, size: Size, number: int) -> Order:
    agent = dice.choices(list(_LEVELS), size.agents)[0]
    shapes = size.shapes if agent == "worker" else _TEAMS
    return Order(
        number=str(number),
        agent=agent,
        steps=dice.choice(shapes if agent != "chief" else ("pay, sign, note, look", "look, pay, fetch, note")),
        thread=f"thread_{dice.choice((0, number))}",
        levels=_LEVELS[agent],
        strategy=dice.choice(("enqueue", "enqueue", "interrupt", "reject")),
        cancels_after=dice.random() if dice.random() < 0.2 else None,
        abandons=dice.random() < 0.05,
        reads=dice.choice(size.reads),
    )


_KINDS = {
    "kill": 6,
    "kill for good": 2,
    "pause": 4,
    "stop": 3,
    "database away": 2,
    "answer lost": 2,
    "statement lost": 2,
    "clock set": 1,
    "database's clock set": 1,
    "dispatched again": 3,
    "woken": 1,
}


def _fault(dice: Random) -> Fault:
    kind = dice.choices(list(_KINDS), list(_KINDS.values()))[0]
    size = dice.choice((dice.random(), dice.random() * 5, dice.random() * 25))
    return Fault(dice.random() * 1.5, kind, dice.randrange(SERVERS), size, dice.randrange(1, 120))


class Schedule:
    """The world of one plan."""

    def __init__(self, plan: Plan, store: Store, deployment: Deployment, *, traced: bool = False) -> None:
        self._plan = plan
        self._store = store
        self._deployment = deployment
        self._numbers = [0] * SERVERS
        self.world = World(plan.seed, traced=traced)
        self.ledger = Ledger(self.world, store.rows)
        self._notifications = Notifications(self.world, store, plan.loses)
        self._servers: list[SimulatedServer] = []
        self._started_ever: list[SimulatedServer] = []
        self.clients: Clients

    def run(self) -> Outcome:
        """Do everything, and check it."""
        world, plan = self.world, self._plan
        self._store.begin(world)
        self._store.flaky = plan.flaky
        LEDGER[:] = [self.ledger]
        with virtual_time(world), self._notifications.connected():
            try:
                Watch(world, self._store)
                self._prepare()
                for fault in plan.faults:
                    world.later(fault.at, partial(self._inject, fault))
                for order in plan.orders:
                    self.clients.begin(order)
                if not world.run(self._over, _UNTIL):
                    world.failed(f"after {_UNTIL:.0f} s not everything has ended: {self._left()}")
                check_end(world, self._store, self.clients, self.ledger)
                runs = self._store.rows("SELECT count(*) FROM runs")[0][0]
            finally:
                world.dispose()
                self._store.world = None
                for one in self._started_ever:
                    one.server.database.close()
        problems = list(dict.fromkeys(world.problems))
        return Outcome(
            plan.seed,
            problems,
            world.faults,
            runs,
            seconds=world.now,
            statements=self._store.statements,
            trace=world.trace or [],
        )

    def _prepare(self) -> None:
        for at in range(SERVERS):
            self._servers.append(self._started(at, self._plan.joins if at == SERVERS - 1 else 0.0))
        self.clients = Clients(self.world, self.ledger, self._servers, self._plan.loses)

    def _started(self, at: int, after: float = 0.0) -> SimulatedServer:
        self._numbers[at] += 1
        process = f"server{at}.{self._numbers[at]}"
        server = SimulatedServer(self.world, self._store, self._deployment, process, self._plan.options, after)
        self._started_ever.append(server)
        return server

    def _over(self) -> bool:
        if self._checked == self._store.version:
            return False
        clients = self.clients
        for order in clients.orders:
            if not order.done:
                return False
        if any(one.is_due for one in clients.first_streams):
            return False
        self._checked = self._store.version
        active = (
            "SELECT 1 FROM runs WHERE status IN ('queued', 'in_progress', 'cancelling') AND driver IS NOT 'members'"
        )
        return not self._store.rows(active)

    _checked = -1

    def _left(self) -> list[tuple[str, ...]]:
        found = self._store.rows("SELECT id, status, driver FROM runs WHERE ended_at IS NULL")
        return [*found, *((order.number, "not done") for order in self.clients.orders if not order.done)]

    # ── faults ───────────────────────────────────────────────────────────────────────────────────

    def _inject(self, fault: Fault) -> None:
        _INJECT[fault.kind](self, fault)

    def _with_fuse(self, fault: Fault, blow: Callable[[SimulatedServer], None]) -> None:
        server = self._servers[fault.server]
        server.machine.fuse = fault.fuse
        server.machine.blow = partial(self._blow, fault, server, blow)

    def _blow(self, fault: Fault, server: SimulatedServer, blow: Callable[[SimulatedServer], None]) -> None:
        if server.machine.alive:
            self.world.fault(fault.kind, server.process)
            blow(server)

    def _kill(self, fault: Fault) -> None:
        def blow(server: SimulatedServer) -> None:
            server.kill()
            self.world.later(0.2 + fault.size / 5, partial(self._restart, fault.server))

        self._with_fuse(fault, blow)

    def _kill_for_good(self, fault: Fault) -> None:
        if sum(one.machine.alive for one in self._servers) > 1:
            self._with_fuse(fault, lambda server: server.kill())

    def _restart(self, at: int) -> None:
        if not self._servers[at].machine.alive:
            self._servers[at] = self._started(at)

    def _pause(self, fault: Fault) -> None:
        def blow(server: SimulatedServer) -> None:
            self.ledger.paused_until[server.process] = self.world.now + fault.size
            server.machine.pause(fault.size)

        self._with_fuse(fault, blow)

    def _stop(self, fault: Fault) -> None:
        def blow(server: SimulatedServer) -> None:
            server.machine.begin(server.stop(fault.size / 25))
            server.at_end(partial(self._restart, fault.server))

        self._with_fuse(fault, blow)

    def _away(self, fault: Fault) -> None:
        self.world.fault(fault.kind)
        self._store.away_until = self.world.now + fault.size
        self._notifications.disconnect()

    def _lose(self, fault: Fault) -> None:
        self._store.lose = fault.kind.partition(" ")[0]

    def _clock(self, fault: Fault) -> None:
        self.world.fault(fault.kind)
        self._servers[fault.server].machine.skew += (fault.size - 2) * 1_000

    def _database_clock(self, fault: Fault) -> None:
        self.world.fault(fault.kind)
        self._store.ahead += fault.size - 2

    def _again(self, fault: Fault) -> None:
        server = self._servers[fault.server]
        for (run_id,) in self._store.rows("SELECT id FROM runs"):
            if server.answers:
                self.world.fault(fault.kind)
                server.machine.act(partial(server.runs.start, run_id))

    def _wake(self, fault: Fault) -> None:
        server = self._servers[fault.server]
        for (run_id,) in self._store.rows("SELECT id FROM runs"):
            self.world.fault(fault.kind)
            server.machine.act(partial(server.runs.followers.look, run_id))


_INJECT: dict[str, Callable[[Schedule, Fault], None]] = {
    "kill": Schedule._kill,
    "kill for good": Schedule._kill_for_good,
    "pause": Schedule._pause,
    "stop": Schedule._stop,
    "database away": Schedule._away,
    "answer lost": Schedule._lose,
    "statement lost": Schedule._lose,
    "clock set": Schedule._clock,
    "database's clock set": Schedule._database_clock,
    "dispatched again": Schedule._again,
    "woken": Schedule._wake,
}


@cache
def _store() -> tuple[Store, Deployment]:
    store, deployment = Store(), Deployment(made_agents())
    for thread in range(max(max(size.orders) for size in _SIZES)):
        store.rows("INSERT INTO threads (tenant, id, created_at, body) VALUES ('t', ?, 0, '{}')", (f"thread_{thread}",))
    for name in deployment.agents:
        body = f'{{"model": "{name}"}}'
        store.rows(
            "INSERT INTO assistants (tenant, id, created_at, body) VALUES ('t', ?, 0, ?)", (f"asst_{name}", body)
        )
    return store, deployment


@contextmanager
def _quiet_log() -> Iterator[None]:
    """Have none of the simulated servers' warnings logged, which the faults cause."""
    log = logging.getLogger("retinue")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Collect no garbage: what is closed when it is found would be closed at another moment each time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def simulate(seed: int, drop: Collection[int] = (), *, traced: bool = False) -> Outcome:
    """Run the schedule of a seed. `drop` are the numbers of the orders and faults that are left out."""
    plan = planned(seed, drop)
    store, deployment = _store()
    with _quiet_log(), _no_collection():
        outcome = Schedule(plan, store, deployment, traced=traced).run()
    outcome.parts = len(plan.orders) + len(plan.faults) + len(drop)
    outcome.teams = sum(bool(order.levels) for order in plan.orders)
    outcome.asks = sum("sign" in order.steps or "fetch" in order.steps for order in plan.orders)
    return outcome
