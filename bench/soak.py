"""A server that works for a long time: what it holds on to."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from statistics import linear_regression
from typing import NamedTuple

from bench.serving import Client, Looks, Server, served, session

_STEPS, _AT_ONCE = 10, 50
_RETENTION = 20  # seconds
_EVERY = 2.0  # seconds between two looks
_WARM = 0.2  # of all steps: by then caches and pools are full


class _Sample(NamedTuple):
    steps: int
    looks: Looks
    kept: int


def measure(steps: int = int(os.environ.get("SOAK_STEPS", "100000"))) -> str:
    """What the process held at the beginning and in the end, and how it grew between. `SOAK_STEPS`: fewer of them."""
    with served(_STEPS, "--retention", str(_RETENTION)) as server:
        began = time.perf_counter()
        samples = asyncio.run(_soak(server, steps))
        took = time.perf_counter() - began
    warm = [one for one in samples if one.steps >= _WARM * steps]
    first, last = warm[0], warm[-1]
    done = [one.steps for one in warm]
    memory, kept = (
        linear_regression(done, values).slope
        for values in ([one.looks.rss for one in warm], [one.kept for one in warm])
    )
    files, threads = ([getattr(one.looks, name) for one in warm] for name in ("files", "threads"))
    rows = [
        ("steps, all of them durable", f"{last.steps:,}"),
        ("seconds", f"{took:,.0f}"),
        ("memory after a fifth of them", f"{first.looks.rss / 1e6:.1f} MB"),
        ("memory in the end", f"{last.looks.rss / 1e6:.1f} MB"),
        ("growth of memory after that fifth (a line through all looks)", f"{memory:.0f} bytes a step"),
        ("open files, least and most", f"{min(files)}, {max(files)}"),
        ("threads, least and most", f"{min(threads)}, {max(threads)}"),
        ("growth of the database after that fifth", f"{kept:.0f} bytes a step"),
    ]
    return (
        f"A `retinue serve --retention {_RETENTION}` with SQLite, and {_AT_ONCE} clients that have one run of {_STEPS} "
        "steps made after the other and read its stream. What stays in the database are threads, messages and the runs "
        f"of the last {2 * _RETENTION} seconds; free pages in its file are not counted.\n\n| | |\n|---|---|\n"
        + "".join(f"| {name} | {value} |\n" for name, value in rows)
    )


async def _soak(server: Server, steps: int) -> Sequence[_Sample]:
    samples: list[_Sample] = []
    left = iter(range(steps // _STEPS))
    done = 0

    async def one_after_the_other(client: Client) -> None:
        nonlocal done
        for _ in left:
            await client.stream("Please work")
            done += _STEPS

    async def look() -> None:
        while True:
            samples.append(_Sample(done, server.look(), await asyncio.to_thread(server.bytes_kept)))
            await asyncio.sleep(_EVERY)

    async with session() as at:
        looking = asyncio.create_task(look())
        client = Client(server, at)
        await asyncio.gather(*(one_after_the_other(client) for _ in range(_AT_ONCE)))
        looking.cancel()
    return samples
