"""`python -m chaos.cluster_report`: break a cluster, load it, and write what came of it into docs/reliability.md."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

import click

from retinue.evals.report import replace_section

from .cluster import break_all, time_deaths
from .cluster_load import load

_ROOT = Path(__file__).parents[2]
_PAGE = _ROOT / "docs" / "reliability.md"
_KEPT = _ROOT / "bench" / "chaos-cluster.json"
Told = Callable[[str], None]


def _breaks(told: Told) -> tuple[str, int]:
    seen = break_all(500, 100, 20, told=told)
    for problem in [*seen.tally.problems, *seen.late]:
        told(problem)
    counted, unknown = seen.tally, seen.tally.happened + seen.tally.missing
    kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(seen.kinds.items()))
    text = (
        f"Three workers on PostgreSQL and Temporal, {seen.kills} times `kill -9` of one of them and {seen.stops} times "
        f"SIGSTOP for 13 to 16 s, while {' and '.join(seen.restarts)} are restarted, under {counted.runs} runs "
        f"({kinds}): {counted.lost} lost, {counted.doubled_once} effects of `once` tools doubled, "
        f"{counted.doubled_keyed} of keyed ones, {seen.gaps} gaps in logs. The outcome of {unknown} calls was unknown "
        f"({counted.happened} had happened). Runs went on {_times(seen.taken)} after a kill, though the next worker "
        f"was often killed, or frozen, too; {len(seen.late)} of {len(seen.taken) + len(seen.taken_stopped)} took more "
        f"than 15 s.\n"
    )
    return text, counted.broken + seen.gaps


def _deaths(told: Told) -> tuple[str, int]:
    killed, stopped = time_deaths(10, told=told), time_deaths(6, stop=True, told=told)
    text = (
        f"Of three workers, one is killed, and looks alive to its machine, or is stopped, while the others work: its "
        f"{len(killed)} and {len(stopped)} runs went on {_times(killed)} after a kill, and {_times(stopped)} after a "
        f"stop.\n"
    )
    return text, sum(seconds > 15 for seconds in (*killed, *stopped))


def _throughput(told: Told) -> tuple[str, int]:
    columns = ("workers", "runs/s", "steps/s", "CPU per step: workers", "per run: server", "PostgreSQL", "Temporal")
    rows = f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n"
    for workers in (1, 2, 3):
        seen = load(workers, 400)
        told(f"{workers} workers: {seen.per_second:.1f} runs/s")
        own = " | ".join(f"{seen.cpu[name] * 1e3:.1f} ms" for name in ("server", "PostgreSQL", "Temporal"))
        speed = f"{seen.per_second:.1f} | {seen.per_second * 4:.0f} | {seen.per_step * 1e3:.1f} ms"
        rows += f"| {workers} | {speed} | {own} |\n"
    cores, busy = os.cpu_count(), os.getloadavg()[0]
    return (
        f"{rows}\nRuns of four steps, on {cores} cores that all of this shares with the clients and the model (load "
        f"{busy:.0f}). Temporal's share is that of its development server, which also works while nothing happens; it "
        f"is paid once a run.\n",
        0,
    )


_PARTS: dict[str, Callable[[Told], tuple[str, int]]] = {
    "breaks": _breaks,
    "deaths": _deaths,
    "throughput": _throughput,
}


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice(list(_PARTS)))
def command(parts: Sequence[str]) -> None:
    """Run PARTS, or all, and write down what came of them."""
    broken = 0
    for name in parts or _PARTS:
        text, wrong = _PARTS[name](lambda said, name=name: click.echo(f"{name}: {said}"))  # type: ignore[misc]
        click.echo(text)
        broken += wrong
        kept: dict[str, str] = json.loads(_KEPT.read_text("utf-8")) if _KEPT.exists() else {}
        kept[name] = text
        _KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", "utf-8")
        head = f"`make chaos-cluster`, {date.today().isoformat()}, Python {platform.python_version()}.\n\n"
        replace_section(_PAGE, "chaos-cluster", head + "\n".join(kept[one] for one in _PARTS if one in kept))
    sys.exit(bool(broken))


def _times(seconds: Sequence[float]) -> str:
    rising = sorted(seconds)
    if not rising:
        return "at once"
    return f"{rising[len(rising) // 2]:.1f} s (p99 {rising[int(0.99 * (len(rising) - 1))]:.1f} s)"


if __name__ == "__main__":
    command()
