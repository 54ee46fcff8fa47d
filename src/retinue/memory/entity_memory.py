"""`EntityMemory`: the entities of a conversation."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from .._internal.concurrency import run_in_thread
from .._internal.sync_bridge import run_blocking
from ..core.protocols import Model, Recalled
from ..errors import UsageError
from .background_work import Background
from .contradiction import are_consistent
from .conversation_turns import newest, not_done, tokens, transcript, turn
from .entity_extractor import EntityExtractor
from .entity_summarizer import EntitySummarizer
from .known_entities import Entity, forget, merge, select
from .state_file import StateFile, StoredTurn, dump_state, load_state

_WAITING = 50  # turns that may wait for extraction if the model keeps failing
_PLAIN = 60  # tokens of facts about an entity, above which it gets a summary
_LINE = 400  # tokens of each side of a turn that the extractor is shown
_ENTITIES = 200


@dataclass(slots=True)
class Entities:
    """The state: number of turns, turns that are not yet extracted, and the one before these."""

    turn: int = 0
    waiting: list[StoredTurn] = field(default_factory=list)
    before: str = ""
    entities: list[Entity] = field(default_factory=list)


class EntityMemory:
    """The people, places, organizations and other entities of one conversation, and what the user said of them.

    After each `every` turns, an `EntityExtractor` (or a model for one) extracts new facts in the background, which
    replace those they outdate. If much is known of an entity, an `EntitySummarizer` (by default with the same model)
    keeps a summary. `recall` selects entities for a question within `max_tokens` (estimated at three bytes each): those
    that the question names, then the user, then by importance, which is the number of mentions, halved in `half_life`
    turns without one. `path` is a JSON file, replaced after each turn, from which the memory continues.

    Raises `UsageError`, and `DataError` for a file that is not such a memory.
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
        self._keep(StateFile(Entities, path))

    def _keep(self, kept: StateFile[Entities]) -> None:
        self._kept = kept
        self._settling = False
        self._background = Background("the entity memory", self.is_due, self.catch_up)

    def with_state(self, text: str | None) -> Self:
        """Return a memory like this one with the state that `dump` returned, or a new one, in this process only. Raises
        `DataError`."""
        state = None if text is None else load_state(Entities, text, "the state")
        other = copy.copy(self)
        other._keep(StateFile(Entities, None, state))
        return other

    def dump(self) -> str:
        """Return the state as JSON."""
        return self._kept.dump()

    @property
    def entities(self) -> tuple[Entity, ...]:
        """The known entities, most important first."""
        with self._kept.lock:
            state = self._kept.state
            return tuple(sorted(state.entities, key=lambda one: -one.importance(state.turn, self._half_life)))

    async def recall(self, question: str) -> Recalled:
        """Return the facts about the entities most relevant to `question`, one line each."""
        with self._kept.lock:
            state = self._kept.state
            return Recalled(
                facts="\n".join(select(state.entities, question, state.turn, self._half_life, self._max_tokens))
            )

    async def remember(self, question: str, answer: str) -> None:
        """Add a turn and save. Raises `UsageError` if the file cannot be written."""
        self.note(question, answer)
        await run_in_thread(self._kept.save)
        self._background.nudge()

    def note(self, question: str, answer: str) -> None:
        """Add a turn, without saving."""
        with self._kept.lock:
            state = self._kept.state
            state.turn += 1
            state.waiting = [*state.waiting, turn(question, answer)][-_WAITING:]
            for one in state.entities:
                if one.is_in(f"{question} {answer}"):
                    one.mentions, one.last = one.mentions + 1, state.turn

    def shrink(self, most: int) -> None:
        """Drop the oldest waiting turns that are more than `most` tokens together, and the least important entities
        that are, without saving."""
        with self._kept.lock:
            state = self._kept.state
            state.waiting = newest(state.waiting, most)
            forget(state.entities, _ENTITIES, state.turn, self._half_life, most)

    def rebase(self, began: str, now: str) -> Self | None:
        """Return a memory with what this one has caught up with since its state was `began`, and the turns that have
        come to it since, in `now`. `None` if another has caught up with the same."""
        before, after = (load_state(Entities, text, "the state") for text in (began, now))
        if before.before != after.before:
            return None
        own = self._kept.state
        left = not_done(before.waiting, own.waiting, after.waiting)
        return self.with_state(dump_state(Entities(after.turn, left, own.before, own.entities)))

    async def settled_async(self) -> None:
        """Wait until all turns are extracted, including those that `every` would delay, and save."""
        self._settling = True
        try:
            await self._background.settled_async()
        finally:
            self._settling = False
        await run_in_thread(self._kept.save)

    def settled(self) -> None:
        """Run `settled_async` and block."""
        run_blocking(self.settled_async())

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
        while (first := self._first_waiting()) is not None:
            await self._extract(*first)
        for entity in self.entities:
            await self._compare(entity)
        for entity in self.entities:
            if not entity.summary and tokens(entity.line) > _PLAIN:
                await self._summarize(entity)

    def _first_waiting(self) -> tuple[StoredTurn, int] | None:
        """Return the turn that has waited longest, and its number."""
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
