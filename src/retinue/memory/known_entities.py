"""The entities of a conversation: what is known of each, and which of them belong in a prompt."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf, log2
from typing import Any

from .conversation_turns import count_tokens, cut

USER = "User"
CHANGING = (("home", "origin", "plans"), ("work",), ("age",), ("date",))  # models confuse those in a group
_FACTS = 24  # current facts of an entity; the oldest are dropped, but not those about its name
_NAMES = 24  # other names of an entity, and facts about its name
_OUTDATED = 4  # outdated facts that are kept for inspection
_SAME = 0.3  # share of common words above which one fact may replace another
_FIRST = 1_000.0
_FADED = 0.05  # below this importance, an entity is only shown if it is mentioned
_NAME = re.compile(r"[A-Z][\w'-]*(?: [A-Z][\w'-]*)*")
_WORD = re.compile(r"\w+")
_SMALL = frozenset(
    "a an and are as at be by for from has have he her his i in is it its my now of on or she so that the their they "
    "this to was were who will with user users s currently".split()
)


@dataclass(slots=True)
class Fact:
    """A fact about an entity; `about` is its kind. It holds from the turn `since` until the turn `until`, when another
    replaced it. `compared`: with earlier facts.
    """

    about: str
    fact: str
    since: int
    until: int | None = None
    compared: bool = False


@dataclass(slots=True)
class Entity:
    """An entity: its names, what is known of it, and when it was mentioned.

    A `summary` that is not empty replaces the facts. `first` and `last` are turns; `mentions` counts mentions.
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

    def compute_importance(self, turn: int, half_life: float) -> float:
        """Return its importance, which grows with mentions, and halves in `half_life` turns without one."""
        return log2(1 + self.mentions) * float(0.5 ** ((turn - self.last) / half_life))

    @property
    def line(self) -> str:
        """The line about it in a prompt."""
        who = "The user, who asks this" if self.name == USER else f"{self.name} ({self.kind})"
        return f"{who}: {self.summary or '; '.join(one.fact for one in self.holding)}"

    @property
    def size(self) -> int:
        """The tokens of all that is kept of it."""
        return count_tokens("".join([self.name, self.summary, *self.others, *[one.fact for one in self.facts]]))

    def is_in(self, text: str) -> bool:
        """Return whether a text names it."""
        spoken = f" {' '.join(split_words(text))} "
        names = (" ".join(split_words(name)) for name in (self.name, *self.others))
        return any(name and f" {name} " in spoken for name in names)

    def learn(self, about: str, fact: str, turn: int) -> None:
        """Add a fact, if it is new."""
        if any(split_words(one.fact) == split_words(fact) for one in self.holding):
            return
        self.facts.append(Fact(about, fact, turn))
        self.summary = ""
        if about == "name":
            self.others += [name for name in _NAME.findall(fact) if name not in (self.name, USER, *self.others)]
        del self.others[:-_NAMES]
        old = [one for one in self.facts if one.until is not None]
        names = [one for one in self.holding if one.about == "name"]
        others = [one for one in self.holding if one.about != "name"]
        gone = {id(one) for one in (*old[:-_OUTDATED], *names[:-_NAMES], *others[:-_FACTS])}
        self.facts = [one for one in self.facts if id(one) not in gone]

    def list_doubtful(self, fact: Fact) -> list[Fact]:
        """Return facts that `fact` may outdate: older ones of a kind that changes, or in similar words."""
        kinds = next((kinds for kinds in CHANGING if fact.about in kinds), ())

        def is_alike(one: Fact) -> bool:
            words, other = select_content_words(one.fact), select_content_words(fact.fact)
            return bool(words) and len(words & other) >= _SAME * len(words | other)

        older = [one for one in self.holding if one.since < fact.since]
        return [one for one in older if one.about in kinds or is_alike(one)]

    def outdate(self, old: Fact, by: Fact) -> None:
        """Mark `old` as outdated."""
        old.until = by.since
        self.summary = ""


def split_words(text: str) -> list[str]:
    """Return the words in lower case."""
    return _WORD.findall(text.casefold())


def select_content_words(text: str) -> frozenset[str]:
    """Return the significant words, approximately stemmed."""
    return frozenset(word[:5] for word in split_words(text) if word not in _SMALL)


def find(entities: Iterable[Entity], name: str, kind: str) -> Entity | None:
    """Return the entity of that name, or the only one of its kind with a longer or shorter form of the name."""
    wanted = split_words(name)
    near = []
    for one in entities:
        if any(split_words(known) == wanted for known in (one.name, *one.others)):
            return one
        known = set(split_words(one.name))
        if one.kind == kind and one.name != USER and (known <= set(wanted) or known >= set(wanted)):
            near.append(one)
    return near[0] if len(near) == 1 else None


def merge(entities: list[Entity], found: Iterable[Mapping[str, Any]], turn: int) -> None:
    """Merge the entities found in a turn, each with `name`, `kind` and `facts`."""
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


def forget(entities: list[Entity], most: int, turn: int, half_life: float, budget: float = inf) -> None:
    """Keep only the `most` most important entities, within `budget` tokens, and the user."""
    ranked = sorted(entities, key=lambda one: -one.compute_importance(turn, half_life))
    kept = min(most, sum(size <= budget for size in accumulate(one.size for one in ranked)))
    gone = {id(one) for one in ranked[kept:] if one.name != USER}
    entities[:] = [one for one in entities if id(one) not in gone]


def select(entities: Iterable[Entity], question: str, turn: int, half_life: float, budget: int) -> list[str]:
    """Return the prompt's lines about the most relevant entities within `budget` tokens.

    Those that `question` names come first, then the user, then the others by importance. Entities without facts, such
    as well-known cities, and faded ones are omitted.
    """
    ranked = []
    for one in entities:
        importance = one.compute_importance(turn, half_life)
        importance += 2 * _FIRST if one.is_in(question) else _FIRST if one.name == USER else 0
        if importance >= _FADED and (one.summary or one.holding):
            ranked.append((importance, one))
    lines, most = [], budget // 2
    for _, one in sorted(ranked, key=lambda pair: -pair[0]):
        line = cut(one.line, most)
        size = count_tokens(line) + 1  # with the line break
        if size <= budget:
            budget -= size
            lines.append(line)
    return lines
