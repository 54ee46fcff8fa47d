"""`EntityMemory`: who and what a conversation is about."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._internal.sync_bridge import run_blocking
from .._internal.thread_pool import run_in_thread
from ..core.protocols import Model, Recalled
from ..errors import UsageError
from .background_work import Background
from .contradiction import are_consistent
from .conversation_turns import tokens, transcript, turn
from .entity_extractor import EntityExtractor
from .entity_summarizer import EntitySummarizer
from .known_entities import Entity, forget, merge, select
from .state_file import StateFile, StoredTurn

_WAITING = 50  # turns that may wait for their extraction, should the model fail for long
_PLAIN = 60  # tokens: an entity of which more is known than that gets a summary
_LINE = 400  # tokens of each side of a turn that the extractor is shown
_ENTITIES = 200


@dataclass(slots=True)
class Entities:
    """Its state: how many turns there were, those whose entities are not extracted yet, and the one before these."""

    turn: int = 0
    waiting: list[StoredTurn] = field(default_factory=list)
    before: str = ""
    entities: list[Entity] = field(default_factory=list)


class EntityMemory:
    """The people, places, organizations and other entities of one conversation, and what the user said of them.

    After each `every` turns, in the background, an `EntityExtractor` (or a model for one) finds what is new, which
    takes the place of what it makes outdated; of whom much is known, an `EntitySummarizer` (by default of the
    same model) keeps a summary. For a question, `recall` chooses in `max_tokens` (estimated, three bytes each): whom
    the question names, then the user, then the most important, by mentions, halved in `half_life` turns
    without one. With a `path` the memory is kept there, a JSON file that is replaced after each turn, and goes on
    from it.

    Raises `UsageError`, and `DataError` for a file that is no such memory.
    """

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
        self.given: dict[str, Any] = {
            "extractor": extractor,
            "summarizer": summarizer,
            "every": every,
            "max_tokens": max_tokens,
        }
        self.given |= {"half_life": half_life, "path": None if path is None else str(path)}
        self._extractor = extractor if isinstance(extractor, EntityExtractor) else EntityExtractor(extractor)
        other = self._extractor.model if summarizer is None else summarizer
        self._summarizer = other if isinstance(other, EntitySummarizer) else EntitySummarizer(other)
        self._every = every
        self._max_tokens = max_tokens
        self._half_life = half_life
        self._kept = StateFile(Entities, path)
        self._settling = False
        self._background = Background("the entity memory", self._is_due, self._catch_up)

    @property
    def entities(self) -> tuple[Entity, ...]:
        """What is known, the most important first."""
        with self._kept.lock:
            state = self._kept.state
            return tuple(sorted(state.entities, key=lambda one: -one.importance(state.turn, self._half_life)))

    async def recall(self, question: str) -> Recalled:
        """What is known of the entities that are worth their space for `question`, a line each."""
        with self._kept.lock:
            state = self._kept.state
            return Recalled(
                facts="\n".join(select(state.entities, question, state.turn, self._half_life, self._max_tokens))
            )

    async def remember(self, question: str, answer: str) -> None:
        """Take note of a turn, and save. Raises `UsageError` if the file cannot be written."""
        with self._kept.lock:
            state = self._kept.state
            state.turn += 1
            state.waiting = [*state.waiting, turn(question, answer)][-_WAITING:]
            for one in state.entities:
                if one.is_in(f"{question} {answer}"):
                    one.mentions, one.last = one.mentions + 1, state.turn
        await run_in_thread(self._kept.save)
        self._background.nudge()

    async def settled_async(self) -> None:
        """Wait until all that was said is extracted, also what `every` would leave waiting, and save it."""
        self._settling = True
        try:
            await self._background.settled_async()
        finally:
            self._settling = False
        await run_in_thread(self._kept.save)

    def settled(self) -> None:
        """`settled_async`, blocking."""
        run_blocking(self.settled_async())

    # ── in the background ────────────────────────────────────────────────────────────────────────

    def _is_due(self) -> bool:
        with self._kept.lock:
            waiting = len(self._kept.state.waiting)
        return waiting >= (1 if self._settling else self._every)

    async def _catch_up(self) -> None:
        """Extract the entities of the turns that are waiting; then compare what is new with what was known, and
        renew the summaries. In this order, because an engine keeps only the last prompt's beginning."""
        while (first := self._first_waiting()) is not None:
            await self._extract(*first)
        for entity in self.entities:
            await self._compare(entity)
        for entity in self.entities:
            if not entity.summary and tokens(entity.line) > _PLAIN:
                await self._summarize(entity)

    def _first_waiting(self) -> tuple[StoredTurn, int] | None:
        """The turn that has waited longest, and its number."""
        with self._kept.lock:
            state = self._kept.state
            return (state.waiting[0], state.turn - len(state.waiting) + 1) if state.waiting else None

    async def _extract(self, said: StoredTurn, number: int) -> None:
        text = transcript([said], _LINE)
        found = await self._extractor.run_async(text, self._kept.state.before)
        with self._kept.lock:
            state = self._kept.state
            state.waiting = [one for one in state.waiting if one is not said]
            state.before = text
            merge(state.entities, found["entities"], number)
            forget(state.entities, _ENTITIES, state.turn, self._half_life)

    async def _compare(self, entity: Entity) -> None:
        for fact in entity.holding:
            for old in [] if fact.compared else entity.doubtful(fact):
                if not await are_consistent(self._extractor.model, old.fact, fact.fact):
                    with self._kept.lock:
                        entity.outdate(old, fact)
            fact.compared = True

    async def _summarize(self, entity: Entity) -> None:
        """Of all facts that hold, not of the former summary: that may have in it what is outdated."""
        with self._kept.lock:
            facts = [one.fact for one in entity.holding]
        given = {"name": entity.name, "kind": entity.kind, "facts": facts}
        found = await self._summarizer.run_async([given])
        with self._kept.lock:
            if facts == [one.fact for one in entity.holding]:
                entity.summary = found["entities"][0]["summary"]
