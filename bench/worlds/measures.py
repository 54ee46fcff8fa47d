"""What is compared, summed and counted: a relation of a kind, and the words for it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from itertools import pairwise

from .dice import Dice
from .facts import Entity, Fact, Quantity, World
from .question import Description, is_tight, named
from .wordings import PHRASES

CLEAR = 0.03  # the share by which compared numbers differ at least


@dataclass(frozen=True, slots=True)
class Measure:
    """A relation whose values have an order, with words for more and less, most and least."""

    kind: str
    relation: str
    more: str
    less: str
    most: str
    least: str


def _more(kind: str, relation: str, things: str) -> Measure:
    words = (f"has more {things}", f"has fewer {things}", f"has the most {things}", f"has the fewest {things}")
    return Measure(kind, relation, *words)


def _than(kind: str, relation: str, more: str, less: str, verb: str = "is") -> Measure:
    """Return a measure of two adjectives in the comparative."""
    words = (f"{verb} {more}", f"{verb} {less}")
    return Measure(kind, relation, *words, *(f"{verb} the {_superlative(one)}" for one in (more, less)))


def _superlative(comparative: str) -> str:
    return comparative.removesuffix("er") + "est"


def _earlier(kind: str, relation: str, done: str) -> Measure:
    return Measure(kind, relation, f"{done} later", f"{done} earlier", f"{done} last", f"{done} first")


_AREA = ("has the larger area", "has the smaller area", "has the largest area", "has the smallest area")
MEASURES = (
    _more("country", "population", "inhabitants"),
    Measure("country", "area", *_AREA),
    _earlier("country", "independent", "became independent"),
    _more("town", "population", "inhabitants"),
    Measure(
        "town",
        "elevation",
        "lies higher above sea level",
        "lies lower above sea level",
        "lies the highest above sea level",
        "lies the lowest above sea level",
    ),
    _earlier("town", "founded", "was founded"),
    _than("river", "length", "longer", "shorter"),
    _than("mountain", "height", "higher", "lower"),
    Measure(
        "mountain",
        "climbed_on",
        "was first climbed later",
        "was first climbed earlier",
        "was the last to be climbed",
        "was the first to be climbed",
    ),
    Measure(
        "lake",
        "depth",
        "has the greater maximum depth",
        "has the smaller maximum depth",
        "has the greatest maximum depth",
        "has the smallest maximum depth",
    ),
    Measure("lake", "area", *_AREA),
    _earlier("person", "born_on", "was born"),
    _earlier("person", "died_on", "died"),
    _more("novel", "pages", "pages"),
    _earlier("novel", "published", "was published"),
    _than("opera", "minutes", "longer", "shorter"),
    _earlier("opera", "premiered", "had its premiere"),
    _than("painting", "width", "wider", "narrower"),
    _earlier("painting", "painted", "was painted"),
    _more("university", "students", "students"),
    _more("company", "employees", "employees"),
    _earlier("company", "founded", "was founded"),
    _more("museum", "exhibits", "exhibits"),
    _than("bridge", "length", "longer", "shorter"),
    _earlier("bridge", "opened", "was opened"),
    _than("lighthouse", "height", "higher", "lower"),
    Measure(
        "lighthouse",
        "opened",
        "was the later one to be lit",
        "was the earlier one to be lit",
        "was the last to be lit",
        "was the first to be lit",
    ),
    _more("theatre", "seats", "seats"),
    _earlier("theatre", "opened", "was opened"),
    _than("railway", "length", "longer", "shorter"),
    _more("railway", "stations", "stations"),
    _earlier("railway", "opened", "was opened to passengers"),
)


def size(fact: Fact) -> float:
    """Return the number by which values are compared: of units, or the year; days count as parts of it."""
    match fact.value:
        case Quantity():
            return fact.value.number
        case date():
            return fact.value.year + fact.value.timetuple().tm_yday / 400
        case int():
            return fact.value
        case _:
            raise AssertionError(f"{fact.relation} is no measure")


def are_clear(facts: list[Fact]) -> bool:
    """Return whether no two values are so close that rounding could exchange them."""
    sizes = sorted(map(size, facts))
    if any(not isinstance(fact.value, Quantity) for fact in facts):
        return all(after - before >= 2 for before, after in pairwise(sizes))
    return all(after - before > CLEAR * after for before, after in pairwise(sizes))


def stated(world: World, kind: str, relation: str) -> list[Fact]:
    """Return the stated facts of a relation, of all subjects of a kind."""
    facts = [world.about[entity].get(relation) for entity in world.entities if entity.kind == kind]
    return [fact for fact in facts if fact is not None and fact.stated]


def described(world: World, dice: Dice, facts: list[Fact]) -> list[Description] | None:
    """Return descriptions of the facts' subjects by one relation that leads to each of them, if there is one."""
    for kind, relation in dice.shuffled(list(PHRASES)):
        found = [_described(world, dice, fact.subject, (kind, relation)) for fact in facts]
        if all(found):
            return [one for one in found if one is not None]
    return None


def _described(world: World, dice: Dice, thing: Entity, key: tuple[str, str]) -> Description | None:
    tight = [wording for wording in PHRASES[key] if is_tight(wording)]
    facts = [fact for fact in world.with_value(*key, thing) if fact.stated and fact.home == fact.subject]
    if not tight or not facts:
        return None
    fact = dice.pick(facts)
    return Description(tight[0].format(x=fact.subject.name), thing, (fact,))


def subjects(facts: list[Fact]) -> list[Description]:
    """Return the subjects by their names."""
    return [named(fact.subject) for fact in facts]
