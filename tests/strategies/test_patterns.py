"""No pattern over a model's or a tool's text can take more than linear time for want of a possessive quantifier."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import retinue.strategies

kinds: Any = importlib.import_module("re._constants")
parser: Any = importlib.import_module("re._parser")
BOUNDED = 100  # repetitions; fewer cost no more than a constant


def patterns() -> Iterator[tuple[str, re.Pattern[str]]]:
    for module in pkgutil.walk_packages(retinue.strategies.__path__, "retinue.strategies."):
        loaded = importlib.import_module(module.name)
        for name, value in vars(loaded).items():
            for one in value.values() if isinstance(value, dict) else (value,):
                if isinstance(one, re.Pattern):
                    yield f"{module.name}.{name}", one


PATTERNS = dict(patterns())


def repeated(node: Any, *, within: bool = False) -> Iterator[str]:
    """The quantifiers that give back what they took, inside of others that do, both without a bound."""
    for kind, given in node:
        if kind in (kinds.MAX_REPEAT, kinds.MIN_REPEAT):
            low, high, inner = given
            unbounded = high > BOUNDED
            if unbounded and within:
                yield f"{kind} {low}..{high} of {inner}"
            yield from repeated(inner, within=within or unbounded)
        elif kind in (kinds.POSSESSIVE_REPEAT, kinds.ATOMIC_GROUP):
            yield from repeated(given[2] if kind is kinds.POSSESSIVE_REPEAT else given, within=within)
        elif kind is kinds.SUBPATTERN:
            yield from repeated(given[3], within=within)
        elif kind is kinds.BRANCH:
            for branch in given[1]:
                yield from repeated(branch, within=within)
        elif kind in (kinds.ASSERT, kinds.ASSERT_NOT):
            yield from repeated(given[1], within=within)


def found_in_patterns(search: Callable[[Any], Iterable[str]]) -> dict[str, list[str]]:
    """What `search` finds, by the names of the patterns."""
    found = {
        name: list(search(parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)))
        for name, pattern in PATTERNS.items()
    }
    return {name: those for name, those in found.items() if those}


def test_no_quantifier_that_backtracks_is_inside_another() -> None:
    assert found_in_patterns(repeated) == {}


def test_the_check_finds_one() -> None:
    assert list(repeated(parser.parse(r"^(?:a+)+$")))
    assert list(repeated(parser.parse(r"(?:\s*x?)*")))
    assert not list(repeated(parser.parse(r"^(?:a++)++$")))
    assert len(PATTERNS) > 30


def repeats_side_by_side(node: Any) -> Iterator[str]:
    """Quantifiers without a bound that backtrack, directly followed by another that takes the same characters."""
    before: Any = None
    for kind, given in node:
        unbounded = kind is kinds.MAX_REPEAT and given[1] > BOUNDED
        if unbounded and before is not None and str(before) == str(given[2]):
            yield str(given)
        before = given[2] if unbounded else None


def test_no_two_that_backtrack_share_out_one_run() -> None:
    assert found_in_patterns(repeats_side_by_side) == {}
