"""Passages, as an encyclopedia would have them: one for each entity of a world."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TypeAlias

from .dice import Dice
from .facts import Entity, Fact, Quantity, Value, World
from .maker_sentences import MAKERS
from .place_sentences import PLACES, Sentences

SENTENCES: Mapping[str, Sentences] = {**PLACES, **MAKERS}
MONTHS = tuple("January February March April May June July August September October November December".split())
SHORTEST, LONGEST = 3, 6  # sentences of a passage
_SLOT = re.compile(r"\{([#~@]?)(\w+)(?:-(\d+))?(?::(\w))?\}")
_REFERENCES = frozenset("NSPpso")
_Fields: TypeAlias = Mapping[str, Value | list[Entity]]


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage of a collection."""

    title: str
    text: str


def passages(world: World) -> Iterator[Passage]:
    """Yield the passages of a world, in no telling order."""
    dice = Dice(f"passages {world.seed}")
    for entity in dice.shuffled(world.entities):
        yield Passage(entity.title, " ".join(_Writer(world, entity, dice).sentences()))


def written(value: Value, dates: str = "day") -> str:
    """Return a value as a passage of a world with such `dates` has it."""
    match value:
        case Entity():
            return value.name
        case Quantity():
            return f"{value.number:,} {value.unit}"
        case date():
            day, month = value.day, MONTHS[value.month - 1]
            return f"{day} {month} {value.year}" if dates == "day" else f"{month} {day}, {value.year}"
        case _:
            return str(value)


def capitalised(text: str) -> str:
    """Return the text as a sentence begins."""
    return text[0].upper() + text[1:]


def joined(names: Sequence[str], word: str = "and") -> str:
    """Return "A, B and C"."""
    return f"{', '.join(names[:-1])} {word} {names[-1]}" if len(names) > 1 else names[0]


class _Writer:
    """Writes the passage of one entity."""

    def __init__(self, world: World, entity: Entity, dice: Dice) -> None:
        self._world, self._entity, self._dice = world, entity, dice
        self._fields = _fields(world.at_home[entity], entity)
        years = [fact.value for fact in world.about[entity].values() if isinstance(fact.value, date | int)]
        self._last_year = max((one.year if isinstance(one, date) else one for one in years), default=0)
        self._before: list[Entity] = []  # what the last sentence named besides the entity itself

    def sentences(self) -> list[str]:
        """Return the sentences, the first of which says what the entity is."""
        plan = self._plan()
        while len(plan) >= LONGEST:
            plan = self._plan()
        asides = [text for text in SENTENCES[self._entity.kind].asides if self._last_year or "{@" not in text]
        count = max(SHORTEST - len(plan), min(self._dice.between(1, 2), LONGEST - len(plan)))
        for aside in self._dice.sample(asides, count):
            plan.insert(self._dice.between(1, len(plan)), aside)
        return [self._written(template) for template in plan]

    def _plan(self) -> list[str]:
        """Choose sentences that state each fact once."""
        known = SENTENCES[self._entity.kind]
        left = set(self._fields)
        plan = [self._dice.pick([text for text in known.first if _named(text) <= left])]
        left -= _named(plan[0])
        while left:
            fitting = [text for text in known.more if _named(text) <= left]
            plan.append(self._dice.pick([text for text in fitting for _ in range(len(_named(text)) ** 2)]))
            left -= _named(plan[-1])
        return plan

    def _written(self, template: str) -> str:
        clear, seen = self._is_clear(), False
        named: list[Entity] = []

        def filled(slot: re.Match[str]) -> str:
            nonlocal seen
            mark, name, high, form = slot.groups()
            if mark:
                return self._number(mark, int(name), int(high))
            if name in _REFERENCES:
                text = self._reference(name, clear or seen)
                seen = True
                return text
            value = self._other_town() if name == "T" else self._fields[name]
            named.extend(value if isinstance(value, list) else [value] if isinstance(value, Entity) else [])
            return _text(value, form or "", self._world.dates)

        text = _SLOT.sub(filled, template)
        self._before = named
        return capitalised(text)

    def _is_clear(self) -> bool:
        """Return whether a pronoun can mean nothing but the entity."""
        person = self._entity.kind == "person"
        return not any((one.kind == "person") == person for one in self._before)

    def _reference(self, form: str, clear: bool) -> str:
        entity, person = self._entity, self._entity.kind == "person"
        subject, possessive, object_ = ("she", "her", "her") if entity.she else ("he", "his", "him")
        if not person:
            subject, possessive, object_ = "it", "its", "it"
        name = entity.name
        if form != "N" and not person and all(one.kind != entity.kind for one in self._before):
            name = self._dice.pick((name, f"the {entity.kind}"))
        if form == "N" or not clear or (form == "S" and self._dice.chance(0.3)):
            return name + ("'s" if form in "Pp" else "")
        return {"S": subject, "s": subject, "P": possessive, "p": possessive, "o": object_}[form]

    def _number(self, mark: str, low: int, high: int) -> str:
        number = self._dice.between(low, high) + (self._last_year if mark == "@" else 0)
        return f"{number:,}" if mark == "#" else str(number)

    def _other_town(self) -> Entity:
        towns = [one for one in self._world.entities if one.kind == "town" and one not in self._fields.values()]
        return self._dice.pick(towns)


def _fields(facts: Sequence[Fact], entity: Entity) -> _Fields:
    fields: dict[str, Value | list[Entity]] = {}
    for fact in facts:
        if fact.subject == entity:
            fields[fact.relation] = fact.value
        else:
            listed = fields.setdefault(f"{fact.relation}_of", [])
            assert isinstance(listed, list)
            listed.append(fact.subject)
    return fields


def _named(template: str) -> set[str]:
    slots = (slot.groups() for slot in _SLOT.finditer(template))
    return {name for mark, name, _, _ in slots if not mark and name not in _REFERENCES and name != "T"}


def _text(value: Value | list[Entity], form: str, dates: str) -> str:
    if isinstance(value, list):
        return joined([one.name for one in value])
    if form == "n" and isinstance(value, Quantity):
        return f"{value.number:,}"
    text = written(value, dates)
    return f"{'an' if text[0] in 'aeiou' else 'a'} {text}" if form == "a" else text
