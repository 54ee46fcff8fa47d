"""What the database itself says of runs: their logs, gaps in them, and how soon they went on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import select

from retinue.core.events import Called, Event, Observed, Replied
from retinue.store.engines import engine_of
from retinue.store.event_log import read_events
from retinue.store.tables import events, runs

Line = tuple[int, float, Event]  # number, Unix seconds, and the event itself


def logs(url: str) -> dict[str, list[Line]]:
    """The logs of all runs, by their ids."""
    engine = engine_of(url)
    try:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            ids = connection.execute(select(events.c.run_id).distinct()).scalars().all()
            return {one: [(at.seq, at.at, at.event) for at in read_events(connection, one)] for one in sorted(ids)}
    finally:
        engine.dispose()


def tree(url: str, run_id: str) -> dict[str, str]:
    """A run, and all runs below it: their ids, and the paths of their agents. Raises `AssertionError` if one of them
    has not ended although it has, or if an agent was called twice where once was asked for."""
    engine = engine_of(url)
    try:
        with engine.connect() as connection:
            mine = (runs.c.id == run_id) | (runs.c.root_id == run_id)
            rows = connection.execute(select(runs.c.id, runs.c.agent, runs.c.status).where(mine)).all()
    finally:
        engine.dispose()
    assert {status for _, _, status in rows} == {"completed"}, rows
    paths = {found: agent for found, agent, _ in rows}
    assert len(set(paths.values())) == len(paths), rows
    return paths


def gaps(log: Sequence[Line]) -> int:
    """How many numbers are missing in a log."""
    return sum(seq != at for at, (seq, _, _) in enumerate(log, 1))


def transcript(log: Sequence[Line], number: str) -> list[str]:
    """What the model said and the tools answered, in a form that is the same for every order like the one of this
    number; of a call that was made again, once."""
    said: list[str] = []
    for _, _, event in log:
        match event:
            case Replied(reply=reply):
                said.append(f"{reply.text} {[(call.tool, call.tool_input) for call in reply.calls]}")
            case Called(action=action):
                said.append(f"call {action.id} {action.tool} {action.tool_input}")
            case Observed(observation=seen):
                said.append(f"seen {seen.call_id} {seen.text} {seen.outcome}")
    return sorted({one.replace(f"Order {number} ", "Order ").replace(f"{number}.", "N.") for one in said})


def went_on(found: Mapping[str, Sequence[Line]], started: Sequence[float]) -> list[float]:
    """Seconds from the start of a process to the first new event of each run that the one before left in the middle.

    `started`: when each process was started, in order. A run that waited for a person, or did nothing until the next
    kill, is not counted.
    """
    seconds: list[float] = []
    ends = [*started[1:], float("inf")]
    for begin, end in zip(started, ends, strict=True):
        for log in found.values():
            before = [event for _, at, event in log if at < begin]
            after = [at for _, at, _ in log if begin <= at < end]
            if before and after and type(before[-1]).__name__ not in ("Stopped", "Finished"):
                seconds.append(min(after) - begin)
    return seconds
