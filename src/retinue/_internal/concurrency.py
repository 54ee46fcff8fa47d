"""Bounded concurrency, and unpacking of exception groups."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from ..errors import UsageError

T = TypeVar("T")
R = TypeVar("R")


async def gather_bounded(work: Callable[[T], Awaitable[R]], items: Iterable[T], at_once: int) -> list[R]:
    """Apply `work` to each item, at most `at_once` at a time; results are in the order of the items.

    The first error cancels the others and is raised with a note that names the item.
    """
    if at_once < 1:
        raise UsageError(f"at_once must be at least 1, not {at_once}")
    items = list(items)
    waiting = enumerate(items)
    results: dict[int, R] = {}

    async def worker() -> None:
        for number, item in waiting:
            try:
                results[number] = await work(item)
            except Exception as error:
                error.add_note(f"(number {number + 1} of the batch)")
                raise

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(at_once, len(items))):
                group.create_task(worker())
    except ExceptionGroup as group_of_errors:
        error = first_error(group_of_errors)
        raise error from error.__cause__
    return [results[number] for number in sorted(results)]


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error in a nested exception group."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
