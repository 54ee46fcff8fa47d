"""`EntityMemory`: the entities of a conversation.

Whether an older fact still holds is asked of a model. Asked for yes or no, a small model is right about half of the
time. If it first says what each statement is about, it is mostly right (17 of 20 pairs instead of 10, with other
examples than today's).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from ..core.protocols import Model, Recalled, ask_once
from ..core.schema.patterns import Chars, Constraint, Repeat, choice, seq
from ..errors import UsageError
from ..strategies.prompting.injection_guard import neutralize
from .conversation_turns import count_tokens, format_transcript, list_not_done, make_turn, select_newest
from .entity_components import EntityExtractor, EntitySummarizer
from .json_record import build_text_schema, record
from .known_entities import Entity, forget, merge, select
from .stored_memory import StateFile, StoredMemory, StoredTurn, dump_state, load_state

_WAITING = 50  # turns that may wait for extraction if the model keeps failing
_PLAIN = 60  # tokens of facts about an entity, above which it gets a summary
_LINE = 400  # tokens of each side of a turn that the extractor is shown
_ENTITIES = 200
_OUTDATED, _TRUE = "outdated", "still true"
_TOPIC_CHARS = 40
_EXAMPLES = (
    ("rents a flat in Lima", "has settled in Quito", "where they live", "where they live", _OUTDATED),
    ("sings in a choir", "rents a flat in Quito", "what they do for fun", "where they live", _TRUE),
    ("bakes bread at Samson", "drives a taxi these days", "their job", "their job", _OUTDATED),
    ("owns a house in Turku", "spends Easter in Rome", "where they live", "a journey", _TRUE),
    ("has a wedding on Friday", "has the wedding on Sunday instead", "when they marry", "when they marry", _OUTDATED),
    ("is fond of tea", "is fond of riddles", "a drink they like", "a game they like", _TRUE),
    ("owns a house in Turku", "swims in the sea a lot", "where they live", "a habit", _TRUE),
    ("drives a taxi these days", "grows roses", "their job", "a habit", _TRUE),
    ("has an uncle", "was raised in Ghent", "a relative", "where they come from", _TRUE),
    ("was raised in Turku", "is staying in Lima", "where they come from", "where they are", _TRUE),
    ("is thirty", "turned thirty-one", "how old they are", "how old they are", _OUTDATED),
    ("bakes bread at Samson", "gave notice at Samson", "their job", "their job", _OUTDATED),
)


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
        self._keep(StateFile(Entities, path))

    def _keep(self, kept: StateFile[Entities]) -> None:
        super()._keep(kept)
        self._settling = False

    @property
    def entities(self) -> tuple[Entity, ...]:
        """The known entities, most important first."""
        with self._kept.lock:
            state = self._kept.state
            return tuple(sorted(state.entities, key=lambda one: -one.compute_importance(state.turn, self._half_life)))

    async def recall(self, question: str) -> Recalled:
        """Return the facts about the entities most relevant to `question`, one line each."""
        with self._kept.lock:
            state = self._kept.state
            return Recalled(
                facts="\n".join(select(state.entities, question, state.turn, self._half_life, self._max_tokens))
            )

    def note(self, question: str, answer: str) -> None:
        """Add a turn, without saving."""
        with self._kept.lock:
            state = self._kept.state
            state.turn += 1
            state.waiting = [*state.waiting, make_turn(question, answer)][-_WAITING:]
            for one in state.entities:
                if one.is_in(f"{question} {answer}"):
                    one.mentions, one.last = one.mentions + 1, state.turn

    def shrink(self, most: int) -> None:
        """Drop the oldest waiting turns that are more than `most` tokens together, and the least important entities
        that are, without saving."""
        with self._kept.lock:
            state = self._kept.state
            state.waiting = select_newest(state.waiting, most)
            forget(state.entities, _ENTITIES, state.turn, self._half_life, most)

    def rebase(self, began: str, now: str) -> Self | None:
        """Return a memory with what this one has caught up with since its state was `began`, and the turns that have
        come to it since, in `now`. `None` if another has caught up with the same."""
        before, after = (load_state(Entities, text, "the state") for text in (began, now))
        if before.before != after.before:
            return None
        own = self._kept.state
        left = list_not_done(before.waiting, own.waiting, after.waiting)
        return self.with_state(dump_state(Entities(after.turn, left, own.before, own.entities)))

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
        with self._kept.lock:
            waiting = len(self._kept.state.waiting)
        return waiting >= (1 if self._settling else self._every)

    async def catch_up(self) -> None:
        """Extract the entities of the waiting turns; then compare new facts with old ones, and update the summaries.
        Raises `ModelError`.

        The work is in this order because an engine caches only the beginning of the last prompt.
        """
        while (first := self._find_first_waiting()) is not None:
            await self._extract(*first)
        for entity in self.entities:
            await self._compare(entity)
        for entity in self.entities:
            if not entity.summary and count_tokens(entity.line) > _PLAIN:
                await self._summarize(entity)

    def _find_first_waiting(self) -> tuple[StoredTurn, int] | None:
        """Return the turn that has waited longest, and its number."""
        with self._kept.lock:
            state = self._kept.state
            return (state.waiting[0], state.turn - len(state.waiting) + 1) if state.waiting else None

    async def _extract(self, said: StoredTurn, number: int) -> None:
        text = format_transcript([said], _LINE)
        found = await self._extractor.run_async(text, self._kept.state.before)
        with self._kept.lock:
            state = self._kept.state
            state.waiting = [one for one in state.waiting if one is not said]
            state.before = text
            merge(state.entities, found["entities"], number)
            forget(state.entities, _ENTITIES, state.turn, self._half_life)

    async def _compare(self, entity: Entity) -> None:
        for fact in entity.holding:
            for old in [] if fact.compared else entity.list_doubtful(fact):
                if await are_consistent(self._extractor.model, old.fact, fact.fact):
                    continue
                with self._kept.lock:
                    entity.outdate(old, fact)
            fact.compared = True

    async def _summarize(self, entity: Entity) -> None:
        """Summarize all current facts, without the old summary, which may contain outdated ones."""
        with self._kept.lock:
            facts = [one.fact for one in entity.holding]
        given = {"name": entity.name, "kind": entity.kind, "facts": facts}
        found = await self._summarizer.run_async([given])
        with self._kept.lock:
            if facts == [one.fact for one in entity.holding]:
                entity.summary = found["entities"][0]["summary"]


async def are_consistent(model: Model, old: str, new: str) -> bool:
    """Return whether `old`, said earlier of somebody, is still true given `new`. Raises `ModelError`."""
    reply = await ask_once(
        model, _HEAD + _write_pair(neutralize(old), neutralize(new)), max_tokens=64, constraint=_FORM
    )
    return _OUTDATED not in reply.text.casefold()


def _make_constraint() -> Constraint:
    topic = seq(" ", Repeat(Chars(r"^\n.>-"), 3, _TOPIC_CHARS), ".")
    verdict = {"type": "string", "enum": [_OUTDATED, _TRUE]}
    schema = record(
        old_says=build_text_schema(_TOPIC_CHARS), new_says=build_text_schema(_TOPIC_CHARS), the_old_is=verdict
    )
    return Constraint(seq(topic, " New says:", topic, " -> ", choice(_OUTDATED, _TRUE), "\n"), schema)


def _write_pair(old: str, new: str) -> str:
    return f"Old: {old}\nNew: {new}\nOld says:"


_FORM = _make_constraint()
_HEAD = (
    "Something old is known of somebody, and something new is said of them. Does the new take the place of the old?\n\n"
    + "".join(
        f"{_write_pair(old, new)} {one}. New says: {other}. -> {end}\n\n" for old, new, one, other, end in _EXAMPLES
    )
)
