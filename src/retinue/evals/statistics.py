"""The statistics of an evaluation: confidence intervals, and tests of two configurations on the same questions.

A share gets Wilson's score interval (Wilson 1927, JASA 22:209), which holds its level also near 0 and 1 and for few
questions, where the usual one does not (Newcombe 1998, Statistics in Medicine 17:857). A mean gets the percentile
bootstrap (Efron and Tibshirani 1993, chapter 13): seconds and tokens are skewed, so an interval of Student's t would be
symmetric where the data are not, and could reach below zero. For fewer than some 15 questions it is too narrow by a
tenth or more.

Right and wrong are compared by McNemar's test in its exact form, the binomial test of the questions on which two
configurations differ (McNemar 1947, Psychometrika 12:153). Amounts such as F1 and seconds are compared by Fisher's
permutation test for pairs (Fisher 1935, The Design of Experiments, section 21), in which each difference may as well
have the other sign. It assumes no distribution.

Whatever is drawn at random is seeded, so the same answers always give the same figures.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from operator import getitem
from statistics import NormalDist

LEVEL = 0.95
RESAMPLES = 2_000
_SEED = 20
_ALL = 16  # differences of which all signs are tried
_TRIES = 20_000  # of the others, drawn at random
_EXACT = 1e-9  # sums of the same differences in another order


def compute_wilson_interval(count: int, of: int, level: float = LEVEL) -> tuple[float, float]:
    """Return the interval of a share of `count` out of `of`, without continuity correction; of none, 0 to 1."""
    if not of:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + level) / 2)
    share, spread = count / of, z * z / of
    middle = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * math.sqrt(share * (1 - share) / of + spread / (4 * of))
    return (0.0 if count == 0 else middle - half), (1.0 if count == of else middle + half)


def compute_bootstrap_interval(
    values: Sequence[float], level: float = LEVEL, resamples: int = RESAMPLES
) -> tuple[float, float]:
    """Return the interval of the mean of `values`. Raises `ValueError` if there are none."""
    if not values:
        raise ValueError("the mean of no values has no interval")
    if len(set(values)) == 1:
        return values[0], values[0]
    draw, size = random.Random(_SEED), len(values)
    means = sorted(math.fsum(draw.choices(values, k=size)) / size for _ in range(resamples))
    cut = round((1 - level) / 2 * resamples)
    return means[cut], means[-1 - cut]


def compute_mcnemar_p(only_first: int, only_second: int) -> float:
    """Return the two-sided p of so many questions that only the first, and only the second, has right."""
    differ = only_first + only_second
    fewer = sum(math.comb(differ, count) for count in range(min(only_first, only_second) + 1))
    return min(1.0, float(2 * fewer / 2**differ))


def compute_permutation_p(differences: Sequence[float]) -> float:
    """Return the two-sided p of paired differences: how often their sum is as far from 0 with signs at random.

    All signs are tried for up to 16 differences other than 0; more get 20,000 seeded draws, of which the data are one.
    """
    sizes = [abs(one) for one in differences if one]
    seen = abs(math.fsum(differences)) - _EXACT * (1 + sum(sizes))
    if len(sizes) <= _ALL:
        sums = _list_signed_sums(sizes)
        return sum(abs(one) >= seen for one in sums) / len(sums)
    draw = random.Random(_SEED)
    eights = [
        _list_signed_sums([*sizes[at : at + 8], *[0.0] * 7][:8]) for at in range(0, len(sizes), 8)
    ]  # a byte has the signs
    drawn = (sum(map(getitem, eights, draw.randbytes(len(eights)))) for _ in range(_TRIES))
    return (sum(abs(one) >= seen for one in drawn) + 1) / (_TRIES + 1)


def _list_signed_sums(sizes: Sequence[float]) -> list[float]:
    """Return the sums of the sizes with all combinations of signs."""
    sums = [0.0]
    for size in sizes:
        sums = [so_far + signed for so_far in sums for signed in (size, -size)]
    return sums
