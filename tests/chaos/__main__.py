"""`python -m chaos`: break things at full scale, print what came of it, and write it into bench/RESULTS.md."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

import click

from fakes.postgres import postgres
from retinue.evals.report import replace_section

from . import cancels, human, kills, points, streams

_ROOT = Path(__file__).parents[2]
_RESULTS = _ROOT / "bench" / "RESULTS.md"
_PAGE = _ROOT / "docs" / "reliability.md"
_KEPT = _ROOT / "bench" / "chaos.json"
_COLUMNS = ("what", "how often", "lost", "doubled", "unknown, parked", "ready again", "going on again")
_HEAD = f"| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}"


def main() -> None:
    """The command."""
    command()


def _points(told: Callable[[str], None]) -> tuple[str, int]:
    passages, broken = 0, 0
    lost = doubled = unknown = happened = 0
    ready: list[float] = []
    further: list[float] = []
    names = points.names()
    for one in points.passages(names):
        passages += 1
        tally = one.tally
        broken += tally.broken
        lost, doubled = lost + tally.lost, doubled + tally.doubled_once + tally.doubled_keyed
        unknown, happened = unknown + tally.happened + tally.missing, happened + tally.happened
        ready.append(one.ready)
        further += [one.further] if one.further is not None else []
        told(f"{one.point}, passage {one.number}: {'fine' if not tally.broken else tally.problems}")
    what = f"a death at each of {len(names)} points, at each passage"
    return _row(what, f"{passages} deaths", lost, doubled, (unknown, happened), ready, further), broken


def _kills(times: int, db: str, what: str, told: Callable[[str], None]) -> tuple[str, int]:
    seen = kills.kill(times, db=db, told=told)
    tally = seen.tally
    for problem in tally.problems:
        told(problem)
    doubled, unknown = tally.doubled_once + tally.doubled_keyed, tally.happened + tally.missing
    how = f"{seen.kills} kills, {tally.runs} runs"
    row = _row(what, how, tally.lost, doubled, (unknown, tally.happened), seen.ready, seen.further)
    return row, tally.broken + seen.gaps


def _on_postgres(told: Callable[[str], None]) -> tuple[str, int]:
    with postgres(safe=True) as server:
        return _kills(100, server.database(), "`kill -9` at random, PostgreSQL", told)


def _cancels(told: Callable[[str], None]) -> tuple[str, int]:
    seen = cancels.cancel(200, told=told)
    last = f"{max(seen.begun, default=0) * 1e3:.0f} ms"
    text = (
        f"{seen.cancels} cancels at random moments: {len(seen.not_cancelled)} runs did not end `cancelled`; "
        f"{len(seen.begun)} tools began after the answer, the last {last} after it, {seen.late()} later than 250 ms. "
        f"From the request to the end of the run {_times(seen.seconds)}; the thread took the next run at once.\n"
    )
    return text, len(seen.not_cancelled) + seen.late()


def _human(told: Callable[[str], None]) -> tuple[str, int]:
    seen = human.answer(20, told=told)
    text = (
        f"{seen.waits} runs that waited for a person through a kill, each answered nine times (eight of them side by "
        f"side), half of them with other arguments: {len(seen.problems)} ran otherwise than once, as approved.\n"
    )
    return text, len(seen.problems)


def _streams(told: Callable[[str], None]) -> tuple[str, int]:
    seen = streams.cut(500, 20, told=told)
    for problem in seen.problems:
        told(problem)
    slow = streams.slow(30, told=told)
    text = (
        f"{seen.streams} streams of assistants' runs, left by their readers at {seen.left} places and cut by "
        f"{seen.kills} kills of the server ({seen.across} streams were under way then): of {seen.events} events "
        f"{seen.gaps} missing, {seen.repeats} told twice; {seen.changed} streams were told otherwise, letter by "
        f"letter, when they were read again; {seen.other_texts} had other texts than the stored messages.\n\n"
        f"{slow.readers} readers of a byte a second, of streams of 600 kB: {slow.kilobytes:.0f} kB of the server's "
        f"memory each; a run took {slow.beside:.1f} s beside them, and {slow.alone:.1f} s alone.\n"
    )
    return text, seen.broken + (slow.kilobytes > 2_000)


_PARTS: dict[str, Callable[[Callable[[str], None]], tuple[str, int]]] = {
    "points": _points,
    "kills": lambda told: _kills(200, "", "`kill -9` at random, SQLite", told),
    "postgres": _on_postgres,
    "cancels": _cancels,
    "human": _human,
    "streams": _streams,
}


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice(list(_PARTS)))
def command(parts: Sequence[str]) -> None:
    """Run PARTS, or all, and write down what came of them beside what is known of the others."""
    broken = 0
    for name in parts or _PARTS:
        text, wrong = _PARTS[name](lambda said, name=name: click.echo(f"{name}: {said}"))  # type: ignore[misc]
        click.echo(text)
        kept: dict[str, str] = json.loads(_KEPT.read_text("utf-8")) if _KEPT.exists() else {}
        kept[name] = text
        broken += wrong
        _KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", "utf-8")
        _write(kept)
    sys.exit(bool(broken))


def _write(kept: dict[str, str]) -> None:
    rows = [kept[name] for name in ("points", "kills", "postgres") if name in kept]
    said = "\n".join(kept[name] for name in ("cancels", "human", "streams") if name in kept)
    head = f"`make chaos`, {date.today().isoformat()}, Python {platform.python_version()}.\n\n"
    text = f"{head}{_HEAD}\n{''.join(rows)}\n{said}"
    for path in (_RESULTS, _PAGE):
        replace_section(path, "chaos", text)


def _row(
    what: str,
    how: str,
    lost: int,
    doubled: int,
    unknown: tuple[int, int],
    ready: Sequence[float],
    further: Sequence[float],
) -> str:
    parked = f"{unknown[0]} ({unknown[1]} had happened)"
    return f"| {what} | {how} | {lost} | {doubled} | {parked} | {_times(ready)} | {_times(further)} |\n"


def _times(seconds: Sequence[float]) -> str:
    """The median and the 99th percentile."""
    if not seconds:
        return ""
    rising = sorted(seconds)
    return f"{rising[len(rising) // 2]:.2f} s (p99 {rising[int(0.99 * (len(rising) - 1))]:.2f} s)"


if __name__ == "__main__":
    main()
