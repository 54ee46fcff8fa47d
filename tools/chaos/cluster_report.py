"""`python -m chaos.cluster_report`: break a cluster, load it, and write what came of it into docs/reliability.md."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from bench.report import replace_section

from .cluster import break_all, time_deaths
from .cluster_load import load
from .parts import Part, Told, made_by, parts_command, times

_ROOT = Path(__file__).parents[2]
_PAGE = _ROOT / "docs" / "reliability.md"
_KEPT = _ROOT / "bench" / "chaos-cluster.json"


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
        f"({counted.happened} had happened). Runs went on {times(seen.taken)} after a kill, though the next worker "
        f"was often killed, or frozen, too; {len(seen.late)} of {len(seen.taken) + len(seen.taken_stopped)} took more "
        f"than 15 s.\n"
    )
    return text, counted.broken + seen.gaps


def _deaths(told: Told) -> tuple[str, int]:
    killed, stopped = time_deaths(10, told=told), time_deaths(6, stop=True, told=told)
    text = (
        f"Of three workers, one is killed, and looks alive to its machine, or is stopped, while the others work: its "
        f"{len(killed)} and {len(stopped)} runs went on {times(killed)} after a kill, and {times(stopped)} after a "
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


_PARTS: dict[str, Part] = {
    "breaks": _breaks,
    "deaths": _deaths,
    "throughput": _throughput,
}


def _write(kept: Mapping[str, str]) -> None:
    text = made_by("make chaos-cluster") + "\n".join(kept[one] for one in _PARTS if one in kept)
    replace_section(_PAGE, "chaos-cluster", text)


command = parts_command(_PARTS, _KEPT, _write)

if __name__ == "__main__":
    command()
