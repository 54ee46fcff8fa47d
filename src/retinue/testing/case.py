"""A case of a conformance suite, which is a clause of a contract and the check for it, and what checks are made of."""

from __future__ import annotations

import asyncio
import inspect
import unittest
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeVar

from .._internal.containment import await_contained, describe_error
from ..errors import UsageError

S = TypeVar("S")
Check = Callable[[S], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Case(Generic[S]):
    """One clause of the contract of a model, a tool, a component, a strategy or a document store.

    `str(case)` is a readable id for `pytest.mark.parametrize`; `clause` is the full requirement.
    """

    contract: str
    name: str
    clause: str
    check: Check[S]

    def __str__(self) -> str:
        return self.name.replace(" ", "_")

    def run(self, subject: S, *, timeout: float = 60.0) -> None:
        """Run `run_async` in a new event loop, for synchronous test functions.

        Raises `UsageError` if a loop is already running.
        """
        __tracebackhide__ = True  # makes pytest show where the subject failed
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.run_async(subject, timeout=timeout))
        raise UsageError("an event loop is already running; use `await case.run_async(subject)`")

    async def run_async(self, subject: S, *, timeout: float = 60.0) -> None:  # noqa: ASYNC109 -- says what it waited for
        """Check that `subject` satisfies this clause, within `timeout` seconds.

        Raises `AssertionError`, which names the clause and the violation, and `unittest.SkipTest` (which pytest reports
        as a skipped test) if the subject lacks the ability or the inputs that the check needs.
        """
        __tracebackhide__ = True
        try:
            async with asyncio.timeout(timeout) as limit:
                await await_contained(self.check(subject))
        except unittest.SkipTest:
            raise
        except Exception as error:
            if isinstance(error, AssertionError):
                problem = str(error) or "an assertion failed"
            elif isinstance(error, TimeoutError) and limit.expired():
                problem = f"this took longer than {timeout:g} seconds"
            else:
                problem = f"unexpectedly raised {describe_error(error)}"
            raise AssertionError(f"{self.contract}: {self.name}: {problem}") from error


def make_case(contract: str, check: Check[S]) -> Case[S]:
    """Return the case with the name of `check`, and its docstring as the clause."""
    clause = " ".join((inspect.getdoc(check) or "").split())
    return Case(contract, check.__name__.replace("_", " "), clause, check)


def collect_cases(contract: str, module: Mapping[str, Any]) -> tuple[Case[Any], ...]:
    """Return the cases of a suite: one of each public coroutine function of `module` (its `globals()`), in order."""
    checks = [one for name, one in module.items() if inspect.iscoroutinefunction(one) and not name.startswith("_")]
    return tuple(make_case(contract, check) for check in checks if check.__module__ == module["__name__"])


# ── what checks are made of ──────────────────────────────────────────────────────────────────────


def skip(reason: str) -> NoReturn:
    """End a check that does not apply. Raises `unittest.SkipTest`."""
    raise unittest.SkipTest(reason)


def need(subject: object, name: str) -> Any:
    """Return what the subject has under this name; skip the check if that is nothing."""
    value = getattr(subject, name)
    if not value:
        skip(f"{type(subject).__name__}.{name} is {'false' if value is False else 'not given'}")
    return value


def require(held: object, problem: str) -> None:
    """Raise `AssertionError` with `problem` unless it `held`; unlike `assert`, also under `python -O`."""
    if not held:
        raise AssertionError(problem)


def require_same(one: object, other: object, problem: str) -> None:
    """Raise `AssertionError` unless the two are equal; the message shows where they differ."""
    if one != other:
        texts = repr(one), repr(other)
        same = next((at for at, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), min(map(len, texts)))
        begin = max(0, same - 40)
        parts = [f"{'… ' * (begin > 0)}{text[begin:][:120]}{' …' * (begin + 120 < len(text))}" for text in texts]
        raise AssertionError(f"{problem}: {' / '.join(parts)}")


def format_value(value: object, most: int = 200) -> str:
    """Return the `repr` of `value` for an error message, truncated to `most` characters."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 2]} …"


async def call_in_several_loops(call: Callable[[], Any]) -> None:
    """Await what `call` returns in two event loops of their own, and then in this one."""
    for _ in range(2):
        await asyncio.to_thread(lambda: asyncio.run(call()))
    await call()


async def require_cancelled(task: asyncio.Task[Any]) -> None:
    """Cancel a task. Raises `AssertionError` unless that ends it."""
    task.cancel()
    await asyncio.wait({task})
    require(task.cancelled(), f"it was cancelled and ended otherwise: {format_value(task)}")


def require_no_new_tasks(before: set[asyncio.Task[Any]], problem: str) -> None:
    """Raise `AssertionError` if there are other tasks now than `before`."""
    left = asyncio.all_tasks() - before
    require(not left, f"{problem}: {', '.join(format_value(task.get_coro()) for task in left)}")
