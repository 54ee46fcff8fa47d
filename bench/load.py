"""A server under load: many runs side by side, through HTTP, every step on the disk."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from bench.serving import DELAY, Client, Server, served, session

_RUNS, _AT_ONCE, _STEPS = 1_000, 100, 5


def measure() -> str:
    """A table of throughput and latency, and what it costs."""
    rows = [asyncio.run(_one(kind)) for kind in ("streamed", "polled")]
    columns = [
        "",
        "runs that failed",
        "durable steps a second",
        "added, p50",
        "added, p95",
        "CPU a step",
        "bytes a step",
    ]
    columns.append("memory of 1,000 runs that wait")
    return (
        f"{_RUNS} runs of {_STEPS} steps, {_AT_ONCE} at a time, by the assistants API of `retinue serve` with SQLite. "
        f"Its model, a script, takes {DELAY * 1e3:.0f} ms a step, so that a run takes {_STEPS * DELAY * 1e3:.0f} ms at "
        "least: what is added to that is in the table, as the client sees it. CPU: of the server's process; the client "
        "has the other core. A run that waits: for a person.\n\n"
        f"|{'|'.join(columns)}|\n|{'---|' * len(columns)}\n" + "".join(rows)
    )


async def _one(kind: str) -> str:
    with served(_STEPS) as server:
        async with session() as at:
            client = Client(server, at)
            await _side_by_side(client, kind, _AT_ONCE)  # warm
            size, cpu, began = server.bytes_kept(), server.look().cpu, time.perf_counter()
            seconds = await _side_by_side(client, kind, _RUNS)
            took, cpu = time.perf_counter() - began, server.look().cpu - cpu
            size = server.bytes_kept() - size
            waiting = await _waiting(client, server)
    steps = _RUNS * _STEPS
    added = sorted(one - _STEPS * DELAY for one in seconds)
    p50, p95 = (added[int(len(added) * part)] * 1e3 for part in (0.5, 0.95))
    return (
        f"| {kind} | {_RUNS - len(seconds)} | {steps / took:,.0f} | {p50:.0f} ms | {p95:.0f} ms | "
        f"{cpu / steps * 1e3:.2f} ms | {size / steps:,.0f} | {waiting / 1e6:.1f} MB |\n"
    )


async def _side_by_side(client: Client, kind: str, runs: int) -> Sequence[float]:
    """Have runs made, some at a time; the seconds that each took."""
    work: Callable[[], Awaitable[float]] = {
        "streamed": lambda: client.stream("Please work"),
        "polled": lambda: _polled(client),
    }[kind]
    left = iter(range(runs))

    async def one_after_the_other() -> list[float]:
        return [await work() for _ in left]

    done = await asyncio.gather(*(one_after_the_other() for _ in range(_AT_ONCE)))
    return [seconds for each in done for seconds in each]


async def _polled(client: Client) -> float:
    began = time.perf_counter()
    run = await client.start("Please work")
    while run["status"] in ("queued", "in_progress"):
        await asyncio.sleep(client.poll_after)
        run = await client.ask("GET", f"/threads/{run['thread_id']}/runs/{run['id']}")
    assert run["status"] == "completed", run
    return time.perf_counter() - began


async def _waiting(client: Client, server: Server) -> int:
    """Bytes of memory of 1,000 runs that wait for a person."""
    before = server.look().rss
    runs = [await client.start("Please sign") for _ in range(1_000)]
    for run in runs:
        while run["status"] in ("queued", "in_progress"):
            await asyncio.sleep(0.01)
            run = await client.ask("GET", f"/threads/{run['thread_id']}/runs/{run['id']}")
        assert run["status"] == "requires_action", run
    return server.look().rss - before
