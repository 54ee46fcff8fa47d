"""A simulated server: the product's runs, what is due, maintenance and routes on a machine that may die."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

from retinue import Agent, Budget
from retinue._internal.concurrency import supervise
from retinue.core.values import Message
from retinue.errors import StoreUnavailable, UsageError
from retinue.runs import DueRuns, Followed, RunInput, Runs
from retinue.runs.agent_versions import agent_at
from retinue.server.agents.deployment import Deployment
from retinue.server.background import admit_run
from retinue.server.context import Context, Options, Server
from retinue.server.http.limits import Admission
from retinue.server.maintenance import run_maintenance
from retinue.store.run_row import RunRow
from retinue.store.tenant_view import TenantView

from .database import SimulatedDatabase
from .store import Store
from .world import Machine, World

Handler = Callable[[Context], Awaitable[Any]]


class Gone(Exception):
    """The server did not answer."""


class SimulatedServer:
    """A process of `retinue serve`, without HTTP. `process` is its id among those that share the database, and `after`
    the seconds that it takes to start."""

    def __init__(
        self, world: World, store: Store, deployment: Deployment, process: str, options: Options, after: float
    ) -> None:
        self.process = process
        self.machine = machine = Machine(world, process)
        self.world = world
        self.joined = False
        self.stopped = False
        self.cut: set[str] = set()  # runs, of which a stream broke off
        self._deployment = deployment
        self._open: dict[asyncio.Future[Any], None] = {}  # requests of clients, as these see them
        self._at_end: list[Callable[[], None]] = []
        database = SimulatedDatabase(store, machine, process)
        self.runs: Runs = machine.act(lambda: Runs(database, self._assign, self._ended, options.human_ttl))
        indexing: Any = SimpleNamespace(wake=lambda: None)
        self.server = Server(deployment, database, self.runs, options, indexing, id=SimpleNamespace())  # type: ignore[arg-type]
        self._due = DueRuns(self.runs, partial(admit_run, options=options))
        self._keeping: asyncio.Task[None] | None = None
        machine.begin(self._serve(after))

    @property
    def answers(self) -> bool:
        """Whether it takes requests."""
        return self.joined and not self.stopped and self.machine.alive

    async def _serve(self, after: float) -> None:
        await asyncio.sleep(after)
        while True:
            with suppress(StoreUnavailable):
                await self._due.join()
                break
            await asyncio.sleep(0.5)
        maintenance = supervise("maintenance of runs", partial(run_maintenance, self.server))
        self._keeping = asyncio.create_task(maintenance, name="keep")
        self.joined = True
        self.world.note("serves")

    async def stop(self, grace: float) -> None:
        """Stop as after SIGTERM."""
        self.stopped = True
        if self._keeping is not None:
            self._keeping.cancel()
        await self.runs.close(grace)
        await self._due.leave()
        self.kill()

    def kill(self) -> None:
        """End; who waits for an answer learns it."""
        self.machine.kill()
        for one in list(self._open):
            self.world.later(self.world.delay(), partial(_refuse, one))
        self._open.clear()
        for call in self._at_end:
            self.world.later(self.world.delay(), call)

    def at_end(self, call: Callable[[], None]) -> None:
        """Have something happen soon after this server's end."""
        self._at_end.append(call)

    def ask(self, handler: Handler, answer: asyncio.Future[Any], *, loses: bool = False) -> None:
        """Take a request. `loses` the answer to it, if so."""
        if not self.answers:
            self.world.later(self.world.delay(), partial(_refuse, answer))
            return
        self._open[answer] = None
        self.machine.begin(self._handle(handler, answer, loses))

    async def _handle(self, handler: Handler, answer: asyncio.Future[Any], loses: bool) -> None:
        context = Context(self.server, TenantView("t"), Admission(self.server.limits, self.server.runs.room, ""))
        result: Any = None
        error: Exception | None = None
        try:
            result = await handler(context)
        except Exception as raised:
            error = raised
        self._open.pop(answer, None)
        if loses:
            self.world.later(1.0, partial(_refuse, answer))
        else:
            self.world.later(self.world.delay(), partial(_settle, answer, result, error))

    def follow(
        self, run_id: str, after: int, told: Callable[[Followed | None], None], run: RunRow | None = None
    ) -> asyncio.Task[Any]:
        """Stream a run to a client, who is told `None` at the end. `run` is its row, if it was just created here."""

        async def stream() -> None:
            last = self.world.now
            items: AsyncGenerator[Followed, None] = self.runs.followers.follow(run_id, after, run=run)
            try:
                async with aclosing(items):
                    async for item in items:
                        last = max(last, self.world.now + self.world.delay())
                        self.world.at(last, partial(told, item))
            except StoreUnavailable:
                self.cut.add(run_id)
            self.world.at(max(last, self.world.now), partial(told, None))

        return self.machine.begin(stream())

    async def _assign(self, run: RunRow) -> RunInput:
        agent = agent_at(self._deployment.agents, run.agent)
        if agent is None:
            raise UsageError(f"The model '{run.agent}' does not exist.")
        if run.kind == "member":
            history = [Message(one["role"], one["content"]) for one in run.request["history"]]
            return RunInput(_within(agent, run.request["budget"]), run.request["question"], history)
        return RunInput(agent, run.request["instructions"])

    def _ended(self, run: RunRow) -> None:
        if run.thread_id is not None:
            self.runs.wake(looks=True)


def _within(agent: Agent, budget: Mapping[str, Any]) -> Agent:
    member = copy.copy(agent)
    member.budget = Budget(**budget)
    return member


def _refuse(answer: asyncio.Future[Any]) -> None:
    _settle(answer, None, Gone())


def _settle(answer: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)
