"""`python -m chaos`: break things at full scale, and write what came of it into bench/RESULTS.md, and in short into
docs/reliability.md."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.report import replace_section

from fakes.postgres import postgres

from . import cancels, faults, frozen, human, in_process, kills, neighbours, overload, points, repeats, streams, two
from .harness import site
from .parts import Part, Told, head, made_by, parts_command, times

_ROOT = Path(__file__).parents[2]
_RESULTS = _ROOT / "bench" / "RESULTS.md"
_PAGE = _ROOT / "docs" / "reliability.md"
_KEPT = _ROOT / "bench" / "chaos.json"
_COLUMNS = ("what", "how often", "lost", "doubled", "unknown, parked", "ready again", "going on again")
_SUFFERED = (
    "for a while",
    "runs",
    "lost",
    "doubled",
    "requests that write",
    "slowest",
    "slowest `/health`",
    "going on",
)
_SAID = ("cancels", "human", "overload", "streams", "neighbours", "two", "repeats", "frozen")
_DEATHS = ("points", "kills", "postgres", "terms", "teams", "durable", "durable-postgres")
_SHORT = ("what broke", "how often", "lost", "doubled", "runs went on after")
_SAID_SHORT = ("two", "frozen", "cancels", "human")
_GRACE = "0.2"  # seconds: less than a run takes


def _points(told: Told) -> tuple[str, int]:
    return _deaths(f"a death at each of {len(points.names())} points, at each passage", told)


def _terms(told: Told) -> tuple[str, int]:
    what = f"SIGTERM at the same points, at two passages of each, `--grace {_GRACE}`"
    return _deaths(what, told, most=2, signal="TERM", grace=_GRACE)


def _teams(told: Told) -> tuple[str, int]:
    what = f"a death at each of {len(points.names(team=True))} points, at each passage, of a team of three levels"
    return _deaths(what, told, team=True)


def _deaths(what: str, told: Told, **how: Any) -> tuple[str, int]:
    passages, broken = 0, 0
    lost = doubled = unknown = happened = 0
    ready: list[float] = []
    further: list[float] = []
    for one in points.passages(points.names(team=bool(how.get("team"))), **how):
        passages += 1
        tally = one.tally
        broken += tally.broken + (one.status != -signal.SIGKILL and one.status != 0)
        lost, doubled = lost + tally.lost, doubled + tally.doubled_once + tally.doubled_keyed
        unknown, happened = unknown + tally.happened + tally.missing, happened + tally.happened
        ready.append(one.ready)
        further += [one.further] if one.further is not None else []
        told(f"{one.point}, passage {one.number}: {'fine' if not tally.broken else tally.problems}")
    return _row(what, f"{passages} deaths", lost, doubled, (unknown, happened), ready, further), broken


def _kills(times: int, db: str, what: str, told: Told) -> tuple[str, int]:
    seen = kills.kill(times, db=db, told=told)
    tally = seen.tally
    for problem in tally.problems:
        told(problem)
    doubled, unknown = tally.doubled_once + tally.doubled_keyed, tally.happened + tally.missing
    how = f"{seen.kills} kills, {tally.runs} runs"
    row = _row(what, how, tally.lost, doubled, (unknown, tally.happened), seen.ready, seen.further)
    return row, tally.broken + seen.gaps


def _on_postgres(told: Told) -> tuple[str, int]:
    with postgres(safe=True) as server:
        return _kills(100, server.database(), "`kill -9` at random, PostgreSQL", told)


def _durable(told: Told, db: str = "", where: str = "SQLite") -> tuple[str, int]:
    """Break processes with agents in Python that keep their runs."""
    ways: dict[str, Callable[[], in_process.Killed]] = {
        "a death at each point, at each passage, of an agent in Python": lambda: in_process.die(db, told=told),
        "the same, of a team of three levels": lambda: in_process.die(db, team=True, told=told),
        "`kill -9` of one of two that share a store": lambda: in_process.kill_two(40, db, told=told),
    }
    rows, broken = "", 0
    for what, way in ways.items():
        seen = way()
        tally, how = seen.tally, f"{seen.kills} kills, {seen.tally.runs} runs"
        for problem in tally.problems:
            told(problem)
        doubled, unknown = tally.doubled_once + tally.doubled_keyed, (tally.happened + tally.missing, tally.happened)
        rows += _row(f"{what}, {where}", how, tally.lost, doubled, unknown, [], seen.further)
        broken += seen.broken
    return rows, broken


def _durable_on_postgres(told: Told) -> tuple[str, int]:
    with postgres(safe=True) as server:
        return _durable(told, server.database(), "PostgreSQL")


def _cancels(told: Told) -> tuple[str, int]:
    seen = cancels.cancel(200, told=told)
    last = f"{max(seen.begun, default=0) * 1e3:.0f} ms"
    text = (
        f"{seen.cancels} cancels at random moments: {len(seen.not_cancelled)} runs did not end `cancelled`; "
        f"{len(seen.begun)} tools began after the answer, the last {last} after it, {seen.late()} later than 250 ms. "
        f"From the request to the end of the run {times(seen.seconds)}; the thread took the next run at once.\n"
    )
    return text, len(seen.not_cancelled) + seen.late()


def _human(told: Told) -> tuple[str, int]:
    seen = human.answer(20, told=told)
    text = (
        f"{seen.waits} runs that waited for a person through a kill, each answered nine times (eight of them side by "
        f"side), half of them with other arguments: {len(seen.problems)} ran otherwise than once, as approved.\n"
    )
    return text, len(seen.problems)


def _overload(told: Told) -> tuple[str, int]:
    text, wrong = "", 0
    for name, limits in overload.LIMITS.items():
        seen = overload.overload(2_000, 10.0, limits=limits)
        told(f"{name}: {seen.statuses}, {seen.problems() or 'fine'}")
        wrong += len(seen.problems())
        text += (
            f"2,000 runs asked for in 10 s against a limit of {name}: {seen.statuses[200]} accepted, {seen.completed} "
            f"of them completed; {seen.statuses[429]} times 429, {seen.untold} of them without `Retry-After`; "
            f"{seen.others} other answers. `/health` meanwhile {_ms(seen.health)}.\n\n"
        )
    return text, wrong


def _faults(told: Told) -> tuple[str, int]:
    rows, broken = "", 0
    for what, suffer in _FAULTS.items():
        if suffer is _on_a_small_disk and not faults.is_root():
            continue
        seen = suffer()
        told(f"{what}: {'fine' if not seen.broken else seen.tally.problems}")
        doubled = seen.tally.doubled_once + seen.tally.doubled_keyed
        answers = ", ".join(f"{times} of {status}" for status, times in sorted(seen.answers.items()))
        slowest = f"{seen.slowest['write']:.1f} s | {seen.slowest['health']:.2f} s | {times(seen.further)}"
        rows += f"| {what} | {seen.tally.runs} | {seen.tally.lost} | {doubled} | {answers} | {slowest} |\n"
        broken += seen.broken
    return rows, broken


def _on_a_file(fault: faults.Fault, seconds: float) -> faults.Suffered:
    with site() as at:
        return asyncio.run(faults.suffer(at, fault, seconds))


def _on_a_small_disk() -> faults.Suffered:
    with faults.small_disk() as db, site(db=db) as at:
        return asyncio.run(faults.suffer(at, faults.full, 20.0))


def _while_restarting() -> faults.Suffered:
    with postgres(safe=True) as server, site(db=server.database()) as at:
        return asyncio.run(faults.suffer(at, faults.restarted(server), 2.0))


def _with_clock(by: int) -> faults.Suffered:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "clock"
        with site(env=faults.faked_clock(file)) as at:
            seen = asyncio.run(faults.suffer(at, faults.set_clock(file, by), 5.0))
    seen.further.clear()  # the log has the times of that clock
    return seen


_FAULTS: dict[str, Callable[[], faults.Suffered]] = {
    "another process has SQLite's file locked, 5 s": lambda: _on_a_file(faults.locked, 5.0),
    "the same, 35 s": lambda: _on_a_file(faults.locked, 35.0),
    "no file may grow (`RLIMIT_FSIZE`), 20 s": lambda: _on_a_file(faults.limited, 20.0),
    "the disk is full, 20 s": _on_a_small_disk,
    "PostgreSQL dies and is restarted, twice in 2 s": _while_restarting,
    "the clock is set an hour ahead, and back after 5 s": lambda: _with_clock(3600),
    "the clock is set an hour back, and ahead after 5 s": lambda: _with_clock(-3600),
}


def _streams(told: Told) -> tuple[str, int]:
    broken, rows = 0, []
    for what, kind in (("assistants' runs", streams.ASSISTANTS), ("responses", streams.RESPONSES)):
        seen = streams.cut(500, 20, kind=kind, told=told)
        for problem in seen.problems:
            told(problem)
        broken += seen.broken
        rows.append(
            f"{seen.streams} streams of {what}, left by their readers at {seen.left} places and cut by {seen.kills} "
            f"kills of the server ({seen.across} streams were under way then): of {seen.events} events {seen.gaps} "
            f"missing, {seen.repeats} told twice; {seen.changed} streams were told otherwise, letter by letter, when "
            f"they were read again; {seen.other_texts} had other texts than those that are stored.\n\n"
        )
    slow = streams.slow(30, told=told)
    text = "".join(rows) + (
        f"{slow.readers} readers of a byte a second, of streams of 600 kB: {slow.kilobytes:.0f} kB of the server's "
        f"memory each; a run took {slow.beside:.1f} s beside them, and {slow.alone:.1f} s alone.\n"
    )
    return text, broken + (slow.kilobytes > 2_000)


def _neighbours(told: Told) -> tuple[str, int]:
    seen = neighbours.beside(60.0)
    for problem in seen.problems():
        told(problem)
    told(f"{seen.sent}")
    text = (
        f"For a minute one tenant sends files that take parsers minutes, schemas with endless patterns and references, "
        f"bodies of 4 MB, requests with a hundred references, small ones that name large files, "
        f"uploads of 20 MB, wrong keys, images of 3 MB, long questions of users of whom agents remember, 64 registered "
        f"tools with large schemas, A2A tasks of 600 kB, and teams of which one run calls eight workers, all at once "
        f"({sum(map(_total, seen.sent.values()))} requests were answered): {len(seen.chats)} chat completions of "
        f"another tenant took {_ms(seen.chats)}, the longest {max(seen.chats):.2f} s; {len(seen.files)} small files of "
        f"it were searchable after {times(seen.files)}, the last after {max(seen.files):.2f} s; "
        f"{seen.refused.total()} of its requests were refused.\n"
    )
    return text, len(seen.problems())


def _two(told: Told) -> tuple[str, int]:
    seen = two.share(200, 100, 50, 20, told=told)
    for problem in seen.problems():
        told(problem)
    counted = seen.tally
    doubled = counted.doubled_once + counted.doubled_keyed
    last = f"{max(seen.begun, default=0) * 1e3:.0f} ms"
    text = (
        f"Two servers on one PostgreSQL database, of which one or the other is killed {seen.kills} times, under "
        f"{counted.runs} runs: {counted.lost} lost, {doubled} effects doubled, {len(seen.both)} runs driven by both at "
        f"a time, {seen.gaps} gaps in logs. {seen.keys} idempotency keys and {seen.pairs} runs of a thread sent to "
        f"both at once: {len(seen.broken_keys)} and {len(seen.twice)} made two runs. {seen.approvals} answers of a "
        f"person sent to both at once: {len(seen.wrong_approvals)} refused. {seen.streams} streams read at either "
        f"server: {len(seen.told_otherwise)} told otherwise than later as a whole; before the kills, an event came "
        f"{_ms(seen.lags)} later from the server that did not drive its run. {seen.cancels} cancels at either "
        f"server: {len(seen.not_cancelled)} not `cancelled`; {len(seen.begun)} tools that only read began after the "
        f"answer, the last {last} after it, and {len(seen.acted)} with effects; from the request to the end "
        f"{times(seen.seconds)}.\n"
    )
    return text, seen.broken


def _repeats(told: Told) -> tuple[str, int]:
    text, doubled = "", 0
    for name in repeats.WAYS:
        for api in ("chat", "responses"):
            seen = repeats.repeat(name, api, 50)
            told(f"{name}, {api}: {seen}")
            answers = ", ".join(f"{times} of {status}" for status, times in sorted(seen.answers.items()))
            text += f"| {name} | {api} | {seen.requests} | {answers} | {seen.effects} | {len(seen.doubled)} |\n"
            doubled += len(seen.doubled)
    title = "`openai.OpenAI()` as it comes, in whose request something fails after its first payments:\n\n"
    columns = ("what fails", "API", "requests", "answers", "payments", "twice")
    return f"{title}{head(columns)}\n{text}", doubled


def _frozen(told: Told) -> tuple[str, int]:
    found = frozen.freeze_at_each(120.0, beside=4, told=told)
    seen = [one for one in found if one.reached]
    doubled = sum(one.tally.doubled_once + one.tally.doubled_keyed for one in seen)
    text = (
        f"One of two servers on one PostgreSQL database is frozen (SIGSTOP) for 120 s, right after each of "
        f"{len(seen)} statements ({len(found) - len(seen)} others are executed at a start only): the other one ended "
        f"{sum(one.ended for one in seen)} runs of its own meanwhile, and none for at most "
        f"{max((one.stood for one in seen), default=0):.1f} s; it went on with the frozen one's after "
        f"{times([seconds for one in seen for seconds in one.taken])}. "
        f"{sum(one.tally.lost for one in seen)} runs lost, "
        f"{doubled} effects doubled, {sum(one.tally.happened + one.tally.missing for one in seen)} calls of which a "
        f"person was asked. The frozen one was ready again {times([one.ready_again for one in seen])} after the thaw.\n"
    )
    return text, sum(len(one.problems()) for one in seen)


def _total(statuses: dict[str, int]) -> int:
    return sum(statuses.values())


_PARTS: dict[str, Part] = {
    "points": _points,
    "kills": lambda told: _kills(200, "", "`kill -9` at random, SQLite", told),
    "postgres": _on_postgres,
    "terms": _terms,
    "teams": _teams,
    "durable": _durable,
    "durable-postgres": _durable_on_postgres,
    "faults": _faults,
    "cancels": _cancels,
    "human": _human,
    "overload": _overload,
    "streams": _streams,
    "neighbours": _neighbours,
    "two": _two,
    "repeats": _repeats,
    "frozen": _frozen,
}


def _write(kept: Mapping[str, str]) -> None:
    rows = [kept[name] for name in _DEATHS if name in kept]
    suffered = f"\n{head(_SUFFERED)}\n{kept['faults']}" if "faults" in kept else ""
    said = "\n".join(kept[name] for name in _SAID if name in kept)
    replace_section(_RESULTS, "chaos", f"{made_by('make chaos')}{head(_COLUMNS)}\n{''.join(rows)}{suffered}\n{said}")
    replace_section(_PAGE, "chaos", made_by("make chaos") + _summarize(kept))


def _summarize(kept: Mapping[str, str]) -> str:
    """Return the report in short: of each row what it counts, of each paragraph the first sentence."""
    deaths = [_cells(row) for name in _DEATHS if name in kept for row in kept[name].splitlines()]
    rows = [(what, often, lost, doubled, later) for what, often, lost, doubled, _, _, later in deaths]
    for line in kept.get("faults", "").splitlines():
        what, runs, lost, doubled, *_, later = _cells(line)
        rows.append((what, f"{runs} runs", lost, doubled, later))
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    sentences = [kept[name].partition(". ")[0].rstrip(".\n") for name in _SAID_SHORT if name in kept]
    said = "".join(f"- {sentence}.\n" for sentence in sentences)
    return f"{head(_SHORT)}\n{table}\n{said}"


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


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
    return f"| {what} | {how} | {lost} | {doubled} | {parked} | {times(ready)} | {times(further)} |\n"


def _ms(seconds: Sequence[float]) -> str:
    rising = sorted(seconds)
    return f"{rising[len(rising) // 2] * 1e3:.0f} ms (p99 {rising[int(0.99 * (len(rising) - 1))] * 1e3:.0f} ms)"


command = parts_command(_PARTS, _KEPT, _write)

if __name__ == "__main__":
    command()
