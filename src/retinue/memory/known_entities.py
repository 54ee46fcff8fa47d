"""The entities that a conversation has brought up: what is known of each, and which are worth a prompt's space."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import log2
from typing import Any

from .conversation_turns import cut, tokens

USER = "User"
CHANGING = (("home", "origin", "plans"), ("work",), ("age",), ("date",))  # kinds of facts; a model confuses some
_FACTS = 24  # of an entity that hold; the oldest give way, but not its name
_OUTDATED = 4  # of an entity that are kept to be seen
_SAME = 0.3  # of their words that two facts share, if one may take the other's place
_FIRST = 1_000.0
_FADED = 0.05  # as important as that, an entity is not shown unless it is mentioned
_NAME = re.compile(r"[A-Z][\w'-]*(?: [A-Z][\w'-]*)*")
_WORD = re.compile(r"\w+")
_SMALL = frozenset(
    "a an and are as at be by for from has have he her his i in is it its my now of on or she so that the their they "
    "this to was were who will with user users s currently".split()
)


@dataclass(slots=True)
class Fact:
    """Something said of an entity: `about` is what kind of fact it is; it held from the turn `since` on, `until`
    another was said. `compared`: with those before it."""

    about: str
    fact: str
    since: int
    until: int | None = None
    compared: bool = False


@dataclass(slots=True)
class Entity:
    """Somebody or something: its names, what is known of it, and when it was spoken of.

    `summary` stands for the facts where it is not empty. `first` and `last` are turns, `mentions` counts them.
    """

    name: str
    kind: str
    first: int
    last: int
    mentions: int = 1
    others: list[str] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    summary: str = ""

    @property
    def holding(self) -> list[Fact]:
        """The facts that are not outdated."""
        return [one for one in self.facts if one.until is None]

    def importance(self, turn: int, half_life: float) -> float:
        """Grows with its mentions, and halves in `half_life` turns without one."""
        return log2(1 + self.mentions) * float(0.5 ** ((turn - self.last) / half_life))

    @property
    def line(self) -> str:
        """What a prompt says of it."""
        who = "The user, who asks this" if self.name == USER else f"{self.name} ({self.kind})"
        return f"{who}: {self.summary or '; '.join(one.fact for one in self.holding)}"

    def is_in(self, text: str) -> bool:
        """Whether a text names it."""
        spoken = f" {' '.join(words(text))} "
        return any(f" {' '.join(words(name))} " in spoken for name in (self.name, *self.others) if words(name))

    def learn(self, about: str, fact: str, turn: int) -> None:
        """Take in a fact, if it is news."""
        if any(words(one.fact) == words(fact) for one in self.holding):
            return
        self.facts.append(Fact(about, fact, turn))
        self.summary = ""
        if about == "name":
            self.others += [name for name in _NAME.findall(fact) if name not in (self.name, USER, *self.others)]
        old = [one for one in self.facts if one.until is not None]
        gone = [*old[:-_OUTDATED], *[one for one in self.holding if one.about != "name"][:-_FACTS]]
        self.facts = [one for one in self.facts if not any(one is other for other in gone)]

    def doubtful(self, fact: Fact) -> list[Fact]:
        """What may hold no longer, now that `fact` is said: older facts of a kind that changes, or in much the same
        words."""
        said, kinds = content(fact.fact), next((kinds for kinds in CHANGING if fact.about in kinds), ())
        older = [one for one in self.holding if one.since < fact.since]
        return [one for one in older if one.about in kinds or _alike(content(one.fact), said)]

    def outdate(self, old: Fact, by: Fact) -> None:
        """`old` holds no longer."""
        old.until = by.since
        self.summary = ""


def words(text: str) -> list[str]:
    """Its words, in small letters."""
    return _WORD.findall(text.casefold())


def content(text: str) -> frozenset[str]:
    """Its words that matter, without most of their endings."""
    return frozenset(word[:5] for word in words(text) if word not in _SMALL)


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    return bool(one) and len(one & other) >= _SAME * len(one | other)


def find(entities: Iterable[Entity], name: str, kind: str) -> Entity | None:
    """The entity of that name; or the only one of its kind whose name says more, or less, of the same."""
    wanted = words(name)
    near = []
    for one in entities:
        if any(words(known) == wanted for known in (one.name, *one.others)):
            return one
        known = set(words(one.name))
        if one.kind == kind and one.name != USER and (known <= set(wanted) or known >= set(wanted)):
            near.append(one)
    return near[0] if len(near) == 1 else None


def merge(entities: list[Entity], found: Iterable[Mapping[str, Any]], turn: int) -> None:
    """Take in what was found in a turn: `name`, `kind` and `facts` of each."""
    for one in found:
        entity = find(entities, one["name"], one["kind"])
        if entity is None:
            entity = Entity(one["name"], one["kind"], turn, turn)
            entities.append(entity)
        elif len(one["name"]) > len(entity.name) and entity.name != USER:
            entity.others.append(entity.name)
            entity.name = one["name"]
        if turn > entity.last:
            entity.last, entity.mentions = turn, entity.mentions + 1
        for said in one["facts"]:
            entity.learn(said["about"], said["fact"], turn)


def forget(entities: list[Entity], most: int, turn: int, half_life: float) -> None:
    """Keep at most so many of them: the most important."""
    ranked = sorted(entities, key=lambda one: -one.importance(turn, half_life))
    gone = {id(one) for one in ranked[most:] if one.name != USER}
    entities[:] = [one for one in entities if id(one) not in gone]


def select(entities: Iterable[Entity], question: str, turn: int, half_life: float, budget: int) -> list[str]:
    """The lines of a prompt about the entities that are worth it, in `budget` tokens: first those that `question`
    names, then the user, then by importance. One of which nothing is known, such as a city that everybody
    knows, needs no line, and neither does one that has faded."""
    ranked = []
    for one in entities:
        importance = one.importance(turn, half_life)
        if one.is_in(question):
            importance += 2 * _FIRST
        elif one.name == USER:
            importance += _FIRST
        if importance >= _FADED and (one.summary or one.holding):
            ranked.append((importance, one))
    lines, most = [], budget // 2
    for _, one in sorted(ranked, key=lambda pair: -pair[0]):
        line = cut(one.line, most)
        if tokens(line) + 1 <= budget:  # and the line's break
            budget -= tokens(line) + 1
            lines.append(line)
    return lines
