"""Notifications between the simulated servers: each arrives late, some twice, and some not at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

from sqlalchemy import Connection

from retinue.runs import follow

from .store import Store
from .world import Machine, World

Heard = Callable[[str], None]


class Notifications:
    """What PostgreSQL would pass on. `loses` is the part of the notifications that is lost."""

    def __init__(self, world: World, store: Store, loses: float) -> None:
        self._world = world
        self._store = store
        self._loses = loses
        self._listeners: dict[asyncio.Future[None], tuple[Machine, Heard]] = {}

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Let the servers that run in the block use this."""
        names: dict[str, Any] = {"listening": self._listening, "notify": self._notify}
        real = {name: getattr(follow, name) for name in names}
        for name, value in names.items():
            setattr(follow, name, value)
        try:
            yield
        finally:
            for name, value in real.items():
                setattr(follow, name, value)

    def disconnect(self) -> None:
        """Lose the connections of all listeners."""
        for lost, (machine, _) in list(self._listeners.items()):
            if machine.alive and not lost.done():
                lost.set_result(None)

    @asynccontextmanager
    async def _listening(self, _engine: object, heard: Heard) -> AsyncIterator[asyncio.Future[None]]:
        machine = self._world.current
        assert machine is not None
        lost = machine.loop.create_future()
        self._listeners[lost] = (machine, heard)
        try:
            yield lost
        finally:
            self._listeners.pop(lost, None)

    def _notify(self, connection: Connection, said: Sequence[str]) -> None:
        self._store.statement()
        world = self._world
        for lost, (machine, heard) in list(self._listeners.items()):
            for one in said:
                copies = 1 if not self._loses or world.chance(1 - self._loses) else world.dice.choice((0, 2))
                if copies != 1:
                    world.fault("notification lost" if not copies else "notification doubled")
                for _ in range(copies):
                    world.later(world.delay(), partial(self._deliver, lost, machine, partial(heard, one)))

    def _deliver(self, lost: asyncio.Future[None], machine: Machine, hear: Callable[[], None]) -> None:
        if lost.done() or not machine.alive:
            return
        if machine.paused:
            machine.after_pause.append(partial(self._deliver, lost, machine, hear))
        else:
            machine.loop.call_soon(hear)
