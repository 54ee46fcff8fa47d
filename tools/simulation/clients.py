"""The clients: each sees an order through, whatever happens to the servers, answers for people, reads streams, cancels,
and repeats itself."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from fastapi import Request

from retinue.errors import StoreConflict, StoreUnavailable
from retinue.runs import Followed
from retinue.server.assistants import runs as routes
from retinue.server.assistants.runs import start_run
from retinue.server.assistants.schemas import RunCreate
from retinue.server.context import Context
from retinue.server.http.api_errors import ApiError
from retinue.server.http.common_schemas import SubmitToolOutputs
from retinue.server.http.idempotency import Repeat
from retinue.server.http.objects import call_id
from retinue.server.run_session import RunSession
from retinue.store.event_log import Entry
from retinue.store.run_queries import find_run
from retinue.store.run_row import RunRow

from .orders import Ledger
from .server import Gone, Handler, SimulatedServer
from .world import Machine, World

_PATIENCE = 3.0  # seconds that a client waits for an answer
_TRIES = 200


@dataclass
class Order:
    """What a client wants, and what it did and saw."""

    number: str
    agent: str
    steps: str
    thread: str
    levels: Sequence[int] = ()  # members at each level
    strategy: str = "enqueue"  # if the thread is busy
    cancels_after: float | None = None
    abandons: bool = False  # never answers for people
    reads: int = 0  # streams
    run_id: str = ""
    cancelled: bool = False  # and that was answered
    interrupted: bool = False  # perhaps, by another order on the thread
    expires: bool = False  # perhaps, since its time is short
    rejected: bool = False
    done: bool = False
    row: RunRow | None = None
    approved: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    streams: list[list[Followed]] = field(default_factory=list)


@dataclass
class FirstStream:
    """A stream that a run's client asked for with the run; it breaks off with its server."""

    order: Order
    server: SimulatedServer
    found: list[Followed] = field(default_factory=list)
    over: bool = False

    def tell(self, item: Followed | None) -> None:
        """Take what is told."""
        if item is None:
            self.over = True
        else:
            self.found.append(item)

    @property
    def is_due(self) -> bool:
        """Whether more will come."""
        return not self.over and self.server.answers and not self.order.abandons


class Clients:
    """The clients of a schedule, on a machine of their own."""

    def __init__(self, world: World, ledger: Ledger, servers: list[SimulatedServer], loses: float) -> None:
        self.world = world
        self.ledger = ledger
        self.servers = servers
        self.machine = Machine(world, "clients")
        self.orders: list[Order] = []
        self.first_streams: list[FirstStream] = []
        self._loses = loses  # the part of messages that is lost

    def begin(self, order: Order) -> None:
        """Have a client see an order through."""
        self.orders.append(order)
        self.machine.begin(self._see_through(order))

    async def _see_through(self, order: Order) -> None:
        world = self.world
        await world.wait(world.dice.random() * 0.5)
        order.run_id = await self._insist(partial(self._create, order), key=f"key {order.number}")
        world.note(f"order {order.number} ({order.agent}: {order.steps}) is {order.run_id}")
        beside = [self.machine.begin(self._read(order)) for _ in range(order.reads)]
        if order.cancels_after is not None:
            beside.append(self.machine.begin(self._cancel(order)))
        await self._answer_for_people(order)
        for one in beside:
            await one
        order.done = True

    async def _answer_for_people(self, order: Order) -> None:
        """Look at a run until it has ended, and decide what people are asked."""
        world = self.world
        said: dict[str, list[tuple[str, str]]] = {}
        while True:
            row: RunRow = await self._insist(partial(_found, order.run_id))
            order.row = row
            if not row.active or (order.abandons and row.status == "requires_action"):
                return
            waiting = "" if row.status != "requires_action" else str(len(row.submissions))
            if waiting:
                outputs = said.setdefault(waiting, self._decided(order, row))
                await world.wait(world.delay())
                await self._submit(order, outputs)
                if world.chance(0.3):
                    world.fault("answer of a person sent again")
                    await self._submit(order, outputs)
                if world.chance(0.1):
                    self.machine.begin(self._late(order, outputs))
            await world.wait(world.dice.choice((0.02, 0.1 + world.dice.random() * 1.5)))

    def _decided(self, order: Order, row: RunRow) -> list[tuple[str, str]]:
        """What a truthful person says of each call: one that happened is answered for, else it is approved."""
        outputs = []
        for call in row.waiting:
            what, tool = str(call["arguments"]["what"]), call["tool"]
            named = call_id(row.id, call["id"], call["asked"])
            there = self.ledger.effects[tool, what] > 0
            word = "approve"
            if tool == "fetch" or there:
                word = f"{tool} {what}"
                if tool == "fetch":
                    self.ledger.effects[tool, what] += 1
            elif self.world.chance(0.05):
                word, order.rejected = "reject", True
            else:
                order.approved.setdefault((tool, what), set()).add(named)
            outputs.append((named, word))
        self.world.note(f"a person says {outputs}")
        return outputs

    async def _submit(self, order: Order, outputs: Sequence[tuple[str, str]]) -> None:
        body = SubmitToolOutputs.model_validate(
            {"tool_outputs": [{"tool_call_id": call, "output": word} for call, word in outputs]}
        )
        try:
            await self._insist(partial(_submitted, order.thread, order.run_id, body))
        except ApiError as error:
            self.world.note(f"the answer to {order.run_id} is refused: {error}")

    async def _late(self, order: Order, outputs: Sequence[tuple[str, str]]) -> None:
        await self.world.wait(self.world.dice.random() * 6)
        self.world.fault("late answer of a person")
        await self._submit(order, outputs)

    async def _cancel(self, order: Order) -> None:
        world = self.world
        await world.wait(order.cancels_after or 0.0)
        try:
            await self._insist(partial(_cancelled, order.thread, order.run_id))
        except ApiError as error:
            order.cancelled = order.cancelled or "'cancel" in str(error)  # by an attempt whose answer was lost
            return
        order.cancelled = True
        world.note(f"{order.run_id} is cancelled")
        self.ledger.cancelled[order.number] = world.now

    async def _create(self, order: Order, context: Context) -> Any:
        body = RunCreate(
            assistant_id=f"asst_{order.agent}",
            instructions=f"Order {order.number}: {order.steps}",
            multitask_strategy=order.strategy,  # type: ignore[arg-type]
        )
        start = partial(start_run, server=context.server, thread_id=order.thread, asked=body)
        run, halted = await context.write(start)
        RunSession(context.server, run).begin(halted=halted)  # as the route does
        if order.reads and self.world.chance(0.5):  # a client that has asked for a stream
            server = next(one for one in self.servers if one.server is context.server)
            server.machine.loop.call_soon(partial(self._stream, order, server, run))
        return run.id

    def _stream(self, order: Order, server: SimulatedServer, run: RunRow) -> None:
        stream = FirstStream(order, server)
        self.first_streams.append(stream)
        server.follow(run.id, 0, stream.tell, run)

    async def _insist(self, handler: Handler, key: str = "") -> Any:
        """Ask one server or the other, until one answers. Raises `ApiError`."""
        for _ in range(_TRIES):
            try:
                return await self._ask(handler, key)
            except (Gone, StoreUnavailable, StoreConflict):
                await self.world.wait(0.1 + self.world.dice.random())
            except ApiError as error:
                if not key or "already has an active run" not in str(error):
                    raise
                await self.world.wait(0.5 + self.world.dice.random())
        raise AssertionError("no server answers")

    async def _ask(self, handler: Handler, key: str) -> Any:
        world = self.world
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        world.later(_PATIENCE, lambda: None if answer.done() else answer.set_exception(Gone()))
        able = [one for one in self.servers if one.machine.alive]
        lost = world.dice.random()
        if not able:
            world.later(0.1, lambda: None if answer.done() else answer.set_exception(Gone()))
        elif lost < self._loses:
            world.fault("request lost")
        else:
            server = able[int(world.dice.random() * len(able))]
            loses = lost < 2 * self._loses
            if loses:
                world.fault("answer to a client lost")
            world.later(world.delay(), partial(server.ask, partial(_keyed, handler, key), answer, loses=loses))
        return await answer

    # ── streams ──────────────────────────────────────────────────────────────────────────────────

    async def _read(self, order: Order) -> None:
        """Read a run's stream to its end, at one server or the other, each time from where it broke off."""
        found: list[Followed] = []
        order.streams.append(found)
        await self.world.wait(self.world.dice.random())
        while order.row is None or order.row.active or not _ends(found):
            if order.abandons and order.row is not None and order.row.status == "requires_action":
                return
            await self._read_at(order, found)
            await self.world.wait(0.05 + self.world.dice.random())

    async def _read_at(self, order: Order, found: list[Followed]) -> None:
        able = [one for one in self.servers if one.answers]
        if not able:
            return
        server = able[int(self.world.dice.random() * len(able))]
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        after = max((one.seq for one in found if isinstance(one, Entry)), default=0)

        def told(item: Followed | None) -> None:
            if over.done():
                return
            if item is None:
                over.set_result(None)
            else:
                found.append(item)

        task = server.follow(order.run_id, after, told)
        leaves = 1.0 + self.world.dice.random() * 20
        leave = partial(told, None)
        self.world.later(leaves, leave)
        server.at_end(leave)
        await over
        if server.machine.alive:
            task.cancel()


def _ends(found: Sequence[Followed]) -> bool:
    """Whether a stream told the row of a run that has ended."""
    return bool(found) and isinstance(found[-1], RunRow) and not found[-1].active


async def _keyed(handler: Handler, key: str, context: Context) -> Any:
    if key:
        repeat = Repeat(key, "/runs", b"", {})
        repeat.add(key.encode())
        context = replace(context, repeat=repeat)
    return await handler(context)


async def _found(run_id: str, context: Context) -> RunRow:
    row = await context.server.database.read(partial(find_run, run_id=run_id))
    assert row is not None, run_id
    return row


async def _submitted(thread: str, run_id: str, body: SubmitToolOutputs, context: Context) -> Any:
    return await routes.submit_tool_outputs(thread, run_id, body, context, Request({"type": "http"}))


async def _cancelled(thread: str, run_id: str, context: Context) -> Any:
    return await routes.cancel(thread, run_id, context)
