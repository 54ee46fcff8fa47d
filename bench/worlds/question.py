"""A question with its gold answer, and descriptions of the things it is about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

from retinue.evals.questions import Number

from .dice import Dice
from .encyclopedia import MONTHS, written
from .facts import Entity, Fact, Quantity, Value, World
from .wordings import INVERSE, PHRASES


@dataclass(frozen=True, slots=True)
class Question:
    """A question of a world. Its answer follows from `facts`; if one of them is not stated, it has none.

    `shape` says what it is like, so that not all questions of a kind are alike. An answer that names one of `rivals` is
    wrong: it leaves open which of them it is.
    """

    kind: str
    text: str
    answers: tuple[str | Number, ...]
    facts: tuple[Fact, ...]
    shape: str
    rivals: tuple[str, ...] = ()

    @property
    def evidence(self) -> tuple[str, ...]:
        """The titles of the passages that hold the facts; where one is missing, those that lead to it."""
        return tuple(dict.fromkeys(fact.home.title for fact in self.facts))

    def line(self, identifier: str, tags: Iterable[str]) -> dict[str, Any]:
        """Return the line of `questions.jsonl`."""
        answers = [
            {"number": one.number, "within": one.within} if isinstance(one, Number) else one for one in self.answers
        ]
        unanswerable = {} if answers else {"unanswerable": True}
        found = {"id": identifier, "question": self.text, "answers": answers, **unanswerable}
        rivals = {"rivals": list(self.rivals)} if self.rivals else {}
        return {**found, **rivals, "evidence": list(self.evidence), "tags": [self.kind, *tags]}


@dataclass(frozen=True, slots=True)
class Description:
    """Words that mean exactly one thing of a world, to those who know the facts."""

    text: str
    thing: Entity
    facts: tuple[Fact, ...] = ()


def named(entity: Entity) -> Description:
    """Return the description that is the name."""
    return Description(entity.name, entity)


def steps(world: World, inner: Description, dice: Dice) -> Iterator[Description]:
    """Yield the descriptions that are one step away from `inner`, by a fact of another passage than its own."""
    for relation, fact in world.about[inner.thing].items():
        if isinstance(fact.value, Entity):
            yield from _step(inner, fact, fact.value, PHRASES.get((inner.thing.kind, relation), ()), dice)
    for (kind, relation), wordings in INVERSE.items():
        facts = world.with_value(kind, relation, inner.thing)
        if len(facts) == 1:
            yield from _step(inner, facts[0], facts[0].subject, wordings, dice)


def _step(
    inner: Description, fact: Fact, thing: Entity, wordings: tuple[str, ...], dice: Dice
) -> Iterator[Description]:
    fitting = [text for text in wordings if not inner.facts or is_tight(text)]
    known = {fact.home for fact in inner.facts}
    if fitting and fact.stated and fact.home not in known and thing not in (inner.thing, *_passed(inner)):
        yield Description(dice.pick(fitting).format(x=inner.text), thing, (*inner.facts, fact))


def _passed(inner: Description) -> Iterator[Entity]:
    for fact in inner.facts:
        yield fact.subject
        if isinstance(fact.value, Entity):
            yield fact.value


def is_tight(wording: str) -> bool:
    """Return whether the wording ends with what it is filled with, so that this may be long."""
    return wording.rstrip("?").endswith("{x}")


def accepted(value: Value) -> tuple[str | Number, ...]:
    """Return the ways to write a value that count as right."""
    match value:
        case Entity():
            return (value.title, *value.aliases)
        case Quantity():
            return (Number(value.number),)
        case date():
            month, ordinal = MONTHS[value.month - 1], _ordinal(value.day)
            others = (f"{ordinal} {month} {value.year}", f"{ordinal} of {month} {value.year}")
            shorter = (f"{month} {ordinal}, {value.year}", value.isoformat())
            return (written(value, "day"), written(value, "month"), *others, *shorter)
        case int():
            return (Number(value),)
        case str():
            return (value,)


def _ordinal(day: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{'th' if day in (11, 12, 13) else ending}"
