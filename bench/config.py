"""How long it takes to be told what is wrong with a file, and to read a good one."""

from __future__ import annotations

import time
from pathlib import Path

from retinue.config import check

TESTS = Path(__file__).parents[1] / "tests"


def measure() -> str:
    """The slowest broken file of the tests' corpus, and the seeds' own file."""
    broken = {path.stem: _milliseconds(path) for path in sorted((TESTS / "config" / "broken").glob("*.yml"))}
    slowest = max(broken, key=broken.__getitem__)
    good = _milliseconds(TESTS / "data" / "formats" / "haystack_3925_agent.yml")
    return (
        f"| {len(broken)} broken files | milliseconds |\n|---|---|\n"
        f"| the slowest, {slowest} (allowed: 200) | {broken[slowest]:.1f} |\n"
        f"| all of them together | {sum(broken.values()):.0f} |\n"
        f"| a good file, seed 000's | {good:.1f} |\n"
    )


def _milliseconds(path: Path) -> float:
    """The best of three."""
    times = []
    for _ in range(3):
        began = time.perf_counter()
        check(path)
        times.append((time.perf_counter() - began) * 1000)
    return min(times)
