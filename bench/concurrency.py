"""Many runs in one process: steps a second with a slow model, and the memory of a run that waits for it."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp
import click

from bench.by_hand import QUESTION
from bench.loop import WAYS, agent_at, model_server
from retinue import Budget

DELAY = 0.05  # seconds that the model takes
AT_ONCE = 128
_STEPS = 10
_RUNS = 384  # in each round
_ROUNDS = 5
_WAITING = 1_000
_PAGE = os.sysconf("SC_PAGE_SIZE")
_FOREVER = 600.0  # seconds
Work = Callable[[], Awaitable[Any]]


def measure() -> str:
    """A table: steps a second, by hand and by Retinue, and bytes of memory of a waiting run."""
    lines = []
    for way in WAYS:
        with model_server(DELAY) as url:
            bare, ours, cpu = asyncio.run(_throughput(way, url))
        memory = [_memory(way, by) for by in ("hand", "retinue")]
        kilobytes = " | ".join(f"{one / 1e3:.1f}" for one in memory)
        lines.append(f"| {way} | {bare:,.0f} | {ours:,.0f} | {ours / bare:.0%} | {cpu * 1e3:.3f} | {kilobytes} |")
    columns = ["by hand, steps a second", "Retinue", "of the former", "Retinue, CPU a step in ms"]
    columns += ["by hand, kB a waiting run", "Retinue, kB"]
    return (
        f"{AT_ONCE} runs of {_STEPS} steps at once; the model, in its own process, takes {DELAY * 1e3:.0f} ms a reply: "
        f"at most {AT_ONCE / DELAY:,.0f} steps a second (medians of {_ROUNDS} rounds, made in turn). A run "
        f"that waits: for its first reply; by the resident memory of a process with {_WAITING:,} of them, less that "
        "before they began, their sockets included. By hand: as above.\n\n"
        f"| tool calls | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}\n" + "\n".join(lines) + "\n"
    )


async def _throughput(way: str, url: str) -> tuple[float, float, float]:
    """Steps a second by hand and by Retinue, and Retinue's seconds of CPU a step."""
    rates: tuple[list[float], list[float]] = [], []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        works = [_work(way, by, url, session) for by in ("hand", "retinue")]
        for work in works:
            await _at_once(work, AT_ONCE)
        cpus = []
        for _ in range(_ROUNDS):
            for work, mine in zip(works, rates, strict=True):
                began, used = time.perf_counter(), time.process_time()
                await _at_once(work, _RUNS)
                mine.append(_RUNS * _STEPS / (time.perf_counter() - began))
                cpus.append((time.process_time() - used) / _RUNS / _STEPS)
    return median(rates[0]), median(rates[1]), median(cpus[1::2])


def _work(way: str, by: str, url: str, session: aiohttp.ClientSession) -> Work:
    """What makes one run."""
    api, bare = WAYS[way]
    if by == "hand":
        return partial(bare, session, url, _STEPS)
    agent = agent_at(url, api)
    agent.budget = Budget(_STEPS)
    return partial(agent.run_async, QUESTION)


async def _at_once(work: Work, runs: int) -> None:
    left = iter(range(runs))

    async def one_after_the_other() -> None:
        for _ in left:
            await work()

    await asyncio.gather(*(one_after_the_other() for _ in range(AT_ONCE)))


def _memory(way: str, by: str) -> float:
    """Bytes of memory of a waiting run, in a process of its own."""
    command = [sys.executable, "-m", "bench.concurrency", way, by]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


@click.command()
@click.argument("way", type=click.Choice(list(WAYS)))
@click.argument("by", type=click.Choice(["hand", "retinue"]))
def main(way: str, by: str) -> None:
    """Print the bytes of memory of a waiting run."""
    with model_server() as quick, model_server(_FOREVER) as slow:
        click.echo(asyncio.run(_waiting(way, by, quick, slow)))


async def _waiting(way: str, by: str, quick: str, slow: str) -> float:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await _at_once(_work(way, by, quick, session), 2 * AT_ONCE)  # warm
        work = _work(way, by, slow, session)
        tasks = [asyncio.ensure_future(work()) for _ in range(AT_ONCE)]
        await asyncio.sleep(1.0)
        before = _resident()
        tasks += [asyncio.ensure_future(work()) for _ in range(_WAITING)]
        await asyncio.sleep(3.0)
        after = _resident()
        assert not any(task.done() for task in tasks)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    return (after - before) / _WAITING


def _resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * _PAGE


if __name__ == "__main__":
    main()
