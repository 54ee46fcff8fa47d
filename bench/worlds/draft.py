"""A world while it is being made."""

from __future__ import annotations

from datetime import date

from .dice import Dice
from .facts import Entity, Fact, Value, World
from .names import STYLES, Names


class Draft:
    """The entities and facts so far, and the draws that make more of them."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.dice = Dice(f"world {seed}")
        self.names = Names(seed, self.dice)
        self.entities: list[Entity] = []
        self.facts: list[Fact] = []
        self._values: dict[tuple[Entity, str], Value] = {}
        self.styles: dict[Entity, str] = {}
        self.currencies: dict[Entity, str] = {}

    def add(self, entity: Entity, style: str = "") -> Entity:
        """Add an entity, whose neighbours' names sound as `style`, and return it."""
        self.entities.append(entity)
        self.styles[entity] = style or self.dice.pick(list(STYLES))
        return entity

    def state(self, subject: Entity, relation: str, value: Value, home: Entity | None = None) -> None:
        """Add a fact, which the passage of `home` (or else of the subject) states."""
        self.facts.append(Fact(subject, relation, value, home or subject))
        self._values[subject, relation] = value

    def of(self, kind: str) -> list[Entity]:
        """Return the entities of a kind, oldest first."""
        return [entity for entity in self.entities if entity.kind == kind]

    def value(self, subject: Entity, relation: str) -> Value:
        """Return the value of a relation that has been stated."""
        return self._values[subject, relation]

    def place(self, subject: Entity, relation: str) -> Entity:
        """Return the entity that is the value of a relation."""
        value = self.value(subject, relation)
        assert isinstance(value, Entity)
        return value

    def year(self, subject: Entity, relation: str) -> int:
        """Return the year of a date or a year."""
        value = self.value(subject, relation)
        assert isinstance(value, date | int)
        return value.year if isinstance(value, date) else value

    def day_in(self, first: int, last: int) -> date:
        """Return a date of the years `first` to `last`."""
        return date(self.dice.between(first, last), self.dice.between(1, 12), self.dice.between(1, 28))

    def tens(self, low: int, high: int) -> int:
        """Return a number of tens, so that populations do not pretend to be exact."""
        return self.dice.between(low // 10, high // 10) * 10

    def word(self, style: str = "") -> str:
        """Return a new name."""
        return self.names.word(style or self.dice.pick(list(STYLES)))

    def currency(self) -> str:
        """Return the currency of one of the countries, as a plural."""
        return self.dice.pick(list(self.currencies.values()))

    def done(self) -> World:
        """Return the world as it is now."""
        dates = self.dice.pick(("day", "month"))
        return World(self.seed, tuple(self.entities), tuple(self.facts), dates)
