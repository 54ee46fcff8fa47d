"""What the simulated agents do: they work off orders, with tools whose effects a ledger counts.

`Order 7: look, note+pay` is a call of `look`, then calls of `note` and `pay` side by side, each with what it is for
(`7.0`, `7.1.0`, …), then an answer. An agent whose tools are agents gives each of them its share of the order.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from retinue import Agent, Budget, Tool, idempotency_key
from retinue.core.events import Delta
from retinue.core.prompt import Ask
from retinue.core.protocols import Chunks
from retinue.core.run_context import current_run
from retinue.core.values import Capabilities, Usage
from retinue.extend import AgentAction, AgentFinish
from retinue.harness.helpers import task, task_result

from .world import World

_ORDER = re.compile(r"Order ([\w.]+): ([a-z+, ]+)")
_LATE = 1.0  # seconds after the answer to a cancel within which its run's driver must have heard of it


class Ledger:
    """What happened outside the machines, and what was seen of it there."""

    def __init__(self, world: World, rows: Any) -> None:
        self.world = world
        self.rows = rows
        self.effects: Counter[tuple[str, str]] = Counter()
        self.keys: dict[tuple[str, str], set[str]] = defaultdict(set)
        self.cancelled: dict[str, float] = {}  # runs, and when a client was told of it
        self.asked: Counter[str] = Counter()  # requests to the model, by the number of the order
        self.paused_until: dict[str, float] = {}  # machines

    def begins(self, tool: str, what: str) -> None:
        """Note that a call begins, and check that it may."""
        world, run_id = self.world, current_run().run
        world.note(f"{tool} {what} begins, for {run_id}")
        if tool != "look":
            intents = self.rows(
                "SELECT 1 FROM events WHERE run_id = ? AND kind = 'called' AND instr(payload, ?)", (run_id, f'"{what}"')
            )
            if not intents:
                world.failed(f"{tool} {what} begins before its intent is written")
        since = self.cancelled.get(what.partition(".")[0])
        machine = world.current
        if since is not None and machine is not None and machine.name not in self.paused_until:
            late = world.now - since
            if late > _LATE:
                world.failed(f"{tool} {what} begins {late:.1f} s after its run was cancelled")

    def add(self, tool: str, what: str, key: str) -> None:
        """Have an effect; one with a key that was seen is not had again."""
        call = (tool, what)
        if key and self.keys[call] == {key}:
            return
        self.world.note(f"effect: {tool} {what}")
        if key:
            self.keys[call].add(key)
        self.effects[call] += 1


LEDGER: list[Ledger] = []
"""That of the schedule that runs."""


async def _effect(tool: str, what: str, key: str = "") -> str:
    ledger = LEDGER[-1]
    world = ledger.world
    ledger.begins(tool, what)
    before, after = world.delay(), world.delay()
    world.later(before, lambda: ledger.add(tool, what, key))  # whatever becomes of the machine
    await world.wait(before + after)
    return f"{tool} {what}"


async def look(what: str) -> str:
    """Look at something."""
    return await _effect("look", what)


async def note(what: str) -> str:
    """Note something."""
    return await _effect("note", what, idempotency_key())


async def pay(what: str) -> str:
    """Pay for something."""
    return await _effect("pay", what)


async def sign(what: str) -> str:
    """Sign something."""
    return await _effect("sign", what)


async def fetch(what: str) -> str:
    """Fetch something from the client, who answers in its place."""
    raise AssertionError(f"the client was to fetch {what}")


class OrderModel:
    """A model that works off orders."""

    name = "orders"

    async def abilities(self, *, native: bool = False) -> Capabilities:
        """Tool calls work."""
        return Capabilities(calls_tools=True)

    async def reply(self, request: Ask) -> Chunks:
        """Say what comes next, word by word."""
        world = LEDGER[-1].world
        await world.wait(world.delay())
        messages = request.prompt.messages
        begin = max(at for at, one in enumerate(messages) if one.role == "user")
        found = _ORDER.search(messages[begin].content)
        assert found is not None, messages
        number, steps = found[1], [step.split("+") for step in found[2].strip().split(", ")]
        LEDGER[-1].asked[number.partition(".")[0]] += 1
        agents = sorted(tool.name for tool in request.tools if tool.name.startswith(("hand", "lead")))
        done = sum(one.role == "assistant" for one in messages[begin:])
        if agents:
            helping = [[tool.name] for tool in request.tools if tool.name in ("task", "look", "task_result")]
            steps = helping or [agents]
        if done >= len(steps) or request.tool_choice == "none" or not request.tools:
            said = request.write(AgentFinish({"output": f"Order {number} is done."}))
            for word in re.findall(r"\s*\S+", said.text):
                yield Delta(word)
                if world.chance(0.3):
                    await world.wait(world.delay())
        elif agents:
            said = request.write(given_on(number, shared_out(found[2].strip(), len(agents)), steps[done]))
        else:
            what = [f"{number}.{done}.{at}" for at, _ in enumerate(steps[done])]
            calls = [AgentAction(tool, {"what": one}) for tool, one in zip(steps[done], what, strict=True)]
            said = request.write(tuple(calls))
        yield replace(said, usage=Usage(10, 5, 0, 1))


def given_on(number: str, shares: Sequence[str], step: Sequence[str]) -> tuple[AgentAction, ...]:
    """Return the calls of one who has others work off shares of an order: its members, or helpers in the background,
    which it gives their tasks in its first step, and whose answers it reads in its third."""
    given = [f"Order {number}.m{at}: {share}" for at, share in enumerate(shares)]
    match step:
        case ["task"]:
            asked = [{"description": text, "agent": f"hand_{at}", "background": True} for at, text in enumerate(given)]
            return tuple(AgentAction("task", one) for one in asked)
        case ["look"]:
            return (AgentAction("look", {"what": f"{number}.meanwhile"}),)
        case ["task_result"]:
            return tuple(AgentAction("task_result", {"helper": f"call_1_{at}"}) for at, _ in enumerate(given))
    return tuple(AgentAction(name, {"query": text}) for name, text in zip(step, given, strict=False))


def shared_out(steps: str, count: int) -> list[str]:
    """Share the steps of an order among so many agents."""
    each = steps.split(", ")
    size = -(-len(each) // max(1, count))
    return [", ".join(each[start : start + size]) for start in range(0, len(each), size)]


def made_agents() -> dict[str, Agent]:
    """Return a worker, one who leads two of them, and a chief of two who lead."""
    model = OrderModel()
    options: dict[str, Any] = {"strategy": "tool_calling", "trace": False}
    tools = [
        Tool("look", look, effects="read"),
        Tool("note", note, effects="idempotent"),
        Tool("pay", pay, effects="once"),
        Tool("sign", sign, effects="once", approval=True),
        Tool("fetch", fetch, approval=True),
    ]
    worker = Agent(model, tools, name="worker", budget=Budget(steps=8), **options)
    hands = [Tool(f"hand_{at}", worker, "Works off an order.") for at in range(2)]
    lead = Agent(model, hands, name="lead", budget=Budget(steps=4, total_steps=14, children=3), **options)
    leads = [Tool(f"lead_{at}", lead, "Sees to an order.") for at in range(2)]
    chief = Agent(model, leads, name="chief", budget=Budget(steps=4, total_steps=40, children=8), **options)
    tight = Agent(model, hands, name="tight", budget=Budget(steps=4, total_steps=5, children=3), **options)
    limits = Budget(steps=6, total_steps=40, children=8)
    giver = Agent(model, [*hands, task, tools[0], task_result], name="giver", budget=limits, **options)
    hasty = Agent(model, [*hands, task], name="hasty", budget=limits, **options)  # it answers while helpers are at work
    agents = (worker, lead, chief, tight, giver, hasty)
    return {one.name: one for one in agents}


def effects_of(number: str, steps: str, levels: Sequence[int] = ()) -> list[tuple[str, str]]:
    """Return the effects that an order has: tools, and what they are for. `levels` are the members at each level."""
    if levels:
        shares = enumerate(shared_out(steps, levels[0]))
        return [one for at, share in shares for one in effects_of(f"{number}.m{at}", share, levels[1:])]
    return [
        (tool, f"{number}.{at}.{beside}")
        for at, step in enumerate(steps.split(", "))
        for beside, tool in enumerate(step.split("+"))
    ]


def called_for(arguments: str) -> str:
    """Return what a call is for, from its arguments as the client sees them."""
    return str(json.loads(arguments)["what"])
