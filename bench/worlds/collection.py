"""The passages and questions of a split: several worlds together, as one collection."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from retinue.evals.questions import Number

from .calendar_sums import calendar_sums
from .chains import chains, unanswerable
from .comparisons import comparisons, counts
from .conversions import conversions
from .creation import create
from .dice import Dice
from .encyclopedia import Passage, passages
from .facts import World
from .question import Question
from .splits import SEEDS, Split
from .sums import sums

KINDS = (
    "lookup",
    "bridge2",
    "bridge3",
    "comparison",
    "sum_difference",
    "count",
    "unit_percent",
    "date_arithmetic",
    "unanswerable",
)
OF_EACH_KIND = 4  # questions of each world


def worlds(split: Split) -> list[World]:
    """Return the worlds of a split."""
    return [create(seed) for seed in SEEDS[split]]


def collected(given: Iterable[World]) -> list[Passage]:
    """Return the passages of all the worlds."""
    return [passage for world in given for passage in passages(world)]


def questions(given: Iterable[World], collection: Iterable[Passage]) -> Iterator[tuple[World, Question]]:
    """Yield the questions of each world: as many of each kind, and as unlike each other as they come."""
    text = "\n".join(passage.text for passage in collection)
    used: Counter[str] = Counter()
    for world in given:
        for kind, candidates in _candidates(world, text).items():
            for question in _chosen(candidates, used, kind, Dice(f"choice {world.seed} {kind}")):
                yield world, question


def write(split: Split, out: Path) -> None:
    """Write `passages.jsonl` and `questions.jsonl` of a split into the folder `out`."""
    given = worlds(split)
    found = collected(given)
    out.mkdir(parents=True, exist_ok=True)
    _write_lines(out / "passages.jsonl", ({"title": one.title, "text": one.text} for one in found))
    numbers: Counter[str] = Counter()
    lines: list[dict[str, Any]] = []
    for world, question in questions(given, found):
        numbers[question.kind] += 1
        identifier = f"{split}-{question.kind}-{numbers[question.kind]:02}"
        lines.append(question.line(identifier, (answer_type(question), f"world{world.seed}")))
    lines.sort(key=lambda line: KINDS.index(line["tags"][0]))
    _write_lines(out / "questions.jsonl", lines)


def answer_type(question: Question) -> str:
    """Return the tag that says what the answer is: a number, a date, a name, or nothing."""
    match question.answers:
        case ():
            return "nothing"
        case (Number(), *_):
            return "number"
        case (str(first), *_) if first[0].isdigit():
            return "date"
        case _:
            return "name"


def _candidates(world: World, text: str) -> Mapping[str, list[Question]]:
    dice = Dice(f"questions {world.seed}")
    found = (
        chains(world, dice, 1),
        chains(world, dice, 2),
        chains(world, dice, 3),
        comparisons(world, dice),
        sums(world, dice),
        counts(world, dice),
        conversions(world, dice),
        calendar_sums(world, dice),
        unanswerable(world, dice, text),
    )
    return dict(zip(KINDS, map(list, found), strict=True))


def _chosen(candidates: list[Question], used: Counter[str], kind: str, dice: Dice) -> Iterator[Question]:
    """Yield questions of the shapes that have been used least, no two about the same thing first."""
    mixed = dice.shuffled(candidates)
    subjects: set[str] = set()
    for _ in range(OF_EACH_KIND):
        best = min(mixed, key=lambda one: (used[f"{kind}:{one.shape}"], one.facts[0].subject.title in subjects))
        mixed.remove(best)
        used[f"{kind}:{best.shape}"] += 1
        subjects.add(best.facts[0].subject.title)
        yield best


def _write_lines(path: Path, lines: Iterable[Mapping[str, object]]) -> None:
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8", newline="\n")
