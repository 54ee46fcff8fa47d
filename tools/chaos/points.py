"""Every named point in the code at which a process may die, or be told to end, at its first, second, … passage."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import retinue

from .harness import Site, again, client_of, died, site
from .logs import gaps, logs, transcript, tree
from .orders import Order, Tally, tally, work_off

_STEPS = "look, note, pay, look+note+pay, sign"
_TEAM = "look+note, pay, note, sign"
_LAST = {"KILL": 0.1, "TERM": 2.0}  # seconds from the end of a run in which its process still dies
_CALL = re.compile(r'failpoint\("([^"]+)"\)')


def names(*, team: bool = False) -> list[str]:
    """The points in the code that the run of one worker passes, or that of a `team`."""
    files = sorted(Path(retinue.__file__).parent.rglob("*.py"))
    found = sorted({name for file in files for name in _CALL.findall(file.read_text("utf-8"))})
    return [name for name in found if team or "members" not in name]


@dataclass
class Passage:
    """One death: where, the process's exit status, what the order came to, seconds until the server was ready again,
    and from the start of the process to the run's first new event (`None`: it had not begun, or waited)."""

    point: str
    number: int
    status: int
    tally: Tally
    ready: float
    further: float | None


def passages(
    points: Sequence[str],
    most: int = 100,
    delay: float = 0.05,
    signal: str = "KILL",
    grace: str = "10",
    *,
    team: bool = False,
) -> Iterator[Passage]:
    """Let a process die at each passage of each point, at most `most` of them, until one run ends without. `signal`:
    what it dies of; `TERM` leaves it `grace` seconds. A `team` of three levels runs, or one worker."""
    steps = _TEAM if team else _STEPS
    with site("--grace", grace, delay=delay) as at:
        straight = Order("straight", steps, team=team)
        asyncio.run(_alone(at, straight))
        expected = _transcripts(at.db, straight)
        for which, point in enumerate(points):
            for number in range(1, most + 1):
                order = Order(f"{which}x{number}", steps, team=team)
                at.server.stop()
                at.server.restart(RETINUE_CRASHPOINT=f"{point}:{number}:{signal}")
                dying = at.server.process
                counted, ready = asyncio.run(_die(at, order, _LAST[signal]))
                if ready is None:
                    break
                log = logs(at.db)[order.run["id"]]
                if gaps(log) or _transcripts(at.db, order) != expected:
                    counted.lost += 1
                    counted.problems.append(f"{point}:{number}: {_transcripts(at.db, order)}")
                before = [event for _, when, event in log if when < at.server.started]
                after = [when for _, when, _ in log if when >= at.server.started]
                under_way = before and type(before[-1]).__name__ != "Stopped" and after
                further = min(after) - at.server.started if under_way else None
                yield Passage(point, number, dying.wait(), counted, ready, further)


def _transcripts(db: str, order: Order) -> dict[str, list[str]]:
    """The transcripts of an order's run and of all its members' runs, by their agents' paths."""
    found = logs(db)
    return {path: transcript(found[run_id], order.number) for run_id, path in tree(db, order.run["id"]).items()}


async def _alone(at: Site, order: Order) -> None:
    async with client_of(at) as client:
        await work_off(client, order)


async def _die(at: Site, order: Order, last: float) -> tuple[Tally, float | None]:
    """Work off an order and start the server again when it dies, within `last` seconds after that at the latest;
    seconds until it is ready then, `None` if it does not die."""
    async with client_of(at) as client:
        working = asyncio.create_task(work_off(client, order))
        dying = asyncio.create_task(died(at.server.process))
        await asyncio.wait([working, dying], return_when=asyncio.FIRST_COMPLETED)
        ready = None
        if working.done():  # at its very end
            await asyncio.wait([dying], timeout=last)
        if dying.done():
            ready = await asyncio.to_thread(again, at)
        dying.cancel()
        await asyncio.wait_for(working, 60)
        return await tally(client, [order]), ready
