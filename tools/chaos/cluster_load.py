"""How much a cluster does in a second, and what a step of a run costs of each of its processes' time."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path

from .cluster import Cluster, cluster
from .harness import Client, client_of
from .orders import Order

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Load:
    """What so many workers did: runs per second, and seconds of CPU per run of each kind of process."""

    workers: int
    runs: int
    steps: int
    per_second: float
    cpu: dict[str, float]

    @property
    def per_step(self) -> float:
        """Seconds of the servers' and workers' CPU per step of a run."""
        return (self.cpu["server"] + self.cpu["workers"]) / self.steps


def load(workers: int, runs: int, *, steps: int = 4, with_temporal: bool = False, at_once: int = 24) -> Load:
    """Have so many workers do so many runs of so many replies; without a worker, the server does them itself."""
    with cluster(workers, servers=1, with_temporal=with_temporal, delay=0, drive="no" if workers else "yes") as of:
        return asyncio.run(_load(of, runs, steps, at_once))


async def _load(of: Cluster, runs: int, steps: int, at_once: int) -> Load:
    async with client_of(of.at) as client:
        await of.ready()
        await _do(client, [str(number) for number in range(20 * max(1, len(of.workers)))], steps, at_once)
        before, began = _cpu(of), time.monotonic()
        await _do(client, [f"{number}x" for number in range(runs)], steps, at_once)
        seconds, after = time.monotonic() - began, _cpu(of)
    cpu = {name: (after[name] - before[name]) / runs for name in before}
    return Load(len(of.workers), runs, steps, runs / seconds, cpu)


async def _do(client: Client, numbers: list[str], steps: int, at_once: int) -> None:
    left = iter(numbers)

    async def work() -> None:
        for number in left:
            order = Order(number, ", ".join(["look"] * (steps - 1)))
            body = {"model": order.model, "messages": [{"role": "user", "content": order.question}]}
            said = await client.once("POST", "/chat/completions", body, seconds=120)
            assert said["choices"][0]["message"]["content"] == order.answer

    await asyncio.gather(*(work() for _ in range(at_once)))


def _cpu(of: Cluster) -> dict[str, float]:
    """The CPU time of each kind of process so far, in seconds."""
    return {
        "server": _of(of.at.server.process.pid),
        "workers": sum(_of(one.process.pid) for one in of.workers),
        "PostgreSQL": sum(map(_of, of.database.processes())),
        "Temporal": _of(of.temporal.process.pid) if of.temporal else 0.0,
    }


def _of(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:  # a process of PostgreSQL that has just ended
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS  # its own, and that of its children that ended
