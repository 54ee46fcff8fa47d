"""How much later a stream comes from a server that does not drive its run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import SupportsIndex

import aiohttp

from fakes.streams import Streams, Told

from .harness import Client, Site, client_of, path_of

_SAYS = "look, note+look, look, look"  # what needs nobody


class Timed(list[Told]):
    """Events, and when each of those with a number came."""

    def __init__(self) -> None:
        super().__init__()
        self.at: dict[int, float] = {}

    def __iadd__(self, more: Iterable[Told]) -> Timed:  # type: ignore[override, misc]  # as `+=` of `Streams` uses it
        came = list(more)
        self.at |= {one.number: time.perf_counter() for one in came if one.number is not None}
        self.extend(came)
        return self

    def __delitem__(self, at: SupportsIndex | slice) -> None:
        raise AssertionError("these streams are read whole")


async def lags(at: Site, runs: int = 30) -> list[float]:
    """Seconds by which each event of so many runs came later from the other of two servers."""
    found: list[float] = []
    async with client_of(at) as client, aiohttp.ClientSession() as session:
        for number in range(runs):
            found += await _lags(at, client, session, number)
    return found


async def _lags(at: Site, client: Client, session: aiohttp.ClientSession, number: int) -> list[float]:
    driver, other = at.servers if number % 2 else reversed(at.servers)
    run = await client.begin(driver, await client.thread(f"Order {number}lag: {_SAYS}"))
    read = [Timed(), Timed()]
    ways = [Streams(one.url, one.key, session) for one in (driver, other)]
    ends = await asyncio.gather(*(way.go_on(into, path_of(run)) for way, into in zip(ways, read, strict=True)))
    assert ends == ["over", "over"], ends
    first, second = read
    assert first == second
    return [second.at[event] - came for event, came in first.at.items()]
