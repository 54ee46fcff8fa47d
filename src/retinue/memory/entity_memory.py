"""`EntityMemory`: the entities of a conversation, what is known of each, and which of them belong in a prompt.

Whether an older fact still holds is asked of a model. Asked for yes or no, a small model is right about half of the
time. If it first says what each statement is about, it is mostly right (17 of 20 pairs instead of 10, with other
examples than today's).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import inf, log2
from pathlib import Path
from string import Template
from typing import Any

from ..core.protocols import Model, Recalled, ask_once
from ..core.schema.patterns import Chars, Constraint, Repeat, choice, seq
from ..errors import UsageError
from ..strategies.prompting.injection_guard import neutralize
from .entity_components import USER, EntityExtractor, EntitySummarizer, select_content_words, split_words
from .stored_memory import (
    StoredMemory,
    StoredTurn,
    build_record_schema,
    build_text_schema,
    count_tokens,
    cut,
    format_transcript,
    list_not_done,
    make_turn,
    read_prompt,
    select_newest,
)

CHANGING = (("home", "origin", "plans"), ("work",), ("age",), ("date",))  # models confuse those in a group
_MOST_FACTS = 24  # current facts of an entity; the oldest are dropped, but not those about its name
_MOST_NAMES = 24  # other names of an entity, and facts about its name
_MOST_OUTDATED = 4  # outdated facts that are kept for inspection
_SAME = 0.3  # share of common words above which one fact may replace another
_FIRST = 1_000.0
_FADED = 0.05  # below this importance, an entity is only shown if it is mentioned
_NAME = re.compile(r"[A-Z][\w'-]*(?: [A-Z][\w'-]*)*")
_WAITING = 50  # turns that may wait for extraction if the model keeps failing
_PLAIN = 60  # tokens of facts about an entity, above which it gets a summary
_LINE = 400  # tokens of each side of a turn that the extractor is shown
_ENTITIES = 200
_OUTDATED, _TRUE = "outdated", "still true"
_TOPIC_CHARS = 40
_COMPARISON = Template(read_prompt("entity_comparison"))
_TOPIC = seq(" ", Repeat(Chars(r"^\n.>-"), 3, _TOPIC_CHARS), ".")
_COMPARISON_FORM = Constraint(
    seq(_TOPIC, " New says:", _TOPIC, " -> ", choice(_OUTDATED, _TRUE), "\n"),
    build_record_schema(
        old_says=build_text_schema(_TOPIC_CHARS),
        new_says=build_text_schema(_TOPIC_CHARS),
        the_old_is={"type": "string", "enum": [_OUTDATED, _TRUE]},
    ),
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
        del self.others[:-_MOST_NAMES]
        old = [one for one in self.facts if one.until is not None]
        names = [one for one in self.holding if one.about == "name"]
        others = [one for one in self.holding if one.about != "name"]
        gone = {id(one) for one in (*old[:-_MOST_OUTDATED], *names[:-_MOST_NAMES], *others[:-_MOST_FACTS])}
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


# ── the memory ────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Entities:
    """The state: number of turns, turns that are not yet extracted, and the one before these."""

    turn: int = 0
    waiting: list[StoredTurn] = field(default_factory=list)
    before: str = ""
    entities: list[Entity] = field(default_factory=list)


class EntityMemory(StoredMemory[Entities]):
    """The people, places, organizations and other entities of one conversation, and what the user said of them.

    After each `every` turns, an `EntityExtractor` (or a model for one) extracts new facts in the background, which
    replace those they outdate. If much is known of an entity, an `EntitySummarizer` (by default with the same model)
    keeps a summary. `recall` selects entities for a question within `max_tokens` (estimated at three bytes each): those
    that the question names, then the user, then by importance, which is the number of mentions, halved in `half_life`
    turns without one. `path` is a JSON file, replaced after each turn, from which the memory continues.

    Raises `UsageError`, and `DataError` for a file that is not such a memory.
    """

    label = "the entity memory"

    def __init__(
        self,
        extractor: EntityExtractor | Model | str = "local",
        summarizer: EntitySummarizer | Model | str | None = None,
        *,
        every: int = 3,
        max_tokens: int = 400,
        half_life: float = 20.0,
        path: str | Path | None = None,
    ) -> None:
        if every < 1 or max_tokens < 40 or half_life <= 0:
            raise UsageError("EntityMemory: every must be at least 1, max_tokens at least 40, half_life more than 0")
        self._extractor = extractor if isinstance(extractor, EntityExtractor) else EntityExtractor(extractor)
        other = self._extractor.model if summarizer is None else summarizer
        self._summarizer = other if isinstance(other, EntitySummarizer) else EntitySummarizer(other)
        self._every = every
        self._max_tokens = max_tokens
        self._half_life = half_life
        self._settling = False
        self._open(Entities, path)

    @property
    def entities(self) -> tuple[Entity, ...]:
        """The known entities, most important first."""
        with self._lock:
            now, half_life = self._state.turn, self._half_life
            return tuple(sorted(self._state.entities, key=lambda one: -one.compute_importance(now, half_life)))

    async def recall(self, question: str) -> Recalled:
        """Return the facts about the entities most relevant to `question`, one line each."""
        with self._lock:
            state = self._state
            lines = select(state.entities, question, state.turn, self._half_life, self._max_tokens)
        return Recalled(facts="\n".join(lines))

    def note(self, question: str, answer: str) -> None:
        """Add a turn, without saving."""
        with self._lock:
            state = self._state
            state.turn += 1
            state.waiting = [*state.waiting, make_turn(question, answer)][-_WAITING:]
            for one in state.entities:
                if one.is_in(f"{question} {answer}"):
                    one.mentions, one.last = one.mentions + 1, state.turn

    def shrink(self, most: int) -> None:
        """Drop the oldest waiting turns that are more than `most` tokens together, and the least important entities
        that are, without saving."""
        with self._lock:
            state = self._state
            state.waiting = select_newest(state.waiting, most)
            forget(state.entities, _ENTITIES, state.turn, self._half_life, most)

    def _rebase(self, before: Entities, now: Entities) -> Entities | None:
        if before.before != now.before:
            return None
        left = list_not_done(before.waiting, self._state.waiting, now.waiting)
        return replace(self._state, turn=now.turn, waiting=left)

    async def settled_async(self) -> None:
        """Wait until all turns are extracted, including those that `every` would delay, and save."""
        self._settling = True
        try:
            await super().settled_async()
        finally:
            self._settling = False

    # ── in the background ────────────────────────────────────────────────────────────────────────

    def is_due(self) -> bool:
        """Return whether enough turns wait."""
        return len(self._state.waiting) >= (1 if self._settling else self._every)

    async def catch_up(self) -> None:
        """Extract the entities of the waiting turns; then compare new facts with old ones, and update the summaries.
        Raises `ModelError`.

        The work is in this order because an engine caches only the beginning of the last prompt.
        """
        while self._state.waiting:
            await self._extract_first()
        for entity in self.entities:
            await self._compare(entity)
        for entity in self.entities:
            if not entity.summary and count_tokens(entity.line) > _PLAIN:
                await self._summarize(entity)

    async def _extract_first(self) -> None:
        """Extract the entities of the turn that has waited longest."""
        with self._lock:
            said, number = self._state.waiting[0], self._state.turn - len(self._state.waiting) + 1
        text = format_transcript([said], _LINE)
        found = await self._extractor.run_async(text, self._state.before)
        with self._lock:
            state = self._state
            state.waiting = [one for one in state.waiting if one is not said]
            state.before = text
            merge(state.entities, found["entities"], number)
            forget(state.entities, _ENTITIES, state.turn, self._half_life)

    async def _compare(self, entity: Entity) -> None:
        """Outdate the facts, said earlier of somebody, that are no longer true given newer ones."""
        for fact in entity.holding:
            for old in [] if fact.compared else entity.list_doubtful(fact):
                prompt = _COMPARISON.substitute(old=neutralize(old.fact), new=neutralize(fact.fact))
                reply = await ask_once(self._extractor.model, prompt, max_tokens=64, constraint=_COMPARISON_FORM)
                if _OUTDATED in reply.text.casefold():
                    with self._lock:
                        entity.outdate(old, fact)
            fact.compared = True

    async def _summarize(self, entity: Entity) -> None:
        """Summarize all current facts, without the old summary, which may contain outdated ones."""
        with self._lock:
            facts = [one.fact for one in entity.holding]
        found = await self._summarizer.run_async([{"name": entity.name, "kind": entity.kind, "facts": facts}])
        with self._lock:
            if facts == [one.fact for one in entity.holding]:
                entity.summary = found["entities"][0]["summary"]
