"""Two servers side by side on one PostgreSQL database, of which now one and now the other is killed.

Each request goes to either. What may be said once only (a key, a run of a thread, an approval) is said to both at once.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, pairwise
from typing import Any

import aiohttp

from fakes.postgres import postgres
from fakes.streams import Streams, Told
from retinue.core.events import Resumed

from .harness import ENDED, Client, Gone, Json, Refused, Site, again, client_of, path_of, two_servers
from .kills import SHAPES
from .lag import lags
from .logs import Line, gaps, logs
from .orders import Order, Tally, decided, tally

_BETWEEN = (1.0, 6.0)  # seconds from ready to the next kill
_LONGEST = 1.0  # seconds from the start of a run to its cancel
_OVERTAKEN = 0.05  # seconds: an effect that was just about to begin may be overtaken by the answer to a cancel
_LAGS = 0.25  # seconds by which an event may come later from the other server, also on a busy machine
_LATE = 1.0  # seconds after a cancel was answered within which its driver must have heard of it


@dataclass
class Shared:
    """What came of it. `broken_keys`: keys that made another run at one server than at the other; `twice`: threads on
    which both servers began a run at once; `begun`: tools that only read and began after a cancel was answered, by
    seconds after it; `acted`: those with effects that did; `both`: runs that two servers drove at a time;
    `told_otherwise`: streams that were not what is told later."""

    kills: int = 0
    cancels: int = 0
    too_late: int = 0
    approvals: int = 0
    keys: int = 0
    pairs: int = 0
    streams: int = 0
    gaps: int = 0
    tally: Tally = field(default_factory=Tally)
    not_cancelled: list[str] = field(default_factory=list)
    begun: list[float] = field(default_factory=list)
    acted: list[float] = field(default_factory=list)
    broken_keys: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    both: list[str] = field(default_factory=list)
    told_otherwise: list[str] = field(default_factory=list)
    wrong_approvals: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # from a cancel until the run had ended
    lags: list[float] = field(default_factory=list)  # seconds by which an event came later from the other server

    def problems(self) -> list[str]:
        """Promises that were not kept."""
        late = [f"a tool began {seconds:.2f} s after a cancel" for seconds in self.begun if seconds > _LATE]
        late += [f"an effect began {seconds:.3f} s after a cancel" for seconds in self.acted if seconds > _OVERTAKEN]
        named = {
            "not cancelled": self.not_cancelled,
            "a key made two runs": self.broken_keys,
            "a thread had two runs": self.twice,
            "driven by both": self.both,
            "told otherwise": self.told_otherwise,
            "approved otherwise than once": self.wrong_approvals,
        }
        late += [
            f"an event came {seconds:.2f} s later from the other server" for seconds in self.lags if seconds > _LAGS
        ]
        return [*self.tally.problems, *late, *(f"{what}: {one}" for what, some in named.items() for one in some)]

    @property
    def broken(self) -> int:
        """How many."""
        return len(self.problems()) + self.gaps


def share(
    runs: int,
    cancels: int,
    approvals: int,
    kills: int,
    *,
    url: str = "",
    at_once: int = 12,
    seed: int = 0,
    told: Callable[[str], None],
) -> Shared:
    """Have two servers do all of this; `url` is of a new database, and made if empty."""
    if not url:
        with postgres(safe=True) as server:
            return share(runs, cancels, approvals, kills, url=server.database(), at_once=at_once, seed=seed, told=told)
    work = ["run"] * runs + ["cancel"] * cancels + ["approve"] * approvals
    with two_servers(url) as at:
        later = asyncio.run(lags(at))
        return replace(asyncio.run(Sharing(at, random.Random(seed), told).all(work, kills, at_once)), lags=later)


class Sharing:
    """The work at `at`, and what is seen of it."""

    def __init__(self, at: Site, dice: random.Random, told: Callable[[str], None]) -> None:
        self.at = at
        self.dice = dice
        self.told = told
        self.seen = Shared()
        self.orders: list[Order] = []
        self.cancelled: dict[str, float] = {}  # orders, and when that was answered
        self.numbers = count()
        self.keyed = 0.5  # the part of the runs that is asked for with a key

    async def all(
        self, work: list[str], kills: int, at_once: int, disturb: Callable[[int], Awaitable[None]] | None = None
    ) -> Shared:
        """Do all `work` under `kills` kills, or what else is to `disturb` it so often, and count."""
        self.dice.shuffle(work)
        left = iter(work)
        async with client_of(self.at) as client:
            doing: dict[str, Callable[[Client], Awaitable[None]]] = {
                "run": self._run,
                "cancel": self._cancel,
                "approve": self._approve,
            }

            async def worker() -> None:
                for kind in left:
                    await doing[kind](client)
                while self.seen.kills < kills:  # somebody must be there to see it
                    await self._run(client)

            working = [asyncio.create_task(worker()) for _ in range(at_once)]
            await asyncio.gather((disturb or self._kill)(kills), *working)
            self.seen.tally = await tally(client, self.orders)
        found = logs(self.at.db)
        self.seen.gaps = sum(map(gaps, found.values()))
        self._count_notes(found)
        return self.seen

    async def _kill(self, kills: int) -> None:
        for number in range(1, kills + 1):
            await asyncio.sleep(self.dice.uniform(*_BETWEEN))
            await asyncio.to_thread(again, self.at, self.dice.choice(self.at.servers))
            self.seen.kills = number
            self.told(f"{number} kills, {len(self.orders)} runs, {self.seen.cancels} cancels")

    async def _run(self, client: Client) -> None:
        order = self._order(self.dice.choice(SHAPES))
        thread = await client.thread(order.question)
        keyed = self.dice.random() < self.keyed
        order.run = await (self._with_key(client, thread) if keyed else self._started_twice(client, thread))
        reading = asyncio.create_task(self._read(order.run)) if self.dice.random() < 0.3 else None
        await self._finish(client, order)
        if reading is not None:
            await reading

    async def _with_key(self, client: Client, thread: str) -> Json:
        """A run that both servers are asked for with the same key, until both have answered."""
        key = f"key of {thread}"
        first, second = await asyncio.gather(
            *(self._until_answered(client, server, thread, key) for server in range(2))
        )
        self.seen.keys += 1
        if first["id"] != second["id"]:
            self.seen.broken_keys.append(f"{thread}: {first['id']}, {second['id']}")
        return first

    async def _until_answered(self, client: Client, server: int, thread: str, key: str) -> Json:
        while True:
            try:
                return await client.begin(self.at.servers[server], thread, key=key)
            except Gone:
                await asyncio.sleep(0.05)

    async def _started_twice(self, client: Client, thread: str) -> Json:
        """A run that both servers are asked for at once: one may begin it."""
        both = [client.begin(server, thread) for server in self.at.servers]
        said = await asyncio.gather(*both, return_exceptions=True)
        begun = [one for one in said if isinstance(one, dict)]
        self.seen.pairs += 1
        for one in said:
            if isinstance(one, BaseException) and not isinstance(one, Gone | Refused):
                raise one
        if len(begun) == 2:
            self.seen.twice.append(f"{thread}: {begun[0]['id']}, {begun[1]['id']}")
        return begun[0] if begun else await client.start(thread)

    async def _finish(self, client: Client, order: Order) -> None:
        while (run := await client.rests(order.run))["status"] == "requires_action":
            order.run = await client.submit(run, await decided(client, order, run))
        order.run = run

    async def _cancel(self, client: Client) -> None:
        while True:
            number = f"{next(self.numbers)}c"
            order = Order(number, "look, pay+note, look+look, pay, note+look+pay, look")
            thread = await client.thread(order.question)
            run = await client.start(thread)
            await asyncio.sleep(self.dice.uniform(0.0, _LONGEST))
            asked = time.time()
            try:
                run = await client.ask("POST", f"{path_of(run)}/cancel")
            except Refused as refused:
                if "'cancelled'" not in str(refused) and "'cancelling'" not in str(refused):
                    self.seen.too_late += 1
                    continue
            self.cancelled[number] = time.time()
            run = await client.rests(run)
            self.seen.seconds.append(time.time() - asked)
            self.seen.cancels += 1
            if run["status"] != "cancelled":
                self.seen.not_cancelled.append(f"{number}: {run['status']}")
            return

    async def _approve(self, client: Client) -> None:
        order = self._order("look, sign")
        order.run = await client.rests(await client.start(await client.thread(order.question)))
        while order.run["status"] == "requires_action":
            outputs = await decided(client, order, order.run)
            said = await asyncio.gather(
                *(self._submit(client, server, order.run, outputs) for server in range(len(self.at.servers)))
            )
            self.seen.approvals += 1
            if not all(said):
                self.seen.wrong_approvals.append(f"{order.number}: it was refused")
            order.run = await client.rests(await client.ask("GET", path_of(order.run)))

    async def _submit(self, client: Client, server: int, run: Json, outputs: dict[str, str]) -> bool:
        """Whether a server takes these outputs, which the other is given as well."""
        while True:
            try:
                await client.submit(run, outputs, self.at.servers[server])
            except Gone:
                await asyncio.sleep(0.05)
            except Refused:
                return False
            else:
                return True

    async def _read(self, run: Json) -> None:
        """Read a run's stream at either server, from its beginning until it has ended, and once more as a whole."""
        found: list[Told] = []
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
            while not found or not found[-1].last:
                await self._go_on(session, found, run)
            whole: list[Told] = []
            while not whole or not whole[-1].last:
                whole.clear()
                await self._go_on(session, whole, run)
        self.seen.streams += 1
        if found != whole:
            self.seen.told_otherwise.append(f"{run['id']}: {len(found)} events, {len(whole)} later")

    async def _go_on(self, session: aiohttp.ClientSession, found: list[Told], run: Json) -> None:
        server = self.at.server
        last = next((one.number for one in reversed(found) if one.number is not None), None)
        try:
            end = await Streams(server.url, server.key, session).go_on(found, path_of(run), last)
        except (AssertionError, ValueError, TimeoutError):  # the server is about to go, or is not there yet
            end = "cut"
        if end == "over" and found[-1].last and await self._waits(session, run):
            del found[-1]  # it goes on after somebody has answered
        if end == "cut":
            await asyncio.sleep(0.05)

    async def _waits(self, session: aiohttp.ClientSession, run: Json) -> bool:
        now: Any = await Client(self.at, session).ask("GET", path_of(run))
        return now["status"] not in ENDED

    def _order(self, steps: str) -> Order:
        order = Order(str(next(self.numbers)), steps)
        self.orders.append(order)
        return order

    def _count_notes(self, found: dict[str, list[Line]]) -> None:
        notes: dict[str, list[Json]] = {}
        for note in sorted(self.at.began(), key=lambda one: float(one["began"])):
            notes.setdefault(share_of(note["what"]), []).append(note)
        for number, answered in self.cancelled.items():
            for one in notes.get(number, ()):
                if one["began"] > answered:
                    kind = self.seen.begun if one["tool"] == "look" else self.seen.acted
                    kind.append(one["began"] - answered)
        for order in self.orders:
            logs_of_it = found.values() if order.team else [found.get(order.run.get("id", ""), ())]
            resumed = [at for log in logs_of_it for _, at, event in log if isinstance(event, Resumed)]
            shares = [notes[one] for one in notes if one == order.number or one.startswith(f"{order.number}.m")]
            if any(came_back(share, resumed) for share in shares):
                self.seen.both.append(order.number)


def share_of(what: str) -> str:
    """The order, or a team member's share of it, that an effect is for: each is a run of its own, and each member's run
    may be driven by another process."""
    order, _, rest = what.partition(".")
    return f"{order}.{rest.partition('.')[0]}" if rest.startswith("m") else order


def came_back(notes: Sequence[Json], resumed: Sequence[float]) -> bool:
    """Whether a process began a tool after another one had, though nobody had resumed the run in between."""
    changes = [(before["process"], after["process"], after["began"]) for before, after in pairwise(notes)]
    changes = [one for one in changes if one[0] != one[1]]
    for at, (left, _, when) in enumerate(changes):
        for _, process, later in changes[at + 1 :]:
            if process == left and not any(when <= one <= later for one in resumed):
                return True
    return False
