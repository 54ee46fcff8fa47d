"""A run that waits for a person, through a kill, and an answer that arrives more than once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field

from .harness import Client, Json, Refused, Site, again, client_of, path_of, site, waiting
from .orders import Order


@dataclass
class Answered:
    """How many waits were answered, and what was not as it must be."""

    waits: int = 0
    problems: list[str] = field(default_factory=list)


def answer(waits: int, *, at_once: int = 8, told: Callable[[str], None]) -> Answered:
    """Let runs wait, kill the server, and answer each `at_once` times side by side, and once more: half of them with
    other arguments than the model gave."""
    with site() as at:
        return asyncio.run(_answer(at, waits, at_once, told))


async def _answer(at: Site, waits: int, at_once: int, told: Callable[[str], None]) -> Answered:
    seen = Answered()
    async with client_of(at) as client:
        for number in range(waits):
            edited = number % 2 == 1
            order = Order(str(number), "look, sign")
            run = await client.rests(await client.start(await client.thread(order.question)))
            await asyncio.to_thread(again, at)
            run = await client.rests(run)
            (call,) = waiting(run)
            what = f"{number}.edited" if edited else f"{number}.1"
            said = json.dumps({"decision": "edit", "arguments": {"what": what}}) if edited else "approve"
            answers = await asyncio.gather(*(_said(client, run, call, said) for _ in range(at_once)))
            if number % 3 == 2:
                await asyncio.to_thread(again, at)
            answers.append(await _said(client, run, call, said))
            run = await _ended(client, run, f"sign {what}")
            done = [one["what"] for one in await client.effects(order.number) if one["tool"] == "sign"]
            if run["status"] != "completed" or done != [what] or not all(answers):
                seen.problems.append(f"{number}: {run['status']}, {done}, {answers}")
            seen.waits += 1
            told(f"{seen.waits} waits")
    return seen


async def _said(client: Client, run: Json, call: str, said: str) -> bool:
    """Whether what a person says is taken, also if it is said again."""
    try:
        await client.submit(run, {call: said})
    except Refused:
        return False
    return True


async def _ended(client: Client, run: Json, said: str) -> Json:
    """The run once it has ended; if a kill made an outcome unknown, a person looks and answers for it."""
    run = await client.rests(await client.ask("GET", path_of(run)))
    while run["status"] == "requires_action":
        (call,) = waiting(run)
        number = said.split()[1].partition(".")[0]
        there = any(one["tool"] == "sign" for one in await client.effects(number))
        run = await client.rests(await client.submit(run, {call: said if there else "approve"}))
    return run
