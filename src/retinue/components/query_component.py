"""What a component that answers a query has beside its `run_async`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

from .._internal.concurrency import gather_bounded
from .._internal.sync_bridge import run_blocking

R = TypeVar("R")


class QueryComponent(ABC, Generic[R]):
    """Has, from `run_async(query)`, the blocking form and the batches."""

    effects = "read"

    @abstractmethod
    async def run_async(self, query: str) -> R:
        """The outputs for one query."""

    def run(self, query: str) -> R:
        """`run_async`, blocking."""
        return run_blocking(self.run_async(query))

    async def run_batch_async(self, queries: Iterable[str], *, at_once: int = 4) -> list[R]:
        """`run_async` for each query, at most `at_once` at a time; results in their order."""
        return await gather_bounded(self.run_async, queries, at_once)

    def run_batch(self, queries: Iterable[str], *, at_once: int = 4) -> list[R]:
        """`run_batch_async`, blocking."""
        return run_blocking(self.run_batch_async(queries, at_once=at_once))
