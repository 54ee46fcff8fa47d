"""`EntitySummarizer`: a component that summarizes what is known of an entity in a sentence or two."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from .._internal.concurrency import gather_bounded
from .._internal.sync_bridge import run_blocking
from ..core.component import Configurable
from ..core.grammar import Constraint, json_pattern, seq
from ..core.protocols import Model
from ..errors import UsageError
from ..models import PromptModel
from ..strategies.prompting.injection_guard import neutralize
from .json_record import ask_for_record, line, record, text
from .known_entities import words

_CHARS = 300
_BEGINNINGS = ("the", "he", "she", "it", "they", "his", "her", "its", "their")  # of sentences
_NAMES = re.compile(r"[A-Z]\w*|\d+")


class Summary(TypedDict):
    """The new summary of an entity."""

    name: str
    kind: str
    summary: str


class Summarized(TypedDict):
    """The outputs of a summarizer."""

    entities: list[Summary]


class EntitySummarizer(Configurable):
    """Summarizes entities: merges known and new facts into a summary of at most `characters`.

    `model` is a `Model` or a name that `PromptModel` accepts. In a pipeline it follows an `EntityExtractor`. A summary
    with a name or a number that its sources do not contain is rejected in favor of the facts themselves.
    """

    output_variable = "entities"

    def __init__(
        self, model: Model | str = "local", *, characters: int = _CHARS, name: str = "EntitySummarizer"
    ) -> None:
        if characters < 40:
            raise UsageError(f"{name}: characters must be at least 40, not {characters}")
        self.name = name
        self._model: Model = PromptModel(model) if isinstance(model, str) else model
        self._characters = characters
        schema = record(summary=text(characters))
        self._form = Constraint(seq(" ", json_pattern(schema, characters), "\n"), schema)

    async def run_async(self, entities: Sequence[Mapping[str, Any]] | str) -> Summarized:
        """A summary of each entity, from what is known of it.

        Args:
            entities: Each with `name`, `kind`, `facts` (texts, or `{"about", "fact"}`), and maybe `summary`,
                what was known before. A text is taken as facts of one entity, a line each.

        Raises `ModelError`.
        """
        given = _of_text(entities) if isinstance(entities, str) else entities
        return Summarized(entities=[await self._summary(entity) for entity in given])

    def run(self, entities: Sequence[Mapping[str, Any]] | str) -> Summarized:
        """Run `run_async` and block."""
        return run_blocking(self.run_async(entities))

    async def run_batch_async(
        self, batch: Iterable[Sequence[Mapping[str, Any]] | str], *, at_once: int = 4
    ) -> list[Summarized]:
        """Call `run_async` for each item of `batch`, at most `at_once` at a time. Results are in the order of the
        batch.
        """
        return await gather_bounded(self.run_async, batch, at_once)

    def run_batch(self, batch: Iterable[Sequence[Mapping[str, Any]] | str], *, at_once: int = 4) -> list[Summarized]:
        """Run `run_batch_async` and block."""
        return run_blocking(self.run_batch_async(batch, at_once=at_once))

    async def _summary(self, entity: Mapping[str, Any]) -> Summary:
        name, kind = (line(entity.get(key, "")) for key in ("name", "kind"))
        facts = [neutralize(line(one["fact"] if isinstance(one, Mapping) else one)) for one in entity.get("facts", ())]
        known = neutralize(line(entity.get("summary", "")))
        prompt = f"{_HEAD}{_asked(name, kind, known, facts)}"
        values = await ask_for_record(self._model, prompt, self._form, self._characters // 2 + 20)
        said = next((line(one["summary"]) for one in values if isinstance(one, dict) and "summary" in one), "")
        if not said or _invents(said, " ".join([name, kind, known, *facts])):
            said = "; ".join([*([known] if known else []), *facts])
        return Summary(name=name, kind=kind, summary=said[: self._characters])


def _invents(summary: str, source: str) -> bool:
    """Return whether the summary contains a name or a number that its sources do not."""
    there = {*words(source), *_BEGINNINGS}
    return any(word.casefold() not in there for word in _NAMES.findall(summary))


def _of_text(text: str) -> list[dict[str, Any]]:
    return [{"name": "", "kind": "", "facts": [fact for fact in text.splitlines() if fact.strip()]}]


# ── what the model is shown ──────────────────────────────────────────────────────────────────────


def _asked(name: str, kind: str, known: str, facts: Iterable[str]) -> str:
    who = f"{name} ({kind})" if kind else name or "(no name)"
    return f"About: {who}\nKnown: {known or '-'}\nNew: {'; '.join(facts) or '-'}\nSummary:"


_HEAD = (
    "Put what is known of somebody or something and what is new into one short summary. Keep names, places and "
    "numbers. Where the new says otherwise, leave the old out. Add nothing.\n\n"
    + _asked(
        "Greta", "person", "Greta, the User's aunt, lives in Oslo and loves sailing.", ["moved to Bergen", "is 60"]
    )
    + ' {"summary": "Greta, the User\'s aunt, is 60, lives in Bergen and loves sailing."}\n\n'
    + _asked("User", "person", "", ["is a baker in Rome", "has two cats", "flies to Paris on Friday"])
    + ' {"summary": "The User is a baker in Rome, has two cats and flies to Paris on Friday."}\n\n'
)
