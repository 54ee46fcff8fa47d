"""Long work in short pieces, in a thread: one piece at a time, and the next tenant's next."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from .._internal.thread_pool import run_in_thread

T = TypeVar("T")
Piece = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class FairBatches:
    """Pieces of work that wait, by tenant: whoever has much of it does not keep others waiting for all of it."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Piece]] = {}  # the tenant whose turn is next first
        self._task: asyncio.Task[None] | None = None

    def of(self, tenant: str) -> int:
        """How many pieces of a tenant wait."""
        return len(self._waiting.get(tenant, ()))

    async def done(self, tenant: str, pieces: Sequence[Callable[[], T]]) -> list[T]:
        """What the pieces return, in their order. What one raises is raised, and the rest is left."""
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[T]] = [loop.create_future() for _ in pieces]
        self._waiting.setdefault(tenant, deque()).extend(zip(pieces, futures, strict=True))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work(), name="fair batches")
        try:
            return [await future for future in futures]
        finally:  # nobody waits for them if one was raised, or the client has gone
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
                self._waiting[tenant] = pieces  # behind all others
            try:
                value = await run_in_thread(work)
            except Exception as error:
                if not future.done():
                    future.set_exception(error)
                    await asyncio.sleep(0)  # who waits for it leaves the rest of his pieces
            else:
                if not future.done():
                    future.set_result(value)
