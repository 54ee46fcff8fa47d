"""The figures of an evaluation: each configuration's shares and means with their intervals, and paired tests.

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
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from operator import getitem
from statistics import NormalDist, mean

from ..core.run_result import RunResult
from .marks import Marks
from .questions import Question

LEVEL = 0.95
RESAMPLES = 2_000
_SEED = 20
_ALL = 16  # differences of which all signs are tried
_TRIES = 20_000  # of the others, drawn at random
_EXACT = 1e-9  # sums of the same differences in another order
TESTED = ("f1", "tool_accuracy", "seconds", "input_tokens", "output_tokens", "cost")  # amounts with a paired test


@dataclass(frozen=True, slots=True)
class Run:
    """One question put to a configuration, how it ended, and its marks."""

    question: Question
    result: RunResult
    marks: Marks


@dataclass(frozen=True, slots=True)
class Share:
    """`count` of `of` questions, as a share with its 95 % interval."""

    count: int
    of: int
    share: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean over `of` questions with its 95 % interval."""

    mean: float
    of: int
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of a configuration over some questions, by the names of the marks."""

    name: str
    questions: int
    shares: Mapping[str, Share]
    means: Mapping[str, Mean]
    stop_reasons: Mapping[str, int]
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Difference:
    """The mean of the second less that of the first over the `of` questions of both, its 95 % interval, and p."""

    mean: float
    of: int
    low: float
    high: float
    p: float


@dataclass(frozen=True, slots=True)
class Pair:
    """Two configurations on the questions that both answered: on how many both, one or neither is right, and p.

    `right` is the difference of their shares, second less first, with its interval.
    """

    first: str
    second: str
    both: int
    only_first: int
    only_second: int
    neither: int
    right: Difference
    amounts: Mapping[str, Difference]


@dataclass(frozen=True, slots=True)
class Figures:
    """All figures of an evaluation. `tags` has a summary of each configuration over the questions of each tag."""

    dataset: str
    questions: int
    configurations: tuple[Summary, ...]
    tags: Mapping[str, tuple[Summary, ...]]
    pairs: tuple[Pair, ...]


def compute_figures(
    dataset: str, questions: Sequence[Question], runs: Mapping[str, Sequence[Run]], failed: Mapping[str, int]
) -> Figures:
    """Return the figures of the configurations' `runs`; `failed` is how many questions have no run."""
    summaries = tuple(_summarize(name, its, failed.get(name, 0)) for name, its in runs.items())
    tags = {}
    for tag in dict.fromkeys(tag for question in questions for tag in question.tags):
        tagged = {name: [one for one in its if tag in one.question.tags] for name, its in runs.items()}
        tags[tag] = tuple(_summarize(name, its) for name, its in tagged.items())
    marks = {name: {run.question.id: run.marks for run in its} for name, its in runs.items()}
    pairs = [(one, other) for one, other in combinations(marks, 2) if marks[one].keys() & marks[other].keys()]
    return Figures(dataset, len(questions), summaries, tags, tuple(_compare(*pair, marks) for pair in pairs))


def _summarize(name: str, runs: Sequence[Run], failed: int = 0) -> Summary:
    """Return the figures of one configuration; a mark that no run has is missing."""
    shares: dict[str, list[bool]] = defaultdict(list)
    amounts: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        for mark, share in run.marks.shares.items():
            shares[mark].append(share)
        for mark, amount in run.marks.amounts.items():
            amounts[mark].append(amount)
    return Summary(
        name,
        len(runs),
        {
            mark: Share(sum(its), len(its), sum(its) / len(its), *compute_wilson_interval(sum(its), len(its)))
            for mark, its in shares.items()
        },
        {mark: Mean(*_compute_mean(its)) for mark, its in amounts.items()},
        dict(Counter(str(run.result.stop_reason) for run in runs).most_common()),
        failed,
    )


def _compare(first: str, second: str, marks: Mapping[str, Mapping[str, Marks]]) -> Pair:
    """Return the paired tests of two configurations on the questions that both answered."""
    both = [(one, marks[second][question]) for question, one in marks[first].items() if question in marks[second]]
    counts = Counter((one.right, other.right) for one, other in both)
    only_first, only_second = counts[True, False], counts[False, True]
    p = compute_mcnemar_p(only_first, only_second)
    right = Difference(*_compute_mean([other.right - one.right for one, other in both]), p)
    amounts = {}
    for name in TESTED:
        pairs = [(one.amounts, other.amounts) for one, other in both]
        if found := [other[name] - one[name] for one, other in pairs if name in one and name in other]:
            amounts[name] = Difference(*_compute_mean(found), compute_permutation_p(found))
    return Pair(first, second, counts[True, True], only_first, only_second, counts[False, False], right, amounts)


def _compute_mean(values: Sequence[float]) -> tuple[float, int, float, float]:
    low, high = compute_bootstrap_interval(values)
    return float(mean(values)), len(values), float(low), float(high)


# ── intervals and tests ──────────────────────────────────────────────────────────────────────────


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
