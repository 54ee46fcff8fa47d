"""Tests of two configurations on the same questions: could the difference be chance?

Right and wrong: McNemar's test in its exact form, the binomial test of the questions on which they differ (McNemar
1947, Psychometrika 12:153). Amounts such as F1 and seconds: Fisher's permutation test for pairs (Fisher 1935, The
Design of Experiments, section 21), in which each difference may as well have the other sign. It assumes no
distribution.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from operator import getitem

_ALL = 16  # differences of which all signs are tried
_TRIES = 20_000  # of the others, drawn at random
_SEED = 20
_EXACT = 1e-9  # sums of the same differences in another order


def mcnemar(only_first: int, only_second: int) -> float:
    """Return the two-sided p of so many questions that only the first, and only the second, has right."""
    differ = only_first + only_second
    fewer = sum(math.comb(differ, count) for count in range(min(only_first, only_second) + 1))
    return min(1.0, float(2 * fewer / 2**differ))


def permutation(differences: Sequence[float]) -> float:
    """Return the two-sided p of paired differences: how often their sum is as far from 0 with signs at random.

    All signs are tried for up to 16 differences other than 0; more get 20,000 seeded draws, of which the data are one.
    """
    sizes = [abs(one) for one in differences if one]
    seen = abs(math.fsum(differences)) - _EXACT * (1 + sum(sizes))
    if len(sizes) <= _ALL:
        sums = _signed(sizes)
        return sum(abs(one) >= seen for one in sums) / len(sums)
    draw = random.Random(_SEED)
    eights = [_signed([*sizes[at : at + 8], *[0.0] * 7][:8]) for at in range(0, len(sizes), 8)]  # a byte has the signs
    drawn = (sum(map(getitem, eights, draw.randbytes(len(eights)))) for _ in range(_TRIES))
    return (sum(abs(one) >= seen for one in drawn) + 1) / (_TRIES + 1)


def _signed(sizes: Sequence[float]) -> list[float]:
    """Return the sums of the sizes with all combinations of signs."""
    sums = [0.0]
    for size in sizes:
        sums = [so_far + signed for so_far in sums for signed in (size, -size)]
    return sums
