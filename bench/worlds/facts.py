"""What a world is: entities, and facts about them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Entity:
    """A thing with a passage of its own. `name` is how a sentence names it ("the Orvel River"), and `she` a person's
    gender."""

    kind: str
    title: str
    name: str
    aliases: tuple[str, ...] = ()
    she: bool = False


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number of units; the unit is a plural ("metres")."""

    number: int
    unit: str


Value: TypeAlias = Entity | Quantity | date | int | str  # an int is a year


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact. The passage of `home`, and no other, states it; if it is not `stated`, none does."""

    subject: Entity
    relation: str
    value: Value
    home: Entity
    stated: bool = True


@dataclass(frozen=True)
class World:
    """The entities and facts of one seed. `style` says how its dates are written: "day" or "month" first."""

    seed: int
    entities: tuple[Entity, ...]
    facts: tuple[Fact, ...]
    dates: str

    @cached_property
    def about(self) -> Mapping[Entity, Mapping[str, Fact]]:
        """The facts of each subject by relation; a relation has one value."""
        found: dict[Entity, dict[str, Fact]] = {entity: {} for entity in self.entities}
        for fact in self.facts:
            found[fact.subject][fact.relation] = fact
        return found

    @cached_property
    def at_home(self) -> Mapping[Entity, Sequence[Fact]]:
        """The facts that each entity's passage states."""
        found = defaultdict(list)
        for fact in self.facts:
            if fact.stated:
                found[fact.home].append(fact)
        return found

    def with_value(self, kind: str, relation: str, value: Value) -> list[Fact]:
        """Return the facts of all subjects of `kind` whose `relation` is `value`, stated or not."""
        return self._by_value.get((kind, relation, value), [])

    @cached_property
    def _by_value(self) -> Mapping[tuple[str, str, Value], list[Fact]]:
        found: dict[tuple[str, str, Value], list[Fact]] = {}
        for fact in self.facts:
            found.setdefault((fact.subject.kind, fact.relation, fact.value), []).append(fact)
        return found
