"""What runs at each commit has a part of everything; what that leaves out is the rest."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from sampling import every, sampled

pytest_plugins = ["pytester"]
FILE = """
import pytest
from hypothesis import given, strategies as st

@pytest.fixture(params=["sync", "async"])
def client(request):
    return request.param

def test_one(client): pass
def test_two(client): pass
@pytest.mark.full
def test_slow(): pass
@pytest.mark.matrix
@pytest.mark.parametrize("a", [1, 2, 3])
@pytest.mark.parametrize(("b", "c"), [(1, 1), (1, 2)])
def test_matrix(a, b, c): pass
def test_more(full): pass
@given(st.none())
def test_property(nothing): pass
"""
QUICK = [
    "test_one[sync]", "test_two[async]", "test_matrix[1-1-1]", "test_matrix[1-2-2]", "test_matrix[1-1-3]",
    "test_more", "test_property",
]  # fmt: skip


def collected(pytester: pytest.Pytester, *options: str) -> set[str]:
    said = pytester.runpytest("--collect-only", "-q", "-p", "sampling", *options).stdout.lines
    return {line.partition("::")[2] for line in said if "::" in line}


def test_there_is_a_sample_the_rest_and_all(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nmarkers =\n  full\n  matrix")
    pytester.makepyfile(test_it=FILE)
    quick, rest, all_of_it = (collected(pytester, *options) for options in ((), ("--rest",), ("--full",)))
    assert len(all_of_it) == 13
    assert quick == set(QUICK)
    assert rest == all_of_it - quick | {"test_more", "test_property"}
    assert collected(pytester, "test_it.py::test_slow") == {"test_slow"}


@given(st.lists(st.frozensets(st.integers(0, 9), min_size=1), min_size=1))
def test_a_sample_has_each_value(rows: list[frozenset[int]]) -> None:
    found = sampled([(row, row) for row in rows])
    assert frozenset().union(*found) == frozenset().union(*rows)
    assert len(found) <= len(frozenset().union(*rows))


@given(st.lists(st.integers()), st.integers(1, 9))
def test_each_value_has_its_turn(values: list[int], step: int) -> None:
    assert sorted(one for at in range(step) for one in every(values, step, at)) == sorted(values)
