"""Recorded logs, and what going on from each of their beginnings came to: written once, by the version they are of.

A file has one JSON object a line. Those with a `kind`, `delta` or `raises` are all that was ever told, numbered from 0.
`{"log": N, "from": M, "is": […]}` is a log, by these numbers: the first is a whole run, the others are what going on
from a beginning of a former one made of it; they are cut after their event M and later. `{"at": M, "how": …,
"then": […]}` is what came after the first M events of the log before it.

`python -m recorded.recordings FOLDER`, with `tests` on the path, records what is not there yet.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import groupby, product
from pathlib import Path
from typing import Any

from recorded.worlds import WORLDS, World
from retinue import Delta, RetinueError
from retinue.agent import Run
from retinue.core.events import Event, Observed, Paused, Replied, Retried, Stopped
from retinue.core.serialization import from_json, to_json
from retinue.core.values import UNUSED
from retinue.run.run import Earlier

HOWS = ("alone", "decided", "later")  # nobody decides; somebody has decided on all; with more of everything
_MOST = 6  # logs of one world
_IDS = [
    *(f"call_{step}_{at}" for step in range(12) for at in range(20)),
    *(f"consult_{number}" for number in range(1, 4)),
]


async def going_on(world: World, log: Sequence[Event], how: str) -> AsyncIterator[Event | Delta | str]:
    """What a run says that goes on from `log`; last, the error that it raises, if it does."""
    decisions = {} if how == "alone" else dict.fromkeys(_IDS, world.decides)
    agent = world.make()
    run = Run(agent, world.question, world.history, Earlier(log, decisions), "run")
    run.budget = world.later if how == "later" and world.later else agent.budget
    try:
        async with aclosing(run.events()) as events:
            async for event in events:
                yield event
    except RetinueError as error:
        yield f"{type(error).__name__}: {error}"


async def told(world: World, log: Sequence[Event], how: str) -> list[Any]:
    """The same, as JSON has it: without times, and what came together in order."""
    return _plain([event async for event in going_on(world, log, how)])


def _plain(events: Sequence[Event | Delta | str]) -> list[Any]:
    """`events` as JSON has them: deltas joined, observations of one step in the order of their calls."""
    found: list[Any] = []
    for kind, several in groupby(map(_timeless, events), key=type):
        same: list[Any] = list(several)
        if kind is Delta:
            text, answer = "".join(one.text for one in same), "".join(one.answer for one in same)
            found.append({"delta": text, "answer": answer})
        elif kind is str:
            found += [{"raises": one} for one in same]
        else:
            if kind is Observed:
                same.sort(key=lambda one: (one.step, one.observation.call_id))
            found += [json.loads(to_json(one)) for one in same]
    return found


def _timeless(event: Event | Delta | str) -> Event | Delta | str:
    """`event` without times, and without what people are told of an end or a wait, whose wording may change. What cut
    replies used was not known to former versions."""
    match event:
        case Paused():
            return replace(event, problem="")
        case Stopped():
            return replace(event, detail="", usage=UNUSED)
        case Retried():
            return replace(event, usage=UNUSED)
        case Replied(reply=reply):
            return replace(event, reply=replace(reply, seconds=0.0, first_token_seconds=0.0))
        case Observed(observation=observation):
            return replace(event, observation=replace(observation, seconds=0.0))
        case _:
            return event


# ── files ────────────────────────────────────────────────────────────────────────────────────────


class Recorded:
    """A file of recorded logs: `tails` are their beginnings, how they went on, and what was told then."""

    def __init__(self, path: Path) -> None:
        items: list[Any] = []
        log: list[Event] = []
        self.tails: list[tuple[Sequence[Event], str, list[Any]]] = []
        for line in path.read_text(encoding="utf-8").splitlines():
            values = json.loads(line)
            if "is" in values:
                log = _events([items[one] for one in values["is"]])
            elif "then" in values:
                then = [_as_today(items[one]) for one in values["then"]]
                self.tails.append((log[: values["at"]], values["how"], then))
            else:
                items.append(values)


def _as_today(told: Any) -> Any:
    """An event of a former version is compared as it is read today."""
    return _plain([from_json(json.dumps(told))])[0] if "kind" in told else told


def record(world: World, runner: asyncio.Runner) -> Iterator[dict[str, Any]]:
    """The lines of a file."""
    items: dict[str, int] = {}
    whole = [json.loads(to_json(event)) for event in world.made(_events(runner.run(told(world, (), "alone"))))]
    logs: list[tuple[int, list[Any]]] = [(0, whole)]
    for number, (start, log) in enumerate(logs):  # which grow meanwhile
        yield from _new(items, log)
        yield {"log": number, "from": start, "is": _numbers(items, log)}
        for at, how in product(range(start, len(log) + 1), HOWS[: 3 if world.later else 2]):
            then = runner.run(told(world, _events(log[:at]), how))
            yield from _new(items, then)
            yield {"at": at, "how": how, "then": _numbers(items, then)}
            longer = [*log[:at], *(one for one in then if "kind" in one)]
            if len(logs) < _MOST and how != "alone" and not any(longer == other for _, other in logs):
                logs.append((at + 1, longer))


def _events(told: Sequence[Any]) -> list[Event]:
    return [from_json(json.dumps(one)) for one in told if "kind" in one]


def _new(items: dict[str, int], told: Sequence[Any]) -> Iterator[Any]:
    for one in told:
        if (text := json.dumps(one)) not in items:
            items[text] = len(items)
            yield one


def _numbers(items: Mapping[str, int], told: Sequence[Any]) -> list[int]:
    return [items[json.dumps(one)] for one in told]


def main(folder: Path) -> None:
    """Record what is not there."""
    folder.mkdir(exist_ok=True)
    for name, world in WORLDS.items():
        path = folder / f"{name}.jsonl"
        if not path.exists():
            with asyncio.Runner() as runner:
                lines = [json.dumps(line, ensure_ascii=False) for line in record(world, runner)]
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
