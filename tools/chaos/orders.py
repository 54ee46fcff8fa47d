"""Orders: what the model is asked to have done, a person who decides on what waits, and what it all came to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .harness import Client, Json, waiting
from .world import shared_out

WAYS = {"look": "read", "note": "idempotent", "pay": "once", "sign": "once", "ask": "once"}


@dataclass
class Order:
    """An order by its number: what is to be done, and what came of it. A `team` of three levels works it off, or one
    worker."""

    number: str
    steps: str = "look, note, pay, look+note, pay"
    run: Json = field(default_factory=dict)
    happened: int = 0  # calls whose outcome was not known, and that had taken effect
    missing: int = 0  # likewise, and that had not
    team: bool = False
    said: list[str] | None = None  # what it said, if not on a thread

    @property
    def model(self) -> str:
        """The agent that works it off."""
        return "chief" if self.team else "worker"

    @property
    def question(self) -> str:
        """What the model reads."""
        return f"Order {self.number}: {self.steps}"

    @property
    def wanted(self) -> list[tuple[str, str]]:
        """The effects that there must be: tools, and what they are for."""
        return [effect for share in self._shares for effect in share.effects]

    @property
    def answer(self) -> str:
        """What the run says in the end."""
        if not self.team:
            return self._shares[0].answer
        leads = [f"Order {share.number} is done: {share.answer}." for share in self._shares]
        return f"Order {self.number} is done: {'; '.join(leads)}."

    @property
    def _shares(self) -> list[_Share]:
        """What single workers do of it."""
        if not self.team:
            return [_Share(self.number, self.steps)]
        return [_Share(f"{self.number}.m{at}", steps) for at, steps in enumerate(shared_out(self.steps, 2))]


@dataclass
class _Share:
    number: str
    steps: str

    @property
    def effects(self) -> list[tuple[str, str]]:
        return [
            (tool, f"{self.number}.{at}.{beside}" if "+" in step else f"{self.number}.{at}")
            for at, step in enumerate(self.steps.split(", "))
            for beside, tool in enumerate(step.split("+"))
        ]

    @property
    def answer(self) -> str:
        return f"Order {self.number} is done: {'; '.join(f'{tool} {what}' for tool, what in self.effects)}."


async def work_off(client: Client, order: Order, **asked: Any) -> None:
    """Start a run for an order and see it through, whatever happens to the server. `asked` is more of its request."""
    thread = await client.thread(order.question)
    order.run = await client.start(thread, model=order.model, **asked)
    while (run := await client.rests(order.run))["status"] == "requires_action":
        order.run = await client.submit(run, await decided(client, order, run))
    order.run = run


async def decided(client: Client, order: Order, run: Json) -> dict[str, str]:
    """A truthful person's word on each call: one that had taken effect is answered for, else it is approved."""
    steps = {call["id"] for step in await client.steps(run) for call in step["step_details"].get("tool_calls", ())}
    outputs: dict[str, str] = {}
    for call, function in waiting(run).items():
        assert call in steps
        what = json.loads(function["arguments"])["what"]
        there = any(one["what"] == what for one in await client.effects(order.number))
        if function["name"] == "ask":  # of the client itself, which may be asked by a run only once
            await client.act(function["name"], what)
            there = True
        elif function["name"] != "sign" or there:
            order.happened += there
            order.missing += not there
        outputs[call] = f"{function['name']} {what}" if there else "approve"
    return outputs


@dataclass
class Tally:
    """What orders came to, counted at the ledger."""

    runs: int = 0
    lost: int = 0
    doubled_once: int = 0
    doubled_keyed: int = 0
    happened: int = 0
    missing: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def broken(self) -> int:
        """Promises that were not kept."""
        return self.lost + self.doubled_once + self.doubled_keyed


async def tally(client: Client, orders: Sequence[Order]) -> Tally:
    """Count what became of orders."""
    effects = await client.effects()
    counted = Tally(len(orders))
    for order in orders:
        there = Counter((one["tool"], one["what"]) for one in effects if one["what"].partition(".")[0] == order.number)
        said = order.said
        if said is None:
            said = await client.messages(order.run["thread_id"]) if order.run else []
        fine = order.run.get("status") == "completed" and said == [order.answer] and set(there) == set(order.wanted)
        doubled = [tool for (tool, _), times in there.items() if times > 1 and WAYS[tool] != "read"]
        counted.lost += not fine
        counted.doubled_once += sum(WAYS[tool] == "once" for tool in doubled)
        counted.doubled_keyed += sum(WAYS[tool] == "idempotent" for tool in doubled)
        counted.happened += order.happened
        counted.missing += order.missing
        if not fine or doubled:
            status = (order.run.get("status"), order.run.get("last_error"))
            counted.problems.append(f"{order.number}: {status}, {said}, {sorted(there.items())}")
    return counted
