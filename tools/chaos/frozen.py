"""One of two servers on one PostgreSQL database is frozen (SIGSTOP) right after one of its statements, whatever it
holds then, for longer than every timeout, and goes on afterwards.

The other server serves its own clients meanwhile, and goes on with the runs that the frozen one has.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path

import aiohttp
from sqlalchemy import select

from fakes.postgres import Postgres, postgres
from fakes.served import Served
from fakes.until import until_async
from retinue.store.engines import engine_of
from retinue.store.tables import runs

from .harness import Client, Gone, Site, client_of, site
from .logs import gaps, logs
from .orders import Order, Tally, decided, tally

_PROMISED = 15.0  # seconds within which everything else goes on
_REACHED = 15.0  # seconds within which the statement must be executed
_PAUSE = 0.5  # seconds between two orders of a client
_EVERY = 0.25  # seconds between two looks at the other server
_STEPS = "look, note, pay, look+note, pay"


@dataclass
class Freeze:
    """What came of one: the statement, whether it was `reached`, the longest time in which no run of the other server
    ended, seconds until it had gone on with each run of the frozen one, seconds for which it was not ready, and until
    the frozen one was ready again."""

    statement: str
    reached: bool = False
    stood: float = 0.0
    taken: list[float] = field(default_factory=list)
    ended: int = 0
    not_ready: float = 0.0
    ready_again: float = 0.0
    gaps: int = 0
    tally: Tally = field(default_factory=Tally)

    def problems(self) -> list[str]:
        """Promises that were not kept."""
        found = [*self.tally.problems]
        if self.stood > _PROMISED:
            found.append(f"nothing ended for {self.stood:.1f} s")
        found += [f"a run went on after {one:.1f} s" for one in self.taken if one > _PROMISED]
        if self.stood + self.not_ready > _PROMISED + _EVERY and not self.not_ready:
            found.append("the other server said that it was ready")
        return [f"{self.statement}: {one}" for one in found] + [f"{self.gaps} gaps in logs"] * bool(self.gaps)


class Frozen:
    """Two servers, of which the second is frozen. `folder` is theirs."""

    def __init__(self, at: Site, victim: Served) -> None:
        self._at = at
        self._other = at.server
        self._victim = victim
        self._file = at.server.db.with_name("freeze")
        self._numbers = count()
        self.orders: list[Order] = []

    async def statements(self) -> dict[str, str]:
        """Every statement that the second server executes while it works, by its name."""
        async with client_of(self._at) as client:
            await asyncio.gather(*(self._work_off(client, self._victim) for _ in range(4)))
            await asyncio.sleep(3)  # what is done every second or two
        lines = self._file.with_suffix(".seen").read_text("utf-8").splitlines()
        return dict(line.split("\t", 1) for line in lines)

    async def freeze(self, name: str, statement: str, seconds: float) -> Freeze:
        """Freeze the second server after this statement for so long, and see what came of it."""
        seen, self.orders = Freeze(f"{name}: {statement[:90]}"), []
        over, ends = asyncio.Event(), [time.time()]
        async with client_of(self._at) as client:
            beside = [asyncio.create_task(self._keep_working(client, over, ends)) for _ in range(2)]
            self._file.write_text(name)
            mine = [asyncio.create_task(self._work_off(client, self._victim)) for _ in range(6)]
            try:
                await until_async(self._is_frozen, _REACHED)
                seen.reached = True
            except AssertionError:
                self._file.unlink(missing_ok=True)
            began = time.time()
            ends[:] = [began]
            left = await asyncio.to_thread(self._driven) if seen.reached else []
            async with self._looking_on(seen):
                await asyncio.sleep(seconds if seen.reached else 0)
            ends.append(time.time())
            self._victim.process.send_signal(signal.SIGCONT)
            thawed = time.time()
            await until_async(self._is_ready, 60)
            seen.ready_again = time.time() - thawed
            over.set()
            await asyncio.wait_for(asyncio.gather(*beside, *mine), 120)
            seen.tally = await tally(client, self.orders)
        seen.stood, seen.ended = max(later - sooner for sooner, later in pairwise(ends)), len(ends) - 2
        found = await asyncio.to_thread(logs, self._at.db)
        seen.gaps = sum(gaps(log) for log in found.values())
        for run_id in left:
            after = [at for _, at, _ in found.get(run_id, ()) if at > began + 0.1]
            seen.taken += [min(after) - began] if after else []
        return seen

    async def _keep_working(self, client: Client, over: asyncio.Event, ends: list[float]) -> None:
        while not over.is_set():
            await self._work_off(client, self._other)
            ends.append(time.time())
            await asyncio.sleep(_PAUSE)

    async def _work_off(self, client: Client, server: Served) -> None:
        """Have one order done, which is begun at this server and then seen to at the other one."""
        order = Order(str(next(self._numbers)), _STEPS)
        thread = await client.thread(order.question)
        self.orders.append(order)
        order.run = await client.start(thread, server)  # it may be frozen in the middle of this
        while (run := await client.rests(order.run))["status"] == "requires_action":
            try:
                order.run = await client.submit(run, await decided(client, order, run), self._other)
            except Gone:
                await asyncio.sleep(_EVERY)
        order.run = run

    @asynccontextmanager
    async def _looking_on(self, seen: Freeze) -> AsyncIterator[None]:
        """Count the seconds for which the other server is not ready."""

        async def look() -> None:
            async with aiohttp.ClientSession() as session:
                while True:
                    async with session.get(f"{self._other.root}/ready") as response:
                        seen.not_ready += _EVERY * (response.status != 200)
                    await asyncio.sleep(_EVERY)

        looking = asyncio.create_task(look())
        try:
            yield
        finally:
            looking.cancel()

    async def _is_ready(self) -> bool:
        async with aiohttp.ClientSession() as session, session.get(f"{self._victim.root}/ready") as response:
            return response.status == 200

    async def _is_frozen(self) -> bool:
        return await asyncio.to_thread(self._is_stopped)

    def _is_stopped(self) -> bool:
        stat = Path(f"/proc/{self._victim.process.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "T"

    def _driven(self) -> list[str]:
        engine = engine_of(self._at.db)
        try:
            with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                mine = runs.c.driver.like(f"%-{self._victim.process.pid}-%") & (runs.c.status == "in_progress")
                return list(connection.execute(select(runs.c.id).where(mine)).scalars())
        finally:
            engine.dispose()


@contextmanager
def one_to_freeze(database: Postgres) -> Iterator[Frozen]:
    """Two servers, of which the second can be frozen, while in the block."""
    with site(db=database.database()) as at:
        victim = at.server.beside(CHAOS_FREEZE=str(at.server.db.with_name("freeze")))
        try:
            yield Frozen(at, victim)
        finally:
            victim.kill()


def freeze_at_each(
    seconds: float, *, beside: int = 1, names: Sequence[str] = (), told: Callable[[str], None]
) -> list[Freeze]:
    """Freeze a server at each of its statements, or at those whose texts begin so, for so many seconds; `beside` pairs
    of servers at a time, each on a database of its own."""
    with postgres(safe=True) as database:
        with one_to_freeze(database) as first:
            found = asyncio.run(first.statements())
        left = iter([(name, text) for name, text in found.items() if not names or text.startswith(tuple(names))])

        def work() -> list[Freeze]:
            done: list[Freeze] = []
            with one_to_freeze(database) as pair:
                for name, text in left:
                    done.append(asyncio.run(pair.freeze(name, text, seconds)))
                    last = done[-1]
                    told(f"{last.statement}: {last.problems() or ('fine' if last.reached else 'not reached')}")
            return done

        async def all_at_once() -> list[list[Freeze]]:
            return await asyncio.gather(*(asyncio.to_thread(work) for _ in range(beside)))

        return [one for some in asyncio.run(all_at_once()) for one in some]
