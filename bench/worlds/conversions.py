"""Other units, rates and percentages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from retinue.evals.questions import Number

from .dice import Dice
from .facts import Entity, Fact, Quantity, World
from .measures import are_clear, stated
from .question import Question
from .sums import number

_ROUNDED = {"to the nearest whole number": 0.51, "to one decimal place": 0.051, "to two decimal places": 0.0051}
WHOLE, ONE, TWO = _ROUNDED


@dataclass(frozen=True, slots=True)
class Conversion:
    """A question for a value times `factor` (or, if `divided`, by it), rounded as `rounded` says."""

    kind: str
    relation: str
    text: str
    factor: float
    rounded: str
    divided: bool = False


_SQUARE_MILES = "If a square mile is 2.59 square kilometres, what is the area of {x} in square miles?"
_DEARER = "If a single ticket for the whole of {x} became {n} percent dearer, how many {unit} would it cost?"
_HOURS = "How many hours does the whole journey on {x} take, as a decimal number?"
_SPEED = "What is the average speed, in kilometres per hour, of the whole journey on {x}?"
CONVERSIONS = (
    Conversion("mountain", "height", "How high is {x} in feet, if a metre is 3.281 feet?", 3.281, WHOLE),
    Conversion("lighthouse", "height", "How high is {x} in feet, if a metre is 3.281 feet?", 3.281, ONE),
    Conversion("bridge", "length", "If a metre is 3.281 feet, how many feet long is {x}?", 3.281, WHOLE),
    Conversion("bridge", "length", "What is the length of {x} in kilometres?", 1000, "", True),
    Conversion("river", "length", "How many miles long is {x}, if a mile is 1.609 kilometres?", 1.609, ONE, True),
    Conversion("railway", "length", "If a mile is 1.609 kilometres, how long is {x} in miles?", 1.609, ONE, True),
    Conversion("railway", "length", "What is the length of {x} in metres?", 1000, ""),
    Conversion("lake", "area", "A square kilometre is 100 hectares. What is the area of {x} in hectares?", 100, ""),
    Conversion("lake", "depth", "How many fathoms deep is {x} at most, if a fathom is 1.829 metres?", 1.829, ONE, True),
    Conversion("painting", "width", "How many inches wide is {x}, if an inch is 2.54 centimetres?", 2.54, ONE, True),
    Conversion("painting", "width", "What is the width of {x} in metres?", 100, "", True),
    Conversion("opera", "minutes", "How many hours does {x} last, as a decimal number?", 60, TWO, True),
    Conversion("railway", "minutes", _HOURS, 60, TWO, True),
    Conversion("country", "area", _SQUARE_MILES, 2.59, WHOLE, True),
)
SHARES = (
    ("university", "students", "What is {n} percent of the number of students of {x}?"),
    ("company", "employees", "If {n} percent of the employees of {x} went on strike, how many people would that be?"),
    ("town", "population", "How many people are {n} percent of the population of {x}?"),
    ("museum", "exhibits", "How many exhibits are {n} percent of those of {x}?"),
    ("theatre", "seats", "If {n} percent of the seats of {x} are sold, how many seats is that?"),
    ("novel", "pages", "How many pages are {n} percent of the pages of {x}?"),
)
RATES = (  # of one thing's first quantity to its second
    ("bridge", "cost", "length", "How many {unit} did {x} cost on average for each metre of its length?", 1),
    ("railway", "length", "minutes", _SPEED, 60),
    ("country", "population", "area", "How many inhabitants does {x} have per square kilometre?", 1),
)
EXCESSES = (
    ("mountain", "height", "By how many percent is {a} higher than {b}?"),
    ("bridge", "length", "By how many percent is {a} longer than {b}?"),
    ("river", "length", "By how many percent is {a} longer than {b}?"),
    ("town", "population", "By how many percent does the population of {a} exceed that of {b}?"),
    ("theatre", "seats", "By how many percent does the number of seats of {a} exceed that of {b}?"),
)


def conversions(world: World, dice: Dice) -> Iterator[Question]:
    """Yield questions for a stated value in another unit, a rate, or a percentage."""
    for row in CONVERSIONS:
        for fact in dice.sample(stated(world, row.kind, row.relation), 1):
            right = number(fact) / row.factor if row.divided else number(fact) * row.factor
            yield _question(row.text.format(x=fact.subject.name), right, row.rounded, (fact,), "unit")
    yield from _shares(world, dice)
    yield from _rates(world, dice)
    for kind, relation, text in EXCESSES:
        facts = sorted(dice.sample(stated(world, kind, relation), 2), key=number)
        if len(facts) == 2 and are_clear(facts):
            asked = text.format(a=facts[1].subject.name, b=facts[0].subject.name)
            yield _question(asked, (number(facts[1]) / number(facts[0]) - 1) * 100, ONE, tuple(facts), "excess")
    yield from _in_capitals(world)


def _shares(world: World, dice: Dice) -> Iterator[Question]:
    for kind, relation, text in SHARES:
        percent = dice.pick((5, 10, 15, 20, 25, 30, 40, 60, 75))
        facts = [one for one in stated(world, kind, relation) if number(one) * percent % 100 == 0]
        for fact in dice.sample(facts, 1):
            asked = text.format(n=percent, x=fact.subject.name)
            yield _question(asked, number(fact) * percent / 100, "", (fact,), "share")
    for fact in dice.sample(stated(world, "railway", "fare"), 1):
        percent = dice.pick((10, 15, 20, 25, 50))
        unit = fact.value.unit if isinstance(fact.value, Quantity) else ""
        asked = _DEARER.format(x=fact.subject.name, n=percent, unit=unit)
        yield _question(asked, number(fact) * (100 + percent) / 100, ONE, (fact,), "dearer")


def _rates(world: World, dice: Dice) -> Iterator[Question]:
    for kind, above, below, text, factor in RATES:
        both = [(world.about[fact.subject][below], fact) for fact in stated(world, kind, above)]
        for under, over in dice.sample([pair for pair in both if pair[0].stated], 1):
            unit = over.value.unit if isinstance(over.value, Quantity) else ""
            asked = text.format(x=over.subject.name, unit=unit)
            yield _question(asked, factor * number(over) / number(under), ONE, (over, under), "rate")


def _in_capitals(world: World) -> Iterator[Question]:
    for whole in stated(world, "country", "population"):
        country = whole.subject
        capital = world.about[country]["capital"]
        assert isinstance(capital.value, Entity)
        inhabitants = world.about[capital.value]["population"]
        text = f"What percentage of the inhabitants of {country.name} live in its capital?"
        share = number(inhabitants) / number(whole) * 100
        yield _question(text, share, ONE, (capital, whole, inhabitants), "capital")


def _question(text: str, right: float, rounded: str, facts: tuple[Fact, ...], shape: str) -> Question:
    if rounded:
        text += f" Round {rounded}."
    gold = Number(int(right) if right == int(right) else round(right, 4), _ROUNDED.get(rounded, 0.0))
    shape = f"{shape}:{facts[0].subject.kind}:{facts[0].relation}:{rounded}"
    return Question("unit_percent", text, (gold,), facts, shape)
