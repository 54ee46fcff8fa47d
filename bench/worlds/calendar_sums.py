"""Ages, years and days between dates, and dates so many days away."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

from retinue.evals.questions import Number

from .dice import Dice
from .facts import Entity, Fact, World
from .measures import stated
from .question import Question, accepted

# An event whose date another's life is measured by: kind, its date, its person, the wording.
EVENTS = (
    ("mountain", "climbed_on", "climber", "the first person to climb {x}", "on the day of the first ascent"),
    ("bridge", "opened", "architect", "the architect of {x}", "on the day when it was opened"),
    ("theatre", "opened", "architect", "the architect of {x}", "on the day when it was opened"),
    ("lighthouse", "opened", "architect", "the architect of {x}", "on the day when it was first lit"),
    ("opera", "premiered", "author", "the composer of {x}", "on the day of its first performance"),
)
YEARS = (
    ("company", "founded", "How many years after {a} was {b} founded?"),
    ("town", "founded", "How many years after the foundation of {a} was {b} founded?"),
    ("novel", "published", "How many years after the publication of {a} was {b} published?"),
    ("country", "independent", "How many years after {a} did {b} become independent?"),
    ("museum", "founded", "How many years lie between the foundation of {a} and that of {b}?"),
    ("university", "founded", "By how many years is {a} older than {b}?"),
    ("painting", "painted", "How many years after {a} was {b} painted?"),
)
DAYS = (
    ("bridge", "opened", "the opening of {x}"),
    ("theatre", "opened", "the opening of {x}"),
    ("mountain", "climbed_on", "the first ascent of {x}"),
    ("opera", "premiered", "the first performance of {x}"),
    ("person", "born_on", "the birth of {x}"),
    ("person", "died_on", "the death of {x}"),
    ("railway", "opened", "the day when {x} was opened to passengers"),
)


def calendar_sums(world: World, dice: Dice) -> Iterator[Question]:
    """Yield questions whose answers are calculated from dates."""
    yield from _ages(world, dice)
    yield from _ages_at_events(world, dice)
    for kind, relation, text in YEARS:
        pair = sorted(dice.sample(stated(world, kind, relation), 2), key=_year)
        if len(pair) == 2 and _year(pair[0]) < _year(pair[1]):
            asked = text.format(a=pair[0].subject.name, b=pair[1].subject.name)
            yield _question(asked, _year(pair[1]) - _year(pair[0]), tuple(pair), f"years:{kind}")
    for kind, relation, text in DAYS:
        for fact in dice.sample(stated(world, kind, relation), 1):
            days, after = dice.pick((10, 20, 30, 40, 50, 60, 90, 100)), dice.chance(0.6)
            when = _day(fact) + timedelta(days=days if after else -days)
            asked = f"What date was {days} days {'after' if after else 'before'} {text.format(x=fact.subject.name)}?"
            yield Question("date_arithmetic", asked, accepted(when), (fact,), f"date:{kind}:{relation}")
    for fact in dice.sample(stated(world, "railway", "opened"), 1):
        goods = world.about[fact.subject]["opened_goods"]
        text = f"How many days after its opening to goods trains was {fact.subject.name} opened to passengers?"
        yield _question(text, (_day(fact) - _day(goods)).days, (goods, fact), "days")


def completed_years(start: date, end: date) -> int:
    """Return the years that have been completed between two dates, as ages are counted.

    >>> completed_years(date(1850, 6, 1), date(1900, 5, 31))
    49
    """
    return end.year - start.year - ((end.month, end.day) < (start.month, start.day))


def _ages(world: World, dice: Dice) -> Iterator[Question]:
    births = stated(world, "person", "born_on")
    whole = [(birth, world.about[birth.subject]["died_on"]) for birth in births]
    for birth, death in dice.sample([pair for pair in whole if pair[1].stated], 2):
        name = birth.subject.name
        text = dice.pick((f"How old, in completed years, was {name} at death?", f"At what age did {name} die?"))
        yield _question(text, completed_years(_day(birth), _day(death)), (birth, death), "age:death")
    for one, other in zip(dice.shuffled(births), births, strict=True):
        older, younger = sorted((one, other), key=_day)
        years = completed_years(_day(older), _day(younger))
        death = world.about[older.subject]["died_on"]
        if years > 3 and _day(death) > _day(younger):
            text = f"How old, in completed years, was {older.subject.name} when {younger.subject.name} was born?"
            yield _question(text, years, (older, younger), "age:birth")
    for birth in dice.sample(births, 1):
        age = dice.pick((18, 21, 25, 30, 40, 45))
        text = f"In which year did {birth.subject.name} turn {age}?"
        yield _question(text, _year(birth) + age, (birth,), "birthday")


def _ages_at_events(world: World, dice: Dice) -> Iterator[Question]:
    for kind, relation, who, text, when in EVENTS:
        for event in dice.sample(stated(world, kind, relation), 3):
            fact = world.about[event.subject][who]
            birth = world.about[fact.value].get("born_on") if isinstance(fact.value, Entity) else None
            if birth and birth.stated and fact.stated:
                asked = f"How old, in completed years, was {text.format(x=event.subject.name)} {when}?"
                years = completed_years(_day(birth), _day(event))
                yield _question(asked, years, (fact, event, birth), f"age:{kind}")


def _day(fact: Fact) -> date:
    assert isinstance(fact.value, date)
    return fact.value


def _year(fact: Fact) -> int:
    assert isinstance(fact.value, date | int)
    return fact.value.year if isinstance(fact.value, date) else fact.value


def _question(text: str, right: int, facts: tuple[Fact, ...], shape: str) -> Question:
    return Question("date_arithmetic", text, (Number(right),), facts, shape)
