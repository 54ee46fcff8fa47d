"""Sums and differences of two or three values of a kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from retinue.evals.questions import Number

from .dice import Dice
from .encyclopedia import capitalised, joined
from .facts import Fact, Quantity, World
from .measures import described, stated, subjects
from .question import Description, Question


@dataclass(frozen=True, slots=True)
class Sum:
    """Wordings for a relation: of the difference between a larger `{a}` and `{b}`, and of the total of `{all}`."""

    kind: str
    relation: str
    differences: tuple[str, ...]
    totals: tuple[str, ...] = ()


def _more(kind: str, relation: str, things: str) -> Sum:
    differences = (
        f"How many more {things} does {{a}} have than {{b}}?",
        f"{{b}} has fewer {things} than {{a}}. How many fewer?",
    )
    totals = (f"How many {things} do {{all}} have together?", f"What is the total number of {things} of {{all}}?")
    return Sum(kind, relation, differences, totals)


def _long(kind: str, unit: str) -> Sum:
    differences = (
        f"How many {unit} longer is {{a}} than {{b}}?",
        f"What is the difference in length, in {unit}, between {{a}} and {{b}}?",
    )
    return Sum(kind, "length", differences, (f"What is the total length, in {unit}, of {{all}}?",))


def _high(kind: str) -> Sum:
    differences = (
        "How many metres higher is {a} than {b}?",
        "What is the difference in height, in metres, between {a} and {b}?",
    )
    return Sum(kind, "height", differences)


SUMS = (
    _more("country", "population", "inhabitants"),
    Sum("country", "area", ("How many square kilometres larger is {a} than {b}?",)),
    _more("town", "population", "inhabitants"),
    Sum("town", "elevation", ("How many metres higher above sea level does {a} lie than {b}?",)),
    _long("river", "kilometres"),
    _high("mountain"),
    Sum(
        "lake",
        "depth",
        ("How many metres greater is the maximum depth of {a} than that of {b}?",),
    ),
    Sum(
        "lake",
        "area",
        ("How many square kilometres larger is {a} than {b}?",),
        ("What is the total area, in square kilometres, of {all}?",),
    ),
    _more("novel", "pages", "pages"),
    Sum(
        "opera",
        "minutes",
        ("How many minutes longer is {a} than {b}?",),
        ("How many minutes do {all} last together?",),
    ),
    Sum("painting", "width", ("How many centimetres wider is {a} than {b}?",)),
    Sum("painting", "price", ("How many {unit} more than {b} did {a} bring when it was sold?",)),
    _more("university", "students", "students"),
    Sum(
        "company",
        "employees",
        ("How many more people does {a} employ than {b}?",),
        ("How many people do {all} employ together?",),
    ),
    _more("museum", "exhibits", "exhibits"),
    _long("bridge", "metres"),
    Sum(
        "bridge",
        "cost",
        ("How many {unit} more did the construction of {a} cost than that of {b}?",),
        ("How many {unit} did the construction of {all} cost together?",),
    ),
    _high("lighthouse"),
    Sum(
        "lighthouse",
        "steps",
        ("How many more steps lead up to the lamp of {a} than to that of {b}?",),
    ),
    _more("theatre", "seats", "seats"),
    _long("railway", "kilometres"),
    Sum("railway", "minutes", ("How many minutes longer does the whole journey on {a} take than that on {b}?",)),
    _more("railway", "stations", "stations"),
)


def sums(world: World, dice: Dice) -> Iterator[Question]:
    """Yield questions for the sum or the difference of values that two or three passages state."""
    for row in SUMS:
        for count in (2, 2, 3):
            facts = dice.sample(stated(world, row.kind, row.relation), count)
            if len(facts) == count and _fit(facts):
                yield from _asked(dice, row, facts, subjects(facts))
        pair = dice.sample(stated(world, row.kind, row.relation), 2)
        found = described(world, dice, pair) if len(pair) == 2 and _fit(pair) else None
        if found:
            yield from _asked(dice, row, pair, found)


def _fit(facts: Sequence[Fact]) -> bool:
    """Return whether the values are different ones of one unit."""
    values = [fact.value for fact in facts]
    return len({value.unit for value in values if isinstance(value, Quantity)}) == 1 and len(set(values)) == len(values)


def _asked(dice: Dice, row: Sum, facts: list[Fact], about: list[Description]) -> Iterator[Question]:
    if row.totals and (len(facts) > 2 or dice.chance(0.5)):
        text, right, shape = dice.pick(row.totals), sum(map(number, facts)), "total"
    elif len(facts) == 2:
        text, right, shape = dice.pick(row.differences), abs(number(facts[0]) - number(facts[1])), "difference"
    else:
        return
    leading = tuple(fact for one in about for fact in one.facts)
    texts = [one.text for one in about]
    larger, smaller = texts[:2] if number(facts[0]) > number(facts[1]) else texts[1::-1]
    value = facts[0].value
    unit = value.unit if isinstance(value, Quantity) else ""
    filled = capitalised(text.format(a=larger, b=smaller, all=joined(texts), unit=unit))
    via = leading[0].relation if leading else ""
    shape = f"{row.kind}:{row.relation}:{shape}{len(facts)}{via}"
    yield Question("sum_difference", filled, (Number(right),), (*leading, *facts), shape)


def number(fact: Fact) -> int:
    """Return the number of a fact whose value is a quantity."""
    assert isinstance(fact.value, Quantity)
    return fact.value.number
