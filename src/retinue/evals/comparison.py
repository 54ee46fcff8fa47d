"""The figures of an evaluation: each configuration's shares and means with their intervals, and paired tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    tags = {
        tag: tuple(
            summarize_configuration(name, [one for one in its if tag in one.question.tags])
            for name, its in runs.items()
        )
        for tag in dict.fromkeys(tag for question in questions for tag in question.tags)
    }
    return Figures(
        dataset,
        len(questions),
        tuple(summarize_configuration(name, its, failed.get(name, 0)) for name, its in runs.items()),
        tags,
        tuple(
            compare_pair(one, other, runs)
            for one, other in combinations(runs, 2)
            if _collect_ids(runs[one]) & _collect_ids(runs[other])
        ),
    )


def summarize_configuration(name: str, runs: Sequence[Run], failed: int = 0) -> Summary:
    """Return the figures of one configuration; a mark that no run has is missing."""
    shares = {
        mark: _compute_share([run.marks.shares[mark] for run in runs if mark in run.marks.shares])
        for mark in _collect_names(run.marks.shares for run in runs)
    }
    means = {
        mark: Mean(*_compute_mean([run.marks.amounts[mark] for run in runs if mark in run.marks.amounts]))
        for mark in _collect_names(run.marks.amounts for run in runs)
    }
    stops = Counter(str(run.result.stop_reason) for run in runs)
    return Summary(name, len(runs), shares, means, dict(stops.most_common()), failed)


def compare_pair(first: str, second: str, runs: Mapping[str, Sequence[Run]]) -> Pair:
    """Return the paired test of two configurations, of which each answered some of the other's questions."""
    others = {run.question.id: run.marks for run in runs[second]}
    both = [(run.marks, others[run.question.id]) for run in runs[first] if run.question.id in others]
    counts = Counter((one.right, other.right) for one, other in both)
    only_first, only_second = counts[True, False], counts[False, True]
    right = _make_difference(
        [other.right - one.right for one, other in both], compute_mcnemar_p(only_first, only_second)
    )
    amounts = dict(_list_differences(both))
    return Pair(first, second, counts[True, True], only_first, only_second, counts[False, False], right, amounts)


def _list_differences(both: Sequence[tuple[Marks, Marks]]) -> Iterator[tuple[str, Difference]]:
    for name in TESTED:
        found = [
            other.amounts[name] - one.amounts[name]
            for one, other in both
            if name in one.amounts and name in other.amounts
        ]
        if found:
            yield name, _make_difference(found, compute_permutation_p(found))


def _make_difference(values: Sequence[float], p: float) -> Difference:
    return Difference(*_compute_mean(values), p)


def _compute_mean(values: Sequence[float]) -> tuple[float, int, float, float]:
    low, high = compute_bootstrap_interval(values)
    return float(mean(values)), len(values), float(low), float(high)


def _compute_share(values: Sequence[bool]) -> Share:
    return Share(
        sum(values), len(values), sum(values) / len(values), *compute_wilson_interval(sum(values), len(values))
    )


def _collect_ids(runs: Iterable[Run]) -> set[str]:
    return {run.question.id for run in runs}


def _collect_names(marks: Iterable[Mapping[str, object]]) -> list[str]:
    return list(dict.fromkeys(name for one in marks for name in one))
