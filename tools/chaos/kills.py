"""Runs side by side, and a server that is killed again and again at moments that nobody chose."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from .harness import Client, Site, again, client_of, site
from .logs import gaps, logs, went_on
from .orders import Order, Tally, tally, work_off

SHAPES = ("look, note, pay, look+note, pay", "pay, pay+note+look, note", "note, look, pay+pay, note", "pay, look, pay")
_BETWEEN = (0.2, 2.2)  # seconds from ready to the next kill: now and then there is time for a step


@dataclass
class Killed:
    """What came of it: `ready` and `further` are seconds from the start of a process until it was ready, and until
    the first new event of each run that it found under way."""

    kills: int
    tally: Tally
    gaps: int
    ready: list[float]
    further: list[float]


def kill(kills: int, *, at_once: int = 12, db: str = "", seed: int = 0, told: Callable[[str], None]) -> Killed:
    """Kill the server `kills` times under `at_once` clients, and see what became of their runs."""
    with site(db=db) as at:
        return asyncio.run(_kill(at, kills, at_once, random.Random(seed), told))


async def _kill(at: Site, kills: int, at_once: int, dice: random.Random, told: Callable[[str], None]) -> Killed:
    orders: list[Order] = []
    over = asyncio.Event()
    started, ready = [at.server.started], []
    async with client_of(at) as client:
        working = [asyncio.create_task(keep_ordering(client, orders, over, dice)) for _ in range(at_once)]
        for number in range(1, kills + 1):
            await asyncio.sleep(dice.uniform(*_BETWEEN))
            ready.append(await asyncio.to_thread(again, at))
            started.append(at.server.started)
            if number % 10 == 0:
                told(f"{number} kills, {len(orders)} runs")
        over.set()
        until = time.monotonic() + 120
        await asyncio.wait(working, timeout=until - time.monotonic())
        for task in working:
            task.cancel()
        counted = await tally(client, orders)
    found = logs(at.db)
    return Killed(kills, counted, sum(map(gaps, found.values())), ready, went_on(found, started))


async def keep_ordering(client: Client, orders: list[Order], over: asyncio.Event, dice: random.Random) -> None:
    """Work off one order after the other."""
    while not over.is_set():
        order = Order(str(len(orders)), dice.choice(SHAPES))
        orders.append(order)
        await work_off(client, order)
