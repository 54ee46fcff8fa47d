"""`EntityMemory`: the entities of a conversation.

Whether an older fact still holds is asked of a model. Asked for yes or no, a small model is right about half of the
time. If it first says what each statement is about, it is mostly right (17 of 20 pairs instead of 10, with other
examples than today's).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from string import Template
from typing import Self

from ..core.completion import ask_once
from ..core.protocols import Model, Recalled
from ..core.schema.patterns import Chars, Constraint, Repeat, choice, seq
from ..errors import UsageError
from ..strategies.prompting.injection_guard import neutralize
from .conversation_turns import (
    StoredTurn,
    build_record_schema,
    build_text_schema,
    count_tokens,
    format_transcript,
    list_not_done,
    make_turn,
    read_prompt,
    select_newest,
)
from .entity_components import EntityExtractor, EntitySummarizer
from .known_entities import Entity, forget, merge, select
from .stored_memory import StoredMemory

_WAITING = 50  # turns that may wait for extraction if the model keeps failing
_PLAIN = 60  # tokens of facts about an entity, above which it gets a summary
_LINE = 400  # tokens of each side of a turn that the extractor is shown
_ENTITIES = 200
_OUTDATED, _TRUE = "outdated", "still true"
_TOPIC_CHARS = 40


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

    def rebase(self, began: str, now: str) -> Self | None:
        """Return a memory with what this one has caught up with since its state was `began`, and the turns that have
        come to it since, in `now`. `None` if another has caught up with the same."""
        before, after = self._parse(began), self._parse(now)
        if before.before != after.before:
            return None
        left = list_not_done(before.waiting, self._state.waiting, after.waiting)
        return self._copy(replace(self._state, turn=after.turn, waiting=left))

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
        for fact in entity.holding:
            for old in [] if fact.compared else entity.list_doubtful(fact):
                if await are_consistent(self._extractor.model, old.fact, fact.fact):
                    continue
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


_COMPARISON = Template(read_prompt("entity_comparison"))
_TOPIC = seq(" ", Repeat(Chars(r"^\n.>-"), 3, _TOPIC_CHARS), ".")
_FORM = Constraint(
    seq(_TOPIC, " New says:", _TOPIC, " -> ", choice(_OUTDATED, _TRUE), "\n"),
    build_record_schema(
        old_says=build_text_schema(_TOPIC_CHARS),
        new_says=build_text_schema(_TOPIC_CHARS),
        the_old_is={"type": "string", "enum": [_OUTDATED, _TRUE]},
    ),
)


async def are_consistent(model: Model, old: str, new: str) -> bool:
    """Return whether `old`, said earlier of somebody, is still true given `new`. Raises `ModelError`."""
    prompt = _COMPARISON.substitute(old=neutralize(old), new=neutralize(new))
    reply = await ask_once(model, prompt, max_tokens=64, constraint=_FORM)
    return _OUTDATED not in reply.text.casefold()
