"""The figures of an evaluation: each configuration's shares and means with their intervals, and paired tests."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import mean

from ..core.run_result import RunResult
from .marks import Marks
from .questions import Question
from .statistics import compute_bootstrap_interval, compute_mcnemar_p, compute_permutation_p, compute_wilson_interval

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
        {mark: _compute_share(values) for mark, values in shares.items()},
        {mark: Mean(*_compute_mean(values)) for mark, values in amounts.items()},
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


def _compute_share(values: Sequence[bool]) -> Share:
    count, of = sum(values), len(values)
    return Share(count, of, count / of, *compute_wilson_interval(count, of))
