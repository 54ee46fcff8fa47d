"""What a pipeline costs beside its nodes: building one, and running it, a node."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from retinue.pipelines import Pipeline

NODES = 1_000
ROUNDS = 9
WIDE = 20  # branches, each with its share of the nodes


async def awaited(results: Any = None) -> dict[str, Any]:
    """A node that does nothing, with async."""
    return {"results": results}


def called(results: Any = None) -> dict[str, Any]:
    """A node that does nothing, without async."""
    return {"results": results}


def measure() -> str:
    """A table: a pipeline's shape, milliseconds to build it, and microseconds a node to run it."""
    shapes: dict[str, Callable[[], Pipeline]] = {
        "a chain, async": lambda: _chain(awaited),
        "a chain, functions": lambda: _chain(called),
        "a chain, the two in turns": _turns,
        f"{WIDE} branches that meet, async": lambda: _branches(awaited),
        f"{WIDE} branches that meet, functions": lambda: _branches(called),
        "layers of 10, each node after two, async": _lattice,
        "all side by side, async": lambda: _side_by_side(awaited),
        "all side by side, functions": lambda: _side_by_side(called),
    }
    lines = [_row(shape, build) for shape, build in shapes.items()]
    table = "\n".join(["| shape | build, ms | run, µs a node |", "|---|---|---|", *lines])
    return f"Pipelines of {NODES} nodes that do nothing (median of {ROUNDS} runs).\n\n{table}\n"


def _row(shape: str, build: Callable[[], Pipeline]) -> str:
    began = time.perf_counter()
    pipeline = build()
    built = time.perf_counter() - began
    return f"| {shape} | {built * 1e3:.0f} | {asyncio.run(_run(pipeline)) / NODES * 1e6:.1f} |"


async def _run(pipeline: Pipeline) -> float:
    """Seconds a run."""
    await pipeline.run_async("x")  # warm: the plan, threads
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await pipeline.run_async("x")
        times.append(time.perf_counter() - began)
    return median(times)


def _chain(node: Callable[..., Any]) -> Pipeline:
    pipeline = Pipeline()
    for number in range(NODES):
        pipeline.add_node(node, f"n{number}")
    return pipeline


def _turns() -> Pipeline:
    pipeline = Pipeline()
    for number in range(NODES):
        pipeline.add_node(called if number % 2 else awaited, f"n{number}")
    return pipeline


def _side_by_side(node: Callable[..., Any]) -> Pipeline:
    pipeline = Pipeline()
    for number in range(NODES):
        pipeline.add_node(node, f"n{number}", ["Query"])
    return pipeline


def _branches(node: Callable[..., Any]) -> Pipeline:
    pipeline = Pipeline()
    each = (NODES - 1) // WIDE
    for branch in range(WIDE):
        for step in range(each):
            pipeline.add_node(node, f"b{branch}-{step}", ["Query"] if step == 0 else None)
    pipeline.add_node(node, "end", [f"b{branch}-{each - 1}" for branch in range(WIDE)])
    return pipeline


def _lattice() -> Pipeline:
    pipeline = Pipeline()
    for number in range(NODES):
        layer, place = divmod(number, 10)
        above = [f"{layer - 1}-{place}", f"{layer - 1}-{(place + 1) % 10}"] if layer else ["Query"]
        pipeline.add_node(awaited, f"{layer}-{place}", above)
    return pipeline
