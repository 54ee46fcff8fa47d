"""Intervals and paired tests, against published values."""

from __future__ import annotations

import math
from itertools import product
from statistics import mean

import pytest
from hypothesis import given, strategies as st

from retinue.evals.comparison import (
    compute_bootstrap_interval,
    compute_mcnemar_p,
    compute_permutation_p,
    compute_wilson_interval,
)


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilsons_interval_is_that_of_newcombe_1998_table_1(count: int, of: int, low: float, high: float) -> None:
    assert compute_wilson_interval(count, of) == pytest.approx((low, high), abs=5e-5)
    assert compute_wilson_interval(of - count, of) == pytest.approx((1 - high, 1 - low), abs=5e-5)


def test_nothing_asked_says_nothing() -> None:
    assert compute_wilson_interval(0, 0) == (0.0, 1.0)
    with pytest.raises(ValueError, match="no values"):
        compute_bootstrap_interval([])


@given(st.integers(0, 50), st.integers(1, 50))
def test_an_interval_contains_its_share(count: int, of: int) -> None:
    count = min(count, of)
    low, high = compute_wilson_interval(count, of)
    assert 0 <= low <= count / of <= high <= 1
    wide_low, wide_high = compute_wilson_interval(count, of, 0.99)
    assert wide_low <= low
    assert high <= wide_high


MICE = (94.0, 197.0, 16.0, 38.0, 99.0, 141.0, 23.0)  # survival in days, Efron and Tibshirani 1993, table 2.1
MICE_ERROR = 23.36  # the bootstrap's standard error of their mean for very many resamples, table 2.2


def test_the_bootstrap_of_efron_and_tibshiranis_mice() -> None:
    low, high = compute_bootstrap_interval(MICE, level=0.6827, resamples=20_000)  # one standard error to each side
    assert (high - low) / 2 == pytest.approx(MICE_ERROR, rel=0.03)
    assert low < mean(MICE) < high


def test_the_bootstrap_gives_the_same_figures_again_and_stays_within_the_data() -> None:
    assert compute_bootstrap_interval(MICE) == compute_bootstrap_interval(MICE)
    low, high = compute_bootstrap_interval(MICE)
    assert min(MICE) <= low < high <= max(MICE)
    assert compute_bootstrap_interval([3.0, 3.0]) == (3.0, 3.0)


def test_the_bootstraps_interval_is_near_students_for_many_values_that_are_normal_enough() -> None:
    values = [float(at % 10) for at in range(200)]  # mean 4.5, standard deviation 2.88
    low, high = compute_bootstrap_interval(values)
    assert (low, high) == pytest.approx(
        (4.5 - 1.96 * 2.88 / math.sqrt(200), 4.5 + 1.96 * 2.88 / math.sqrt(200)), abs=0.05
    )


@pytest.mark.parametrize(
    ("only_first", "only_second", "p"),
    [
        (2, 9, 0.06543),  # the example of R's exact2x2
        (9, 2, 0.06543),
        (0, 5, 0.0625),
        (0, 6, 0.03125),
        (5, 5, 1.0),
        (0, 0, 1.0),
    ],
)
def test_mcnemars_exact_test(only_first: int, only_second: int, p: float) -> None:
    assert compute_mcnemar_p(only_first, only_second) == pytest.approx(p, abs=5e-6)


MAIZE = (49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48)  # Darwin's; Fisher 1935, section 21


def test_fishers_permutation_test_of_darwins_maize() -> None:
    assert compute_permutation_p(MAIZE) == pytest.approx(1726 / 32_768)  # 863 of 32,768 in one direction
    assert compute_permutation_p([-one / 8 for one in MAIZE]) == pytest.approx(1726 / 32_768)


@given(st.lists(st.integers(-5, 5), max_size=6))
def test_few_differences_are_tried_with_all_signs(values: list[int]) -> None:
    seen = abs(sum(values))
    sums = [abs(sum(signs)) for signs in product(*((one, -one) for one in values))]
    assert compute_permutation_p(values) == pytest.approx(sum(one >= seen for one in sums) / len(sums))


def test_many_differences_are_drawn_and_give_the_same_p_again() -> None:
    none, clear = [1.0, -1.0] * 30, [1.0] * 50 + [-1.0] * 10
    assert compute_permutation_p(none) == 1.0
    assert compute_permutation_p(clear) == compute_permutation_p(clear) < 0.001
    fair = [1.0] * 24 + [-1.0] * 16  # as a binomial test with 24 of 40: p = 0.268
    assert compute_permutation_p(fair) == pytest.approx(0.268, abs=0.01)
