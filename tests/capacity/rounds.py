"""One round of load on a fleet, and what was seen of it."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

from retinue.cluster.capacity.capacity_figures import Spread, spread_of
from retinue.cluster.capacity.workload import Endpoint, Workload

from .fleet import Fleet, machine_seconds

_LONGEST = 120.0  # seconds that a run may take


@dataclass(frozen=True, slots=True)
class Load:
    """A load by its name."""

    name: str
    work: Workload
    endpoint: Endpoint

    @property
    def steps(self) -> int:
        """Of each run."""
        (steps,) = self.work.steps
        return steps


@dataclass(frozen=True, slots=True)
class Round:
    """What was seen: `cpu` of each kind of process, and `others` of all other programs, in cores; runs, transactions
    and bytes of the database a second."""

    per_second: float
    failed: float
    seconds: Spread
    cpu: Mapping[str, float]
    others: float
    transactions: float
    size: float


@dataclass
class _Seen:
    ended: list[tuple[float, float]] = field(default_factory=list)  # when, and after how many seconds
    failed: list[float] = field(default_factory=list)
    over: bool = False


async def measure(of: Fleet, load: Load, *, warm: float, seconds: float) -> Round:
    """Load a fleet for so many seconds, of which those after the `warm` ones count."""
    seen = _Seen()
    async with _session(of) as session:
        await _tell_endpoint(session, of, load.endpoint)
        working = asyncio.create_task(_load(session, of, load, seen))
        await asyncio.sleep(warm)
        stored, cpu, machine, began = of.stored(), of.cpu(), machine_seconds(), time.monotonic()
        await asyncio.sleep(seconds)
        after, machine_after, ended = of.cpu(), machine_seconds(), time.monotonic()
        stored_after, passed = of.stored(), ended - began
        seen.over = True  # what is under way ends: a client that leaves has its run cancelled
        await asyncio.wait_for(working, _LONGEST)
    used = {name: (after[name] - cpu[name]) / passed for name in cpu}
    times = [took for at, took in seen.ended if began < at <= ended]
    return Round(
        per_second=len(times) / passed,
        failed=sum(began < at <= ended for at in seen.failed) / passed,
        seconds=spread_of(times),
        cpu=used,
        others=max(0.0, (machine_after - machine) / passed - sum(used.values())),
        transactions=(stored_after[0] - stored[0]) / passed,
        size=(stored_after[1] - stored[1]) / passed,
    )


async def _load(session: aiohttp.ClientSession, of: Fleet, load: Load, seen: _Seen) -> None:
    async with asyncio.TaskGroup() as group:
        if load.work.clients:
            for _ in range(load.work.clients):
                group.create_task(_client(session, of, load, seen))
        elif load.work.per_second:
            dice = random.Random(7)
            while not seen.over:
                await asyncio.sleep(dice.expovariate(load.work.per_second))
                group.create_task(_run(session, of, load, seen))


async def _client(session: aiohttp.ClientSession, of: Fleet, load: Load, seen: _Seen) -> None:
    while not seen.over:
        await _run(session, of, load, seen)


async def _run(session: aiohttp.ClientSession, of: Fleet, load: Load, seen: _Seen) -> None:
    body = {"model": "worker", "messages": [{"role": "user", "content": f"Work in {load.steps} steps, please"}]}
    began = time.monotonic()
    async with session.post(f"{of.server.url}/chat/completions", json=body) as response:
        said = await response.json()
    now = time.monotonic()
    if response.status == 200:
        assert said["choices"][0]["message"]["content"].startswith("It is all noted"), said
        seen.ended.append((now, now - began))
    else:
        assert said["error"]["code"] == "rate_limit_exceeded", said
        seen.failed.append(now)


async def _tell_endpoint(session: aiohttp.ClientSession, of: Fleet, what: Endpoint) -> None:
    told = {
        "seconds": what.seconds,
        "spread": what.spread,
        "requests_per_minute": what.requests_per_minute,
        "burst_seconds": what.burst_seconds,
    }
    async with session.post(f"{of.endpoint}/settings", json=told) as response:
        response.raise_for_status()


@asynccontextmanager
async def _session(of: Fleet) -> AsyncIterator[aiohttp.ClientSession]:
    headers = {"Authorization": f"Bearer {of.server.key}"}
    timeout = aiohttp.ClientTimeout(total=300)
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(headers=headers, timeout=timeout, connector=connector) as session:
        yield session
