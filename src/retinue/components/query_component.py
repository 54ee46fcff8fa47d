"""The sync and batch methods of components that answer a query."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

from .._internal.concurrency import gather_bounded
from .._internal.sync_bridge import run_blocking

R = TypeVar("R")


class QueryComponent(ABC, Generic[R]):
    """Derives the blocking and batch methods from `run_async(query)`."""

    effects = "read"

    @abstractmethod
    async def run_async(self, query: str) -> R:
        """The outputs for one query."""

    def run(self, query: str) -> R:
        """Run `run_async` and block."""
        return run_blocking(self.run_async(query))

    async def run_batch_async(self, queries: Iterable[str], *, at_once: int = 4) -> list[R]:
        """Call `run_async` for each query, at most `at_once` at a time. Results are in the order of the queries."""
        return await gather_bounded(self.run_async, queries, at_once)

    def run_batch(self, queries: Iterable[str], *, at_once: int = 4) -> list[R]:
        """Run `run_batch_async` and block."""
        return run_blocking(self.run_batch_async(queries, at_once=at_once))
