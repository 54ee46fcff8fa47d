"""A case of a conformance suite: a clause of a contract, and the check for it."""

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
        if _is_in_a_loop():
            raise UsageError("an event loop is already running; use `await case.run_async(subject)`")
        asyncio.run(self.run_async(subject, timeout=timeout))

    async def run_async(self, subject: S, *, timeout: float = 60.0) -> None:  # noqa: ASYNC109 -- says what it waited for
        """Check that `subject` satisfies this clause.

        Args:
            subject: The object under test, and the inputs for it.
            timeout: In seconds; a slower check fails.

        Raises `AssertionError`, which names the clause and the violation, and `unittest.SkipTest` (which pytest reports
        as a skipped test) if the subject lacks the ability or the inputs that the check needs.
        """
        __tracebackhide__ = True
        try:
            async with asyncio.timeout(timeout) as limit:
                await await_contained(self.check(subject))
        except unittest.SkipTest:
            raise
        except AssertionError as error:
            raise self._make_error(str(error) or "an assertion failed") from error
        except Exception as error:
            late = isinstance(error, TimeoutError) and limit.expired()
            problem = (
                f"this took longer than {timeout:g} seconds" if late else f"unexpectedly raised {describe_error(error)}"
            )
            raise self._make_error(problem) from error

    def _make_error(self, problem: str) -> AssertionError:
        return AssertionError(f"{self.contract}: {self.name}: {problem}")


def _is_in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def make_case(contract: str, check: Check[S]) -> Case[S]:
    """Return the case with the name of `check`, and its docstring as the clause."""
    clause = " ".join((inspect.getdoc(check) or "").split())
    return Case(contract, check.__name__.replace("_", " "), clause, check)


def collect_cases(contract: str, module: Mapping[str, Any]) -> tuple[Case[Any], ...]:
    """Return the cases of a suite: one of each public coroutine function of `module` (its `globals()`), in order."""
    checks = [one for name, one in module.items() if inspect.iscoroutinefunction(one) and not name.startswith("_")]
    return tuple(make_case(contract, check) for check in checks if check.__module__ == module["__name__"])


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
        raise AssertionError(f"{problem}: {' / '.join(_cut(text, begin) for text in texts)}")


def _cut(text: str, begin: int) -> str:
    return f"{'… ' * (begin > 0)}{text[begin : begin + 120]}{' …' * (begin + 120 < len(text))}"


def skip(reason: str) -> NoReturn:
    """End a check that does not apply. Raises `unittest.SkipTest`."""
    raise unittest.SkipTest(reason)


def format_value(value: object, most: int = 200) -> str:
    """Return the `repr` of `value` for an error message, truncated to `most` characters."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 2]} …"
