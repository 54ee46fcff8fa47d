"""Runs long work in a thread, piece by piece and round-robin over tenants."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..._internal.concurrency import run_in_thread

T = TypeVar("T")
Piece = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class FairBatches:
    """Queues pieces of work by tenant, so that a tenant with much work does not block the others."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Piece]] = {}  # ordered by turn
        self._task: asyncio.Task[None] | None = None

    def of(self, tenant: str) -> int:
        """Return how many pieces of a tenant are queued."""
        return len(self._waiting.get(tenant, ()))

    async def done(self, tenant: str, pieces: Sequence[Callable[[], T]]) -> list[T]:
        """Run the pieces and return their results in order. The first exception is raised, and the other pieces are
        dropped."""
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[T]] = [loop.create_future() for _ in pieces]
        self._waiting.setdefault(tenant, deque()).extend(zip(pieces, futures, strict=True))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work(), name="fair batches")
        try:
            return [await future for future in futures]
        finally:  # the rest is not needed after an exception or a disconnect
            for future in futures:
                future.cancel()

    async def _work(self) -> None:
        while self._waiting:
            tenant = next(iter(self._waiting))
            pieces = self._waiting.pop(tenant)
            while pieces and pieces[0][1].done():
                pieces.popleft()
            if not pieces:
                continue
            work, future = pieces.popleft()
            if pieces:
                self._waiting[tenant] = pieces  # to the end of the queue
            try:
                value = await run_in_thread(work)
            except Exception as error:
                if not future.done():
                    future.set_exception(error)
                    await asyncio.sleep(0)  # the waiting caller drops its other pieces
            else:
                if not future.done():
                    future.set_result(value)
