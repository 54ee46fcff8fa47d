"""`python -m chaos.cluster_report`: break a cluster, load it, and write what came of it into bench/RESULTS.md, and all
but the load into docs/reliability.md."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import product
from pathlib import Path

from bench.report import replace_section

from .cluster import Broken, break_all, time_deaths, time_streams
from .cluster_load import load
from .parts import Part, Told, made_by, parts_command, times

_ROOT = Path(__file__).parents[2]
_RESULTS = _ROOT / "bench" / "RESULTS.md"
_PAGE = _ROOT / "docs" / "reliability.md"
_KEPT = _ROOT / "bench" / "chaos-cluster.json"


def _breaks(told: Told) -> tuple[str, int]:
    return _describe(break_all(500, 100, 20, told=told), "two servers on PostgreSQL", told)


def _temporal(told: Told) -> tuple[str, int]:
    return _describe(
        break_all(50, 10, 2, with_temporal=True, told=told), "two servers on PostgreSQL and Temporal", told
    )


def _describe(seen: Broken, beside: str, told: Told) -> tuple[str, int]:
    for problem in [*seen.tally.problems, *seen.late]:
        told(problem)
    counted, unknown = seen.tally, seen.tally.happened + seen.tally.missing
    kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(seen.kinds.items()))
    text = (
        f"Three workers and {beside}, {seen.kills} times `kill -9` of a worker and {seen.stops} times SIGSTOP for 13 "
        f"to 16 s, and {len(seen.restarts)} restarts of {' and '.join(sorted({*seen.restarts}))}, under "
        f"{counted.runs} runs ({kinds}): "
        f"{counted.lost} lost, {counted.doubled_once} effects of `once` tools doubled, {counted.doubled_keyed} of "
        f"keyed ones, {seen.gaps} gaps in logs. The outcome of {unknown} calls was unknown ({counted.happened} had "
        f"happened). Runs went on {times(seen.taken)} after a kill, though the next worker was often killed, or frozen,"
        f" too; {len(seen.late)} of {len(seen.taken) + len(seen.taken_stopped)} took more than 15 s.\n"
    )
    return text, counted.broken + seen.gaps


def _streams(told: Told) -> tuple[str, int]:
    seconds = time_streams(60)
    told(f"{len(seconds)} events")
    late = sorted(seconds)[int(0.99 * (len(seconds) - 1))] > 0.1
    return f"An event of a run that a worker drives reaches a client of a server {times(seconds)} after it.\n", late


def _deaths(told: Told) -> tuple[str, int]:
    killed, stopped = time_deaths(10, told=told), time_deaths(6, stop=True, told=told)
    text = (
        f"Of three workers, one is killed, and looks alive to its machine, or is stopped, while the others work: its "
        f"{len(killed)} and {len(stopped)} runs went on {times(killed)} after a kill, and {times(stopped)} after a "
        f"stop.\n"
    )
    return text, sum(seconds > 15 for seconds in (*killed, *stopped))


def _throughput(told: Told) -> tuple[str, int]:
    columns = (
        "workers",
        "steps a run",
        "runs/s",
        "steps/s",
        "CPU per step: server and workers",
        "PostgreSQL",
        "Temporal",
    )
    rows = f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n"
    for with_temporal, workers, steps in (*product([False], [0, 1, 2, 3], [4, 20]), (True, 1, 4), (True, 3, 4)):
        seen = load(workers, 1600 // steps, steps=steps, with_temporal=with_temporal)
        name = f"{workers}, Temporal" if with_temporal else str(workers or "none: the server drives")
        own = " | ".join(f"{seen.cpu[one] / steps * 1e3:.1f} ms" for one in ("PostgreSQL", "Temporal"))
        told(f"{name}: {seen.per_second * steps:.0f} steps/s, {seen.per_step * 1e3:.1f} ms")
        speed = f"{seen.per_second:.1f} | {seen.per_second * steps:.0f} | {seen.per_step * 1e3:.1f} ms"
        rows += f"| {name} | {steps} | {speed} | {own} |\n"
    cores, busy = os.cpu_count(), os.getloadavg()[0]
    return (
        f"{rows}\nOn {cores} cores that all of this shares with clients and model (load {busy:.0f}). Temporal's "
        f"share is that of its development server, which also works while nothing happens; it is paid once a run.\n",
        0,
    )


_PARTS: dict[str, Part] = {
    "breaks": _breaks,
    "temporal": _temporal,
    "deaths": _deaths,
    "streams": _streams,
    "throughput": _throughput,
}


def _write(kept: Mapping[str, str]) -> None:
    there = [one for one in _PARTS if one in kept]
    for path, names in ((_RESULTS, there), (_PAGE, [one for one in there if one != "throughput"])):
        replace_section(path, "chaos-cluster", made_by("make chaos-cluster") + "\n".join(kept[one] for one in names))


command = parts_command(_PARTS, _KEPT, _write)

if __name__ == "__main__":
    command()
