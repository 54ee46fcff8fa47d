"""Components that read and write about entities: `EntityExtractor` finds them in a conversation, with what is said of
them; `EntitySummarizer` puts what is known of each into a sentence or two.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

from .._internal.sync_bridge import run_blocking
from ..core.component import Component
from ..core.protocols import Model
from ..core.schema.patterns import Constraint, Pattern, Repeat, build_json_pattern, choice, seq
from ..errors import UsageError
from ..models import PromptModel
from ..strategies.prompting.injection_guard import neutralize
from .conversation_turns import cut
from .json_record import ask_for_record, build_text_schema, clean_line, record
from .known_entities import USER, select_content_words, split_words

KINDS = ("person", "place", "organization", "animal", "event", "other")
ABOUT = ("name", "home", "work", "origin", "relation", "plans", "date", "age", "health", "likes", "other")
_PLAIN_QUESTION = re.compile(r"(?:[^.!?,;:。！？，；：؟]{1,80}[?？؟]\s*)+")  # contains no statements
_NAME_CHARS, _FACT_CHARS, _FACTS = 40, 100, 6
_USERS, _ASSISTANTS = ("user", "human"), ("assistant", "ai")
_SAID, _BEFORE, _TOKENS = 400, 80, 320  # tokens: of what the user says, of the context before, and of a reply
_CHARS = 300
_BEGINNINGS = ("the", "he", "she", "it", "they", "his", "her", "its", "their")  # of sentences
_NAMES = re.compile(r"[A-Z]\w*|\d+")


class SaidOf(TypedDict):
    """A statement about an entity: `about` is one of `ABOUT`."""

    about: str
    fact: str


class FoundEntity(TypedDict):
    """An entity of a conversation; its kind is one of `KINDS`, and whoever talks to the assistant is called User."""

    name: str
    kind: str
    facts: list[SaidOf]


class Extracted(TypedDict):
    """The outputs of an extractor."""

    entities: list[FoundEntity]


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
        self._form = _make_constraint()

    async def run_async(self, query: str, before: str = "") -> Extracted:
        """The people, places, organizations and other entities in a conversation's transcript.

        Args:
            query: The transcript: lines of "User: …" and "Assistant: …". Other text is taken as the user's.
            before: What was said before; it only shows who is meant.

        Raises `ModelError`.
        """
        found: dict[str, FoundEntity] = {}
        last = (_split_messages(before) or [("", "")])[-1]
        for piece in _split_messages(query):
            for row in await self._extract_rows(piece[0], last):
                entity = found.setdefault(row.entity, FoundEntity(name=row.entity, kind=row.kind, facts=[]))
                fact = SaidOf(about=row.about, fact=row.fact)
                if fact not in entity["facts"]:
                    entity["facts"].append(fact)
            last = piece
        return Extracted(entities=list(found.values()))

    def run(self, query: str, before: str = "") -> Extracted:
        """Run `run_async` and block."""
        return run_blocking(self.run_async(query, before))

    async def _extract_rows(self, said: str, last: tuple[str, str]) -> list[_Row]:
        if _PLAIN_QUESTION.fullmatch(said):
            return []
        said = neutralize(cut(said, _SAID))
        question, answer = (neutralize(cut(text, _BEFORE)) for text in last)
        before = f"User: {question} Assistant: {answer}" if question or answer else ""
        values = await ask_for_record(
            self.model, _EXTRACTION_HEAD + _write_question(before, f"User: {said}"), self._form, _TOKENS
        )
        return [row for row in _read_rows(values) if _is_stated(row, said, before)]


# ── what the model is shown, and what it may write ───────────────────────────────────────────────


class _Row(NamedTuple):
    entity: str
    kind: str
    fact: str
    about: str


_EXAMPLES = (
    (
        "",
        "User: Good evening, Paul here, writing from a flat in Lima. My aunt Greta collects stamps.",
        (
            _Row(USER, "person", "is called Paul", "name"),
            _Row(USER, "person", "writes from a flat in Lima", "home"),
            _Row("Greta", "person", "is the User's aunt", "relation"),
            _Row("Greta", "person", "collects stamps", "likes"),
        ),
    ),
    (
        "User: Greta showed me her stamps. Assistant: How kind of her.",
        "User: Why is the sky blue? And what does 'ad hoc' mean?",
        (),
    ),
    (
        "User: Which bakeries are there in Oslo? Assistant: Samson, for one.",
        "User: Greta has settled in Oslo and bakes bread there. On Friday I am going to sing at a wedding.",
        (
            _Row("Greta", "person", "has settled in Oslo", "home"),
            _Row("Greta", "person", "bakes bread at Samson in Oslo", "work"),
            _Row(USER, "person", "is going to sing at a wedding on Friday", "plans"),
        ),
    ),
    (
        "User: And is there a bus on Friday? Assistant: Every hour.",
        "User: Was Cleopatra a Greek? And how tall do giraffes grow?",
        (),
    ),
    (
        "User: There is a mare in our stable, Luna. Assistant: A sweet name.",
        "User: She is nearly nine and hates thunder.",
        (_Row("Luna", "animal", "is nearly nine", "age"), _Row("Luna", "animal", "hates thunder", "likes")),
    ),
    (
        "User: I was at the market. Assistant: What did you buy?",
        "User: Only cheese. My cousin Ben grew up in Ghent and paints ships. I sleep badly.",
        (
            _Row("Ben", "person", "is the User's cousin", "relation"),
            _Row("Ben", "person", "grew up in Ghent", "origin"),
            _Row("Ben", "person", "paints ships", "other"),
            _Row(USER, "person", "sleeps badly", "health"),
        ),
    ),
    (
        "User: I rent a room in Quito. Assistant: How is it there?",
        "User: Translate 'good night' into Greek. And which herbs go with lamb?",
        (),
    ),
)


def _write_question(before: str, said: str) -> str:
    return f"Before: {before or '-'}\n{said}\nFacts:"


_EXTRACTION_HEAD = (
    "Write down what the user says of themselves and of people, places, organizations, animals and events in their "
    "life. Nothing else: [] for questions and small talk. What was said before only shows who is meant.\n\n"
    + "".join(f"{_write_question(before, said)} {json.dumps(rows)}\n\n" for before, said, rows in _EXAMPLES)
)


def _make_constraint() -> Constraint:
    """Return the constraint: rows, with half the tokens of objects; for engines with JSON Schema only, objects."""
    said = {
        "entity": build_text_schema(_NAME_CHARS),
        "kind": {"enum": KINDS},
        "fact": build_text_schema(_FACT_CHARS),
        "about": {"enum": ABOUT},
    }
    cells: list[Pattern | str] = [", "] * 7
    cells[::2] = [build_json_pattern(schema) for schema in said.values()]
    row = seq("[", *cells, "]")
    rows = choice("[]", seq("[", row, Repeat(seq(", ", row), 0, _FACTS - 1), "]"))
    facts = {"type": "array", "items": record(**{key: {"type": "string"} | one for key, one in said.items()})}
    return Constraint(seq(" ", rows, "\n"), record(facts=facts))


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


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
        if isinstance(value, Mapping):
            inner = value.get("facts")
            if isinstance(inner, list):
                yield from _read_rows(inner)
            else:
                yield from _read_row([value.get(key) for key in _Row._fields])
        elif isinstance(value, list):
            yield from _read_rows(value) if value and not isinstance(value[0], str) else _read_row(value)


def _read_row(cells: list[Any]) -> Iterator[_Row]:
    if len(cells) == len(_Row._fields) and all(isinstance(cell, str) and cell.strip() for cell in cells):
        entity, kind, fact, about = (clean_line(cell) for cell in cells)
        yield _Row(
            entity[:_NAME_CHARS],
            kind if kind in KINDS else "other",
            fact[:_FACT_CHARS],
            about if about in ABOUT else "other",
        )


def _is_stated(row: _Row, said: str, before: str) -> bool:
    """Return whether the user said that: the entity was named, and the fact shares words with the user's text beyond
    the name. Relations of a person may come from the text before.
    """
    named = set(split_words(row.entity)) - {"s"}
    if not any(word[0].isalpha() for word in named) or not named <= set(split_words(f"{said} {before} {USER}")):
        return False
    source = f"{said} {before}" if row.about == "relation" and named <= set(split_words(said)) else said
    return bool((select_content_words(row.fact) - select_content_words(row.entity)) & select_content_words(source))


class Summary(TypedDict):
    """The new summary of an entity."""

    name: str
    kind: str
    summary: str


class Summarized(TypedDict):
    """The outputs of a summarizer."""

    entities: list[Summary]


class EntitySummarizer(Component):
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
        schema = record(summary=build_text_schema(characters))
        self._form = Constraint(seq(" ", build_json_pattern(schema, characters), "\n"), schema)

    async def run_async(self, entities: Sequence[Mapping[str, Any]] | str) -> Summarized:
        """A summary of each entity, from what is known of it.

        Args:
            entities: Each with `name`, `kind`, `facts` (texts, or `{"about", "fact"}`), and maybe `summary`,
                what was known before. A text is taken as facts of one entity, a line each.

        Raises `ModelError`.
        """
        given = _parse_facts(entities) if isinstance(entities, str) else entities
        return Summarized(entities=[await self._write_summary(entity) for entity in given])

    def run(self, entities: Sequence[Mapping[str, Any]] | str) -> Summarized:
        """Run `run_async` and block."""
        return run_blocking(self.run_async(entities))

    async def _write_summary(self, entity: Mapping[str, Any]) -> Summary:
        name, kind = (clean_line(entity.get(key, "")) for key in ("name", "kind"))
        facts = [
            neutralize(clean_line(one["fact"] if isinstance(one, Mapping) else one)) for one in entity.get("facts", ())
        ]
        known = neutralize(clean_line(entity.get("summary", "")))
        prompt = f"{_SUMMARY_HEAD}{_write_request(name, kind, known, facts)}"
        values = await ask_for_record(self._model, prompt, self._form, self._characters // 2 + 20)
        said = next((clean_line(one["summary"]) for one in values if isinstance(one, dict) and "summary" in one), "")
        if not said or _is_invented(said, " ".join([name, kind, known, *facts])):
            said = "; ".join([*([known] if known else []), *facts])
        return Summary(name=name, kind=kind, summary=said[: self._characters])


def _is_invented(summary: str, source: str) -> bool:
    """Return whether the summary contains a name or a number that its sources do not."""
    there = {*split_words(source), *_BEGINNINGS}
    return any(word.casefold() not in there for word in _NAMES.findall(summary))


def _parse_facts(text: str) -> list[dict[str, Any]]:
    return [{"name": "", "kind": "", "facts": [fact for fact in text.splitlines() if fact.strip()]}]


# ── what the model is shown ──────────────────────────────────────────────────────────────────────


def _write_request(name: str, kind: str, known: str, facts: Iterable[str]) -> str:
    who = f"{name} ({kind})" if kind else name or "(no name)"
    return f"About: {who}\nKnown: {known or '-'}\nNew: {'; '.join(facts) or '-'}\nSummary:"


_SUMMARY_HEAD = (
    "Put what is known of somebody or something and what is new into one short summary. Keep names, places and "
    "numbers. Where the new says otherwise, leave the old out. Add nothing.\n\n"
    + _write_request(
        "Greta", "person", "Greta, the User's aunt, lives in Oslo and loves sailing.", ["moved to Bergen", "is 60"]
    )
    + ' {"summary": "Greta, the User\'s aunt, is 60, lives in Bergen and loves sailing."}\n\n'
    + _write_request("User", "person", "", ["is a baker in Rome", "has two cats", "flies to Paris on Friday"])
    + ' {"summary": "The User is a baker in Rome, has two cats and flies to Paris on Friday."}\n\n'
)
