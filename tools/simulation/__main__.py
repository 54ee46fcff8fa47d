"""Runs schedules, and reports: `make simulate`, or `make simulate SEED=42` to see one of them.

python -m simulation [--schedules N] [--first SEED] [--seconds MOST] [--report] [--planted] [--seed SEED [--drop 1,2]]
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

from bench.report import replace_section

from chaos.parts import made_by

from .planted import BUGS, concerns, planted
from .schedule import Outcome, planned, simulate

_PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
_BATCH = 100
_COLLECTS = 10  # schedules between two collections of garbage: with less of it, memory stays in the caches
_SHOWN = 10  # failing seeds that are told
_MOST = 60.0  # seconds in which a planted bug must be found


@dataclass
class Tally:
    """What came of schedules."""

    schedules: int = 0
    runs: int = 0
    teams: int = 0
    asks: int = 0
    statements: int = 0
    virtual: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    broken: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """Count a schedule."""
        self.schedules += 1
        self.runs += outcome.runs
        self.teams += outcome.teams
        self.asks += outcome.asks
        self.statements += outcome.statements
        self.virtual += outcome.seconds
        self.faults += outcome.faults
        if outcome.problems:
            self.broken.append(outcome)

    def take(self, other: Tally) -> None:
        """Count what another counted."""
        self.schedules += other.schedules
        self.runs += other.runs
        self.teams += other.teams
        self.asks += other.asks
        self.statements += other.statements
        self.virtual += other.virtual
        self.faults += other.faults
        self.broken += other.broken


def main() -> int:
    """Do what the command line says. Return 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m simulation", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--schedules", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seconds", type=float, default=3_600.0, help="begin no more schedules after so many seconds")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--report", action="store_true", help="write what came of it into docs/reliability.md")
    parser.add_argument("--planted", action="store_true", help="find the bugs that are planted on purpose")
    parser.add_argument("--seed", type=int, help="show the schedule of this seed")
    parser.add_argument("--drop", default="", help="leave out these of its orders and faults, by their numbers")
    parser.add_argument("--bug", choices=BUGS, help="with this bug planted")
    asked = parser.parse_args()
    if asked.seed is not None:
        return _show(asked.seed, [int(one) for one in asked.drop.split(",") if one], asked.bug)
    if asked.planted:
        return _find_planted(asked.processes)
    return _run(asked.schedules, asked.first, asked.seconds, asked.processes, report=asked.report)


def _show(seed: int, drop: Sequence[int], bug: str | None) -> int:
    plan = planned(seed)
    for number, part in enumerate((*plan.orders, *plan.faults)):
        _say(f"{number:3}  {'(left out) ' if number in drop else ''}{part}")
    if bug is None:
        outcome = simulate(seed, drop, traced=True)
    else:
        with planted(bug):
            outcome = simulate(seed, drop, traced=True)
    _say("\n".join(["", *outcome.trace, "", *(outcome.problems or ["All promises were kept."])]))
    return bool(outcome.problems)


def _run(schedules: int, first: int, seconds: float, processes: int, *, report: bool) -> int:
    began = time.monotonic()
    tally = Tally()
    for done in _batches(schedules, first, began + seconds, processes):
        tally.take(done)
        took = time.monotonic() - began
        part = int(30 * tally.schedules / schedules)
        bar = f"[{'#' * part}{'.' * (30 - part)}]"
        _say(
            f"\r{bar} {tally.schedules:,} schedules, {tally.schedules / took:.0f}/s, {len(tally.broken)} broken ",
            end="",
        )
    _say("")
    text = _said(tally, time.monotonic() - began)
    _say(text)
    _tell_broken(tally)
    if report:
        replace_section(_PAGE, "simulate", f"{made_by('make simulate')}{text}\n")
    return bool(tally.broken)


def _batches(schedules: int, first: int, until: float, processes: int) -> Iterator[Tally]:
    starts = iter(range(first, first + schedules, _BATCH))
    last = first + schedules
    with ProcessPoolExecutor(processes, initializer=_prepare) as pool:
        doing: set[Future[Tally]] = set()
        while True:
            while len(doing) < 2 * processes and time.monotonic() < until and (start := next(starts, None)) is not None:
                doing.add(pool.submit(batch, start, min(start + _BATCH, last)))
            if not doing:
                return
            done, doing = wait(doing, return_when=FIRST_COMPLETED)
            yield from (one.result() for one in done)


def _prepare() -> None:
    """Make a process ready: garbage is collected between schedules only, so that no schedule depends on it."""
    warnings.simplefilter("ignore")
    sys.unraisablehook = lambda _: None
    simulate(0)
    gc.collect()
    gc.freeze()
    gc.disable()


def batch(first: int, last: int) -> Tally:
    """Run the schedules of these seeds."""
    tally = Tally()
    for seed in range(first, last):
        tally.add(simulate(seed))
        if seed % _COLLECTS == 0:
            gc.collect(0)  # what schedules left is young
    gc.collect()
    return tally


def _said(tally: Tally, seconds: float) -> str:
    faults = ", ".join(f"{count:,} × {kind}" for kind, count in tally.faults.most_common())
    return (
        f"{tally.schedules:,} schedules in {seconds:.0f} s ({tally.schedules / seconds:.0f} a second): {tally.runs:,} "
        f"runs, {tally.teams:,} orders of teams, {tally.asks:,} for which somebody was asked, {tally.statements:,} "
        f"statements, {tally.virtual / 3600:.0f} hours of virtual time. Schedules in which a promise was broken: "
        f"{len(tally.broken)}.\n\nFaults: {faults}."
    )


def _tell_broken(tally: Tally) -> None:
    for outcome in sorted(tally.broken, key=lambda one: one.seed)[:_SHOWN]:
        drop = ",".join(map(str, shrunk(outcome)))
        _say(f"  {outcome.problems[0]}")
        _say(f"    make simulate SEED={outcome.seed}{f' DROP={drop}' if drop else ''}")


def shrunk(outcome: Outcome, bug: str | None = None) -> list[int]:
    """Return the numbers of the orders and faults without which a schedule still fails."""
    drop: list[int] = []
    for part in range(outcome.parts):
        if simulate(outcome.seed, [*drop, part]).problems:
            drop.append(part)
    return drop


def _find_planted(processes: int) -> int:
    missed = 0
    with ProcessPoolExecutor(processes, initializer=_prepare) as pool:
        for name, (seed, seconds, problem) in zip(BUGS, pool.map(find, BUGS), strict=True):
            missed += not problem
            _say(f"{name}: {f'seed {seed} after {seconds:.1f} s: {problem}' if problem else f'not in {seconds:.0f} s'}")
    _say(f"{len(BUGS) - missed} of {len(BUGS)} planted bugs were found.")
    return bool(missed)


def find(bug: str, most: float = _MOST) -> tuple[int, float, str]:
    """Look for a planted bug. Return the seed that finds it, the seconds that it took, and what it broke."""
    began, seed = time.monotonic(), 0
    with planted(bug):
        while time.monotonic() - began < most:
            seed += 1
            if not concerns(bug, planned(seed)):
                continue
            outcome = simulate(seed)
            if outcome.problems:
                return seed, time.monotonic() - began, outcome.problems[0]
            if seed % _COLLECTS == 0:
                gc.collect()
    return seed, time.monotonic() - began, ""


def _say(text: str, end: str = "\n") -> None:
    sys.stdout.write(text + end)
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
