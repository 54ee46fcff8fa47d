"""A case of a conformance suite: what it says of a subject that breaks its clause."""

from __future__ import annotations

import asyncio
import unittest
from collections.abc import Callable

import pytest

from retinue import UsageError
from retinue.testing.case import Case, make_case, require_same, skip

Subject = Callable[[], None]


async def numbers_are_kept(subject: Subject) -> None:
    """A number is
    kept as it is."""
    subject()


def raising(error: BaseException) -> Subject:
    def subject() -> None:
        raise error

    return subject


@pytest.fixture
def case() -> Case[Subject]:
    return make_case("store", numbers_are_kept)


def test_a_case_is_named_after_its_check(case: Case[Subject]) -> None:
    assert (str(case), case.name, case.clause) == (
        "numbers_are_kept",
        "numbers are kept",
        "A number is kept as it is.",
    )


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (AssertionError("3 became 4"), "3 became 4"),
        (AssertionError(), "an assertion failed"),
        (KeyError("three"), "unexpectedly raised KeyError: 'three'"),
        (TimeoutError("slow"), "unexpectedly raised TimeoutError: slow"),
        (SystemExit(3), "unexpectedly raised SystemExit"),
    ],
)
def test_whatever_a_subject_raises_the_clause_is_named(case: Case[Subject], error: BaseException, said: str) -> None:
    with pytest.raises(AssertionError) as raised:
        case.run(raising(error))
    assert str(raised.value).startswith(f"store: numbers are kept: {said}")


def test_what_does_not_end_is_given_up() -> None:
    async def it_ends(subject: None) -> None:
        await asyncio.Event().wait()

    case = make_case("model", it_ends)
    with pytest.raises(AssertionError, match=r"model: it ends: this took longer than 0.01 seconds"):
        case.run(None, timeout=0.01)


def test_what_does_not_apply_is_skipped() -> None:
    async def it_flies(subject: None) -> None:
        skip("it has no wings")

    case = make_case("model", it_flies)
    with pytest.raises(unittest.SkipTest, match="it has no wings"):
        case.run(None)


def test_where_a_loop_runs_the_case_is_awaited(case: Case[Subject]) -> None:
    async def checked() -> None:
        await case.run_async(lambda: None)
        with pytest.raises(UsageError, match=r"use `await case.run_async\(subject\)`"):
            case.run(lambda: None)

    asyncio.run(checked())


def test_of_two_long_values_the_part_that_differs_is_shown() -> None:
    with pytest.raises(AssertionError) as raised:
        require_same([*range(500), "a", *range(500)], [*range(500), "b", *range(500)], "before and after")
    said = str(raised.value)
    assert said.startswith("before and after: … ")
    assert "'a'" in said.partition(" / ")[0]
    assert "'b'" in said.partition(" / ")[2]
    assert len(said) < 400
