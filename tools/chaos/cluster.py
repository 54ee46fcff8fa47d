"""Three workers beside two servers on PostgreSQL, of which now one and now the other is killed, or stopped past its
lease and let go on, while PostgreSQL is restarted. With Temporal, which is restarted too, if it is to wake the workers.

The servers accept runs and drive none. A run is one of a chat, of a thread, one that asks a person or its client, or
that of a team of three levels.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from pathlib import Path

import aiohttp
from sqlalchemy import select

from fakes.postgres import Postgres, postgres
from fakes.temporal import Temporal, temporal
from fakes.until import until_async
from retinue.store.engines import engine_of
from retinue.store.tables import runs

from .harness import Client, Gone, Site, client_of, site
from .kills import SHAPES
from .logs import Line, gaps, logs
from .orders import Order, Tally, tally, work_off

_BETWEEN = (1.0, 6.0)  # seconds from a kill to the next
_STOPPED = (13.0, 16.0)  # seconds: the others take it for dead after ten
_RESTS = (0.5, 3.0)  # seconds from the end of a stop to the next
_PROMISED = 15.0  # seconds until others go on with what a worker left
_DOWN = (0.0, 3.0)  # seconds that a killed worker is away
ASKS = [{"type": "function", "function": {"name": "ask", "parameters": {"type": "object", "properties": {"what": {}}}}}]


class WorkerProcess:
    """`retinue worker` as a process, beside the server of `at`."""

    def __init__(self, at: Site, words: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        folder = at.server.db.parent
        self._words = [sys.executable, "-m", "retinue", "worker", str(folder / "agents.yml"), *words]
        self._env = {**os.environ, "CHAOS_WORLD": at.world, "PYTHONDONTWRITEBYTECODE": "", **(env or {})}
        self._log = folder / "workers.log"
        self._said = folder / f"worker {id(self)}"
        self.stopped = self.down = False
        self.start()

    def start(self) -> None:
        """Start it; it is not waited for."""
        with self._log.open("a") as log, self._said.open("w") as said:
            self.process = subprocess.Popen(
                self._words, env=self._env, stdin=subprocess.DEVNULL, stdout=said, stderr=log
            )

    @property
    def works(self) -> bool:
        """Whether it is at work."""
        return not self.stopped and self.process.poll() is None and "at work" in self._said.read_text()

    def kill(self) -> None:
        """Let it die."""
        self.process.kill()
        self.process.wait()


@dataclass
class Cluster:
    """What there is to break."""

    at: Site
    database: Postgres
    temporal: Temporal | None
    workers: list[WorkerProcess]

    async def ready(self) -> None:
        """Wait until all workers are at work."""

        async def all_work() -> bool:
            return all(one.works for one in self.workers)

        await until_async(all_work, 60)


@contextmanager
def cluster(
    workers: int, *, servers: int = 2, with_temporal: bool = False, delay: float = 0.05, drive: str = "no"
) -> Iterator[Cluster]:
    """So many servers and workers on PostgreSQL. `drive`: whether the servers drive runs, too."""
    with ExitStack() as stack:
        database = stack.enter_context(postgres(safe=True))
        engine = stack.enter_context(temporal()) if with_temporal else None
        url = database.database()
        shared = [] if engine is None else ["--temporal", engine.address]
        own = ["--drive", drive] if engine is None else ["--dispatch", "temporal"]
        at = stack.enter_context(site(*own, *shared, db=url, delay=delay))
        for _ in range(servers - 1):
            second = at.server.beside()
            stack.callback(second.kill)
            at.servers.append(second)
        there = [WorkerProcess(at, ["--db", url, *shared]) for _ in range(workers)]
        try:
            yield Cluster(at, database, engine, there)
        finally:
            for one in there:
                one.kill()
            del at.servers[1:]


@dataclass
class Broken:
    """What came of it: `taken` are seconds from the death, or the stop, of a worker until the first new event of each
    run that it drove."""

    kills: int = 0
    stops: int = 0
    restarts: list[str] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    gaps: int = 0
    taken: list[float] = field(default_factory=list)
    taken_stopped: list[float] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    kinds: dict[str, int] = field(default_factory=dict)

    @property
    def broken(self) -> int:
        """Promises that were not kept."""
        return self.tally.broken + self.gaps + len(self.late)


class Breaking:
    """Work at a cluster, and what is seen of it."""

    def __init__(self, of: Cluster, dice: random.Random, told: Callable[[str], None]) -> None:
        self._of = of
        self._dice = dice
        self._told = told
        self._orders: list[Order] = []
        self._left: list[tuple[str, float, bool]] = []  # runs that a worker left when it died or was stopped
        self._over = asyncio.Event()
        self._least = 0
        self._began = time.time()
        self.seen = Broken()

    async def all(self, least: int, kills: int, stops: int, at_once: int) -> Broken:
        """Break everything under at least so many runs, and count."""
        async with client_of(self._of.at) as client:
            working = [asyncio.create_task(self._keep_ordering(client)) for _ in range(at_once)]
            supervising = asyncio.create_task(self._supervise())
            await asyncio.gather(self._kill(kills), self._stop(stops), self._restart())
            self._least = least
            self._over.set()
            _, late = await asyncio.wait(working, timeout=300)
            for task in (*late, supervising):
                task.cancel()
            self.seen.tally = await tally(client, self._orders)
        found = logs(self._of.at.db)
        self.seen.gaps = sum(map(gaps, found.values()))
        self._time_takeovers(found)
        return self.seen

    async def die(self, times: int, *, stop: bool) -> list[float]:
        """Let a worker die, or stop it, and wait for its runs; so many times. Seconds until each went on."""
        async with client_of(self._of.at) as client:
            for number in range(times):
                await self._of.ready()
                working = [asyncio.create_task(self._thread(client)) for _ in range(12)]
                one = await until_async(self._busy, 30)
                assert one is not None
                one.process.send_signal(signal.SIGSTOP if stop else signal.SIGKILL)
                began = time.time()
                self._left += [(run_id, began, stop) for run_id in await asyncio.to_thread(self._driven, one)]
                await asyncio.wait(working, timeout=30 if stop else 60)
                await asyncio.to_thread(one.kill)
                await asyncio.to_thread(one.start)
                await asyncio.gather(*working)
                self._told(f"{number + 1} deaths, {len(self._left)} runs left")
        self._time_takeovers(logs(self._of.at.db))
        return [*self.seen.taken, *self.seen.taken_stopped]

    def _time_takeovers(self, found: Mapping[str, Sequence[Line]]) -> None:
        """Of a run that was left twice before it went on, the last time counts."""
        last: dict[tuple[str, float], tuple[float, bool]] = {}
        for run_id, when, stopped in sorted(self._left, key=itemgetter(1)):
            after = [at for _, at, _ in found.get(run_id, ()) if at > when]
            if after:
                last[run_id, min(after)] = (when, stopped)
        for (run_id, again), (when, stopped) in last.items():
            if again - when > _PROMISED:
                kind = "stopped" if stopped else "killed"
                told = f"{run_id}, {kind} at {when - self._began:.1f} s, went on {again - when:.1f} s later"
                self.seen.late.append(told)
            (self.seen.taken_stopped if stopped else self.seen.taken).append(again - when)

    async def _kill(self, kills: int) -> None:
        for number in range(1, kills + 1):
            await asyncio.sleep(self._dice.uniform(*_BETWEEN))
            one = await self._working()
            held = await asyncio.to_thread(self._driven, one)
            one.down = True
            await asyncio.to_thread(one.kill)
            self._left += [(run_id, time.time(), False) for run_id in held]
            await asyncio.sleep(self._dice.uniform(*_DOWN))
            await asyncio.to_thread(one.start)
            one.down = False
            self.seen.kills = number
            if number % 5 == 0:
                self._told(f"{number} kills, {self.seen.stops} stops, {len(self._orders)} runs")

    async def _stop(self, stops: int) -> None:
        for number in range(1, stops + 1):
            await asyncio.sleep(self._dice.uniform(*_RESTS))
            one = await self._working()
            one.stopped = True
            one.process.send_signal(signal.SIGSTOP)
            began = time.time()
            held = await asyncio.to_thread(self._driven, one)
            await asyncio.sleep(self._dice.uniform(*_STOPPED))
            self._left += [(run_id, began, True) for run_id in held]
            one.process.send_signal(signal.SIGCONT)
            one.stopped = False
            self.seen.stops = number

    async def _working(self) -> WorkerProcess:
        """A worker that is at work, beside another one that can go on with its runs."""

        async def there() -> list[WorkerProcess]:
            found = [one for one in self._of.workers if one.works]
            return found if len(found) > 1 else []

        return self._dice.choice(await until_async(there, 60))

    async def _busy(self) -> WorkerProcess | None:
        """A worker that drives runs."""
        for one in self._dice.sample(self._of.workers, 3):
            if await asyncio.to_thread(self._driven, one):
                return one
        return None

    async def _supervise(self) -> None:
        """Start workers again that ended by themselves, since the database was away when they started."""
        while True:
            await asyncio.sleep(1)
            for one in self._of.workers:
                if not one.down and one.process.poll() is not None:
                    await asyncio.to_thread(one.start)

    async def _restart(self) -> None:
        """Restart PostgreSQL twice, and Temporal once, if it is there."""
        engine = self._of.temporal
        for name in ("PostgreSQL", *(["Temporal"] if engine else []), "PostgreSQL"):
            await asyncio.sleep(self._dice.uniform(20, 40))
            if name == "Temporal" and engine is not None:
                await asyncio.to_thread(engine.kill)
                await asyncio.sleep(2)
                await asyncio.to_thread(engine.start)
            else:
                await asyncio.to_thread(self._of.database.restart)
            self.seen.restarts.append(name)
            self._told(f"{name} was restarted under {len(self._orders)} runs")

    def _driven(self, one: WorkerProcess) -> list[str]:
        """The runs that a worker drives."""
        engine = engine_of(self._of.at.db)
        try:
            with engine.connect() as connection:
                mine = runs.c.driver.like(f"%-{one.process.pid}-%") & (runs.c.status == "in_progress")
                return list(connection.execute(select(runs.c.id).where(mine)).scalars())
        except Exception:  # it is being restarted
            return []
        finally:
            engine.dispose()

    async def _keep_ordering(self, client: Client) -> None:
        kinds = {"thread": self._thread, "approval": self._approval, "client": self._client, "team": self._team}
        while not self._over.is_set() or len(self._orders) < self._least:
            kind = self._dice.choice([*kinds, "thread", "chat"])
            self.seen.kinds[kind] = self.seen.kinds.get(kind, 0) + 1
            await kinds.get(kind, self._chat)(client)

    def _order(self, steps: str, *, team: bool = False) -> Order:
        order = Order(str(len(self._orders)), steps, team=team)
        self._orders.append(order)
        return order

    async def _thread(self, client: Client) -> None:
        await work_off(client, self._order(self._dice.choice(SHAPES)))

    async def _approval(self, client: Client) -> None:
        await work_off(client, self._order("look, sign"))

    async def _client(self, client: Client) -> None:
        await work_off(client, self._order("look, ask, note"), tools=ASKS)

    async def _team(self, client: Client) -> None:
        await work_off(client, self._order("look+note, pay, note", team=True))

    async def _chat(self, client: Client) -> None:
        order = self._order("look, note, look")
        body = {"model": order.model, "messages": [{"role": "user", "content": order.question}], "store": True}
        ask = partial(client.once, "POST", "/chat/completions", body, key=f"order {order.number}", seconds=120)
        while True:
            try:
                said = await ask()
            except Gone:
                await asyncio.sleep(0.2)
            else:
                order.said = [said["choices"][0]["message"]["content"]]
                order.run = {"status": "completed"}
                return


def break_all(
    least: int,
    kills: int,
    stops: int,
    *,
    with_temporal: bool = False,
    at_once: int = 24,
    seed: int = 0,
    told: Callable[[str], None],
) -> Broken:
    """Break three workers and what they stand on, under at least so many runs."""
    with cluster(3, with_temporal=with_temporal) as of:
        try:
            return asyncio.run(Breaking(of, random.Random(seed), told).all(least, kills, stops, at_once))
        finally:
            _keep_log(of.at.server.db.parent / "workers.log")


def time_deaths(times: int, *, stop: bool = False, told: Callable[[str], None]) -> list[float]:
    """Let one of three workers die, or stop it, so many times while the others work, and do not start it again until
    others have gone on with its runs. Seconds until they did, of each run."""
    with cluster(3) as of:
        return asyncio.run(Breaking(of, random.Random(0), told).die(times, stop=stop))


def time_streams(runs: int) -> list[float]:
    """Seconds from each event of so many runs, which workers drive, until a client of one of two servers has it."""
    with cluster(3) as of:
        came = asyncio.run(_stream(of, runs))
        found = logs(of.at.db)
    return [times[seq] - at for run_id, (opened, times) in came.items() for seq, at, _ in found[run_id] if at > opened]


async def _stream(of: Cluster, runs: int) -> dict[str, tuple[float, dict[int, float]]]:
    """By run: when its stream was opened, and when each event came, by its number; in Unix seconds."""
    found: dict[str, tuple[float, dict[int, float]]] = {}
    await of.ready()
    async with client_of(of.at) as client, aiohttp.ClientSession() as session:

        async def follow(number: int) -> None:
            run = await client.start(await client.thread(f"Order {number}: look, note+look, look, look"))
            server = of.at.servers[number % 2]
            times: dict[int, float] = {}
            headers = {"Authorization": f"Bearer {server.key}"}
            url = f"{server.url}/runs/{run['id']}/events?stream=true"
            async with session.get(url, headers=headers) as response:
                found[run["id"]] = (time.time(), times)
                async for line in response.content:
                    if line.startswith(b"id: "):
                        times[int(line[4:])] = time.time()

        for first in range(0, runs, 6):
            await asyncio.gather(*map(follow, range(first, first + 6)))
    return found


def _keep_log(file: Path) -> None:
    """Keep what the workers said, to look into what was broken."""
    if wanted := os.environ.get("CHAOS_LOG"):
        Path(wanted).write_bytes(file.read_bytes())
