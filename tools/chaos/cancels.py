"""Runs that are cancelled at moments that nobody chose."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from .harness import ENDED, Client, Refused, Site, client_of, path_of, site
from .orders import Order

_STEPS = "look, pay+note, look+look, pay, note+look+pay, look"
_LONGEST = 1.0  # seconds from the start of a run to its cancel


@dataclass
class Cancelled:
    """What came of it. `begun`: the tools that began after the answer to the cancel, by seconds after it. `seconds`:
    from the cancel until the run had ended; `freed`: from then until the next run of the thread was accepted."""

    cancels: int = 0
    too_late: int = 0  # the run had ended
    not_cancelled: list[str] = field(default_factory=list)
    begun: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    freed: list[float] = field(default_factory=list)

    def late(self, allowed: float = 0.25) -> int:
        """Tools that began later than `allowed` seconds after the answer."""
        return sum(seconds > allowed for seconds in self.begun)


def cancel(cancels: int, *, at_once: int = 6, seed: int = 0, told: Callable[[str], None]) -> Cancelled:
    """Cancel `cancels` runs, `at_once` at a time."""
    with site() as at:
        return asyncio.run(_cancel(at, cancels, at_once, random.Random(seed), told))


async def _cancel(at: Site, cancels: int, at_once: int, dice: random.Random, told: Callable[[str], None]) -> Cancelled:
    seen = Cancelled()
    answered: dict[str, float] = {}
    left = iter(range(cancels))

    async def work(client: Client) -> None:
        for number in left:
            while not await _one(client, Order(f"{number}y{seen.too_late}", _STEPS), dice, seen, answered):
                seen.too_late += 1
            seen.cancels += 1
            if seen.cancels % 20 == 0:
                told(f"{seen.cancels} cancels")

    async with client_of(at) as client:
        await asyncio.gather(*(work(client) for _ in range(at_once)))
    for note in at.began():
        when = answered.get(note["what"].partition(".")[0])
        if when is not None and note["began"] > when:
            seen.begun.append(note["began"] - when)
    return seen


async def _one(client: Client, order: Order, dice: random.Random, seen: Cancelled, answered: dict[str, float]) -> bool:
    """Cancel a run for `order`; whether it had not ended before."""
    thread = await client.thread(order.question)
    run = await client.start(thread)
    await asyncio.sleep(dice.uniform(0.0, _LONGEST))
    asked = time.time()
    try:
        run = await client.once("POST", f"{path_of(run)}/cancel")
    except Refused:
        return False
    answered[order.number] = time.time()
    while run["status"] not in ENDED:
        run = await client.once("GET", path_of(run))
    ended = time.time()
    seen.seconds.append(ended - asked)
    if run["status"] != "cancelled":
        seen.not_cancelled.append(f"{order.number}: {run['status']}")
    await client.once("POST", f"/threads/{thread}/messages", {"role": "user", "content": f"{order.question}x: look"})
    after = await client.once("POST", f"/threads/{thread}/runs", {"assistant_id": run["assistant_id"]})
    seen.freed.append(time.time() - ended)
    await client.once("POST", f"{path_of(after)}/cancel")
    return True
