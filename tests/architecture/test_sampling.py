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


@pytest.fixture(autouse=True)
def no_plugins_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run of pytest would import all that are installed anew, which takes seconds."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


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


def test_a_seed_gives_an_order(pytester: pytest.Pytester) -> None:
    """Of all tests, with those that share a fixture's value one after the other."""
    pytester.makepyfile(
        test_a="def test_1(): pass\ndef test_2(): pass\ndef test_3(): pass\ndef test_4(): pass",
        test_b="import pytest\n@pytest.fixture(scope='module', params=[1, 2])\ndef kind(request): pass\n"
        "def test_1(kind): pass\ndef test_2(kind): pass",
    )

    def order(seed: int) -> list[str]:
        said = pytester.runpytest("--collect-only", "-q", "-p", "shuffling", "--shuffle", str(seed)).stdout.lines
        return [line for line in said if "::" in line]

    orders = [order(seed) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2])
    for one in orders:
        files = [line.partition("::")[0] for line in one]
        assert files in (sorted(files), sorted(files, reverse=True))
        kinds = [line[-2] for line in one if "test_b" in line]
        assert kinds in (["1", "1", "2", "2"], ["2", "2", "1", "1"])
