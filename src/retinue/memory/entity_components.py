"""Components that read and write about entities: `EntityExtractor` finds them in a conversation, with what is said of
them; `EntitySummarizer` puts what is known of each into a sentence or two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from string import Template
from typing import Any, NamedTuple, TypedDict

from .._internal.sync_bridge import run_blocking
from ..core.component import Component
from ..core.protocols import Model
from ..core.schema.patterns import Constraint, Repeat, build_json_pattern, choice, seq
from ..errors import UsageError
from ..models import PromptModel
from ..strategies.prompting.injection_guard import neutralize
from .stored_memory import (
    ask_for_summary,
    ask_for_values,
    build_record_schema,
    build_summary_constraint,
    build_text_schema,
    clean_line,
    cut,
    read_prompt,
)

USER = "User"
KINDS = ("person", "place", "organization", "animal", "event", "other")
ABOUT = ("name", "home", "work", "origin", "relation", "plans", "date", "age", "health", "likes", "other")
_PLAIN_QUESTION = re.compile(r"(?:[^.!?,;:。！？，；：؟]{1,80}[?？؟]\s*)+")  # contains no statements
_NAME_CHARS, _FACT_CHARS, _FACTS = 40, 100, 6
_USERS, _ASSISTANTS = ("user", "human"), ("assistant", "ai")
_SAID, _BEFORE, _TOKENS = 400, 80, 320  # tokens: of what the user says, of the context before, and of a reply
_BEGINNINGS = ("the", "he", "she", "it", "they", "his", "her", "its", "their")  # of sentences
_NAMES = re.compile(r"[A-Z]\w*|\d+")
_WORD = re.compile(r"\w+")
_SMALL = frozenset(
    "a an and are as at be by for from has have he her his i in is it its my now of on or she so that the their they "
    "this to was were who will with user users s currently".split()
)


class EntityOutputs(TypedDict):
    """The outputs of both components, by entity: `name`, `kind` (one of `KINDS`), and either `summary` or `facts`, each
    `{"about", "fact"}`, where `about` is one of `ABOUT`. Whoever talks to the assistant is called User."""

    entities: list[dict[str, Any]]


class EntityExtractor(Component):
    """Extracts entities from a conversation's transcript, with what the user says of them.

    `model` is a `Model` or a name that `PromptModel` accepts. The format is constrained if the engine supports it, so a
    small model suffices. It is asked once for each of the user's messages, except plain questions; earlier text only
    resolves references. So an assistant's findings do not become facts, and facts without any of the user's words are
    dropped as made up.
    """

    output_variable = "entities"

    def __init__(self, model: Model | str = "local", *, name: str = "EntityExtractor") -> None:
        self.name = name
        self.model: Model = PromptModel(model) if isinstance(model, str) else model

    async def run_async(self, query: str, before: str = "") -> EntityOutputs:
        """The people, places, organizations and other entities in a conversation's transcript.

        Args:
            query: The transcript: lines of "User: …" and "Assistant: …". Other text is taken as the user's.
            before: What was said before; it only shows who is meant.

        Raises `ModelError`.
        """
        found: dict[str, dict[str, Any]] = {}
        last = (_split_messages(before) or [("", "")])[-1]
        for piece in _split_messages(query):
            for row in [] if _PLAIN_QUESTION.fullmatch(piece[0]) else await self._extract_rows(piece[0], last):
                entity = found.setdefault(row.entity, {"name": row.entity, "kind": row.kind, "facts": []})
                fact = {"about": row.about, "fact": row.fact}
                if fact not in entity["facts"]:
                    entity["facts"].append(fact)
            last = piece
        return {"entities": list(found.values())}

    def run(self, query: str, before: str = "") -> EntityOutputs:
        """Run `run_async` and block."""
        return run_blocking(self.run_async(query, before))

    async def _extract_rows(self, said: str, last: tuple[str, str]) -> list[_Row]:
        said = neutralize(cut(said, _SAID))
        question, answer = (neutralize(cut(text, _BEFORE)) for text in last)
        before = f"User: {question} Assistant: {answer}" if question or answer else ""
        prompt = _EXTRACTION.substitute(before=before or "-", said=f"User: {said}")
        values = await ask_for_values(self.model, prompt, _ROWS, _TOKENS)
        return [row for row in _read_rows(values) if _is_stated(row, said, before)]


# ── what the model is shown, and what it may write ───────────────────────────────────────────────


class _Row(NamedTuple):
    entity: str
    kind: str
    fact: str
    about: str


_EXTRACTION = Template(read_prompt("entity_extraction"))
_CELLS: dict[str, dict[str, Any]] = {
    "entity": build_text_schema(_NAME_CHARS),
    "kind": {"enum": KINDS},
    "fact": build_text_schema(_FACT_CHARS),
    "about": {"enum": ABOUT},
}
_ROW = seq("[", *[part for one in _CELLS.values() for part in (", ", build_json_pattern(one))][1:], "]")
_ROWS = Constraint(  # rows take half the tokens of objects, which are for engines with JSON Schema only
    seq(" ", choice("[]", seq("[", _ROW, Repeat(seq(", ", _ROW), 0, _FACTS - 1), "]")), "\n"),
    build_record_schema(
        facts={
            "type": "array",
            "items": build_record_schema(**{key: {"type": "string"} | one for key, one in _CELLS.items()}),
        }
    ),
)


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def split_words(text: str) -> list[str]:
    """Return the words in lower case."""
    return _WORD.findall(text.casefold())


def select_content_words(text: str) -> frozenset[str]:
    """Return the significant words, approximately stemmed."""
    return frozenset(word[:5] for word in split_words(text) if word not in _SMALL)


def _split_messages(transcript: str) -> list[tuple[str, str]]:
    """Return each of the user's messages with the text before it."""
    pieces: list[tuple[str, str]] = []
    for spoken in transcript.splitlines():
        speaker, colon, said = (part.strip() for part in spoken.partition(":"))
        if colon and speaker.casefold() in _ASSISTANTS:
            question, answer = pieces.pop() if pieces else ("", "")
            pieces.append((question, f"{answer} {said}".strip()))
        elif colon and speaker.casefold() in _USERS:
            pieces.append((said, ""))
        elif spoken.strip():
            question, answer = pieces.pop() if pieces and not pieces[-1][1] else ("", "")
            pieces.append((f"{question} {spoken.strip()}".strip(), answer))
    return pieces


def _read_rows(values: Iterable[Any]) -> Iterator[_Row]:
    """Yield the valid rows of the model's output."""
    for value in values:
        if isinstance(value, Mapping) and isinstance(inner := value.get("facts"), list):
            yield from _read_rows(inner)
        elif isinstance(value, list) and value and not isinstance(value[0], str):
            yield from _read_rows(value)
        else:
            cells = [value.get(key) for key in _Row._fields] if isinstance(value, Mapping) else value
            if not isinstance(cells, list) or len(cells) != len(_Row._fields):
                continue
            if all(isinstance(cell, str) and cell.strip() for cell in cells):
                entity, kind, fact, about = map(clean_line, cells)
                kind, about = kind if kind in KINDS else "other", about if about in ABOUT else "other"
                yield _Row(entity[:_NAME_CHARS], kind, fact[:_FACT_CHARS], about)


def _is_stated(row: _Row, said: str, before: str) -> bool:
    """Return whether the user said that: the entity was named, and the fact shares words with the user's text beyond
    the name. Relations of a person may come from the text before.
    """
    named = set(split_words(row.entity)) - {"s"}
    if not any(word[0].isalpha() for word in named) or not named <= set(split_words(f"{said} {before} {USER}")):
        return False
    source = f"{said} {before}" if row.about == "relation" and named <= set(split_words(said)) else said
    return bool((select_content_words(row.fact) - select_content_words(row.entity)) & select_content_words(source))


_SUMMARY = Template(read_prompt("entity_summary"))


class EntitySummarizer(Component):
    """Summarizes entities: merges known and new facts into a summary of at most `characters`.

    `model` is a `Model` or a name that `PromptModel` accepts. In a pipeline it follows an `EntityExtractor`. A summary
    with a name or a number that its sources do not contain is rejected in favor of the facts themselves.
    """

    output_variable = "entities"

    def __init__(self, model: Model | str = "local", *, characters: int = 300, name: str = "EntitySummarizer") -> None:
        if characters < 40:
            raise UsageError(f"{name}: characters must be at least 40, not {characters}")
        self.name = name
        self._model: Model = PromptModel(model) if isinstance(model, str) else model
        self._characters = characters
        self._form = build_summary_constraint(characters)

    async def run_async(self, entities: Sequence[Mapping[str, Any]] | str) -> EntityOutputs:
        """A summary of each entity, from what is known of it.

        Args:
            entities: Each with `name`, `kind`, `facts` (texts, or `{"about", "fact"}`), and maybe `summary`,
                what was known before. A text is taken as facts of one entity, a line each.

        Raises `ModelError`.
        """
        if isinstance(entities, str):
            entities = [{"facts": [fact for fact in entities.splitlines() if fact.strip()]}]
        return {"entities": [await self._write_summary(entity) for entity in entities]}

    def run(self, entities: Sequence[Mapping[str, Any]] | str) -> EntityOutputs:
        """Run `run_async` and block."""
        return run_blocking(self.run_async(entities))

    async def _write_summary(self, entity: Mapping[str, Any]) -> dict[str, Any]:
        name, kind = (clean_line(entity.get(key, "")) for key in ("name", "kind"))
        given = (one["fact"] if isinstance(one, Mapping) else one for one in entity.get("facts", ()))
        facts = [neutralize(clean_line(one)) for one in given]
        known = neutralize(clean_line(entity.get("summary", "")))
        who = f"{name} ({kind})" if kind else name or "(no name)"
        prompt = _SUMMARY.substitute(who=who, known=known or "-", new="; ".join(facts) or "-")
        said = await ask_for_summary(self._model, prompt, self._form, self._characters // 2 + 20)
        there = {*split_words(" ".join([name, kind, known, *facts])), *_BEGINNINGS}
        if not said or any(word.casefold() not in there for word in _NAMES.findall(said)):
            said = "; ".join([*([known] if known else []), *facts])
        return {"name": name, "kind": kind, "summary": said[: self._characters]}
