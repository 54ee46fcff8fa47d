"""A rolling upgrade: two servers and two workers on one PostgreSQL database, replaced one by one under load."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

from chaos.cluster import ASKS, WorkerProcess
from chaos.harness import Client, Site, client_of, site
from chaos.orders import Order, decided
from chaos.two import Shared, Sharing
from fakes.served import Served
from fakes.temporal import temporal
from fakes.until import until_async

_SHAPES = {
    "approval": "look, sign",
    "client": "look, ask, note",
    "team": "look+note, pay, note",
    "long": "look, note, pay",
}
_BETWEEN = 1.0  # seconds from one replacement to the next


class Rolling:
    """Two servers and two workers at `at`, of which the processes are replaced by those of the code in `after`, or of
    today's if it is `None`."""

    def __init__(self, at: Site, after: Path | None, words: Sequence[str], dispatch: Sequence[str]) -> None:
        self.at = at
        self.workers: list[WorkerProcess] = []
        self._words = words
        self._dispatch = dispatch
        self._env = {"CHAOS_WORLD": at.world, "PYTHONDONTWRITEBYTECODE": "", **_path(after)}

    def work(self, env: dict[str, str]) -> WorkerProcess:
        """Start a worker."""
        return WorkerProcess(self.at, self._words, env)

    async def replace(self, sharing: Sharing) -> None:
        """Replace all of them: a new one gets ready, then an old one is told to stop."""
        for number in range(2):
            await asyncio.sleep(_BETWEEN)
            file = self.at.server.db.with_name("agents.yml")
            new = await asyncio.to_thread(Served, file, self._env, [*self._words, *self._dispatch])
            old, self.at.servers[number] = self.at.servers[number], new
            assert await asyncio.to_thread(old.stop) == 0
            sharing.seen.kills += 1
            sharing.told(f"server {number + 1} was replaced under {len(sharing.orders)} runs")
        for number in range(2):
            await asyncio.sleep(_BETWEEN)
            beside = await asyncio.to_thread(self.work, self._env)
            await ready(beside)
            former, self.workers[number] = self.workers[number], beside
            former.process.terminate()
            assert await asyncio.to_thread(former.process.wait, 60) == 0
            sharing.seen.kills += 1
            sharing.told(f"worker {number + 1} was replaced under {len(sharing.orders)} runs")


async def ready(one: WorkerProcess) -> None:
    """Wait until a worker is at work."""

    async def works() -> bool:
        assert one.process.poll() is None, "the worker ended"
        return one.works

    await until_async(works, 60)


def _path(src: Path | None) -> dict[str, str]:
    return {} if src is None else {"PYTHONPATH": str(src)}


def roll(
    url: str,
    before: Path,
    after: Path | None,
    *,
    runs: int,
    at_once: int,
    told: Callable[[str], None],
    with_temporal: bool = False,
) -> tuple[Shared, dict[str, int]]:
    """Replace servers and workers of the code in `before` under so many runs, on a new database; what came of the work,
    and how the runs ended that were in flight all the time, by their kinds."""
    if with_temporal:
        with temporal() as engine:
            words = ["--db", url, "--temporal", engine.address]
            return _roll(words, ["--dispatch", "temporal"], before, after, (runs, at_once, told))
    return _roll(["--db", url], [], before, after, (runs, at_once, told))


def _roll(
    words: list[str],
    dispatch: list[str],
    before: Path,
    after: Path | None,
    how: tuple[int, int, Callable[[str], None]],
) -> tuple[Shared, dict[str, int]]:
    """`words` are those that servers and workers share; the second of them is the database."""
    with site(*words[2:], *dispatch, db=words[1], env=_path(before)) as at:
        rolling = Rolling(at, after, words, dispatch)
        try:
            at.servers.append(at.server.beside())
            rolling.workers += [rolling.work(_path(before)) for _ in range(2)]
            return asyncio.run(_under_load(rolling, *how))
        finally:
            for one in at.servers[1:]:
                one.stop()
            for worker in rolling.workers:
                worker.kill()
            at.servers[0].stop()


async def _under_load(
    rolling: Rolling, runs: int, at_once: int, told: Callable[[str], None]
) -> tuple[Shared, dict[str, int]]:
    sharing = Sharing(rolling.at, random.Random(0), told)
    sharing.numbers = count(1000)
    sharing.keyed = 1.0  # on a busy machine a run may end before its thread is asked for another one
    work = [("run", "run", "run", "approve", "cancel")[at % 5] for at in range(runs)]
    async with client_of(rolling.at) as client:
        for one in rolling.workers:
            await ready(one)
        in_flight = await begin(client, at_once)
        sharing.orders += in_flight.values()

        async def disturb(_: int) -> None:
            await rolling.replace(sharing)
            await asyncio.gather(*(_see_through(client, one) for one in in_flight.values()))

        seen = await sharing.all(work, 4, at_once, disturb)
    ended: dict[str, int] = {}
    for name, order in in_flight.items():
        kind = f"{name.partition(' ')[0]}: {order.run['status']}"
        ended[kind] = ended.get(kind, 0) + 1
    return replace(seen, kills=4), ended


async def begin(client: Client, number: int) -> dict[str, Order]:
    """Begin runs of each kind, that wait for somebody or go on by themselves."""
    orders = {}
    for at in range(number):
        kind = list(_SHAPES)[at % len(_SHAPES)]
        order = orders[f"{kind} {at}"] = Order(str(at), _SHAPES[kind], team=kind == "team")
        thread = await client.thread(order.question)
        order.run = await client.start(thread, model=order.model, tools=ASKS if kind == "client" else None)
    return orders


async def _see_through(client: Client, order: Order) -> None:
    while (run := await client.rests(order.run))["status"] == "requires_action":
        order.run = await client.submit(run, await decided(client, order, run))
    order.run = run
