"""`EntityExtractor`: a component that extracts the entities of a conversation, and what is said about them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypedDict

from .._internal.concurrency import gather_bounded
from .._internal.sync_bridge import run_blocking
from ..core.component import Configurable
from ..core.grammar import Constraint, Pattern, Repeat, choice, json_pattern, seq
from ..core.protocols import Model
from ..models import PromptModel
from ..strategies.prompting.injection_guard import neutralize
from .conversation_turns import cut
from .json_record import ask_for_record, line, record, text
from .known_entities import USER, content, words

KINDS = ("person", "place", "organization", "animal", "event", "other")
ABOUT = ("name", "home", "work", "origin", "relation", "plans", "date", "age", "health", "likes", "other")
_PLAIN_QUESTION = re.compile(r"(?:[^.!?,;:。！？，；：؟]{1,80}[?？؟]\s*)+")  # contains no statements
_NAME_CHARS, _FACT_CHARS, _FACTS = 40, 100, 6
_USERS, _ASSISTANTS = ("user", "human"), ("assistant", "ai")
_SAID, _BEFORE, _TOKENS = 400, 80, 320  # tokens: of what the user says, of the context before, and of a reply


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


class EntityExtractor(Configurable):
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
        self._form = _form()

    async def run_async(self, query: str, before: str = "") -> Extracted:
        """The people, places, organizations and other entities in a conversation's transcript.

        Args:
            query: The transcript: lines of "User: …" and "Assistant: …". Other text is taken as the user's.
            before: What was said before; it only shows who is meant.

        Raises `ModelError`.
        """
        found: dict[str, FoundEntity] = {}
        last = (_pieces(before) or [("", "")])[-1]
        for piece in _pieces(query):
            for row in await self._rows(piece[0], last):
                entity = found.setdefault(row.entity, FoundEntity(name=row.entity, kind=row.kind, facts=[]))
                fact = SaidOf(about=row.about, fact=row.fact)
                if fact not in entity["facts"]:
                    entity["facts"].append(fact)
            last = piece
        return Extracted(entities=list(found.values()))

    def run(self, query: str, before: str = "") -> Extracted:
        """Run `run_async` and block."""
        return run_blocking(self.run_async(query, before))

    async def run_batch_async(self, transcripts: Iterable[str], *, at_once: int = 4) -> list[Extracted]:
        """Call `run_async` for each transcript, at most `at_once` at a time. Results are in the order of the
        transcripts.
        """
        return await gather_bounded(self.run_async, transcripts, at_once)

    def run_batch(self, transcripts: Iterable[str], *, at_once: int = 4) -> list[Extracted]:
        """Run `run_batch_async` and block."""
        return run_blocking(self.run_batch_async(transcripts, at_once=at_once))

    async def _rows(self, said: str, last: tuple[str, str]) -> list[_Row]:
        if _PLAIN_QUESTION.fullmatch(said):
            return []
        said = neutralize(cut(said, _SAID))
        question, answer = (neutralize(cut(text, _BEFORE)) for text in last)
        before = f"User: {question} Assistant: {answer}" if question or answer else ""
        values = await ask_for_record(self.model, _HEAD + _asked(before, f"User: {said}"), self._form, _TOKENS)
        return [row for row in _rows(values) if _is_said(row, said, before)]


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


def _asked(before: str, said: str) -> str:
    return f"Before: {before or '-'}\n{said}\nFacts:"


_HEAD = (
    "Write down what the user says of themselves and of people, places, organizations, animals and events in their "
    "life. Nothing else: [] for questions and small talk. What was said before only shows who is meant.\n\n"
    + "".join(f"{_asked(before, said)} {json.dumps(rows)}\n\n" for before, said, rows in _EXAMPLES)
)


def _form() -> Constraint:
    """Return the constraint: rows, with half the tokens of objects; for engines with JSON Schema only, objects."""
    said = {"entity": text(_NAME_CHARS), "kind": {"enum": KINDS}, "fact": text(_FACT_CHARS), "about": {"enum": ABOUT}}
    cells: list[Pattern | str] = [", "] * 7
    cells[::2] = [json_pattern(schema) for schema in said.values()]
    row = seq("[", *cells, "]")
    rows = choice("[]", seq("[", row, Repeat(seq(", ", row), 0, _FACTS - 1), "]"))
    facts = {"type": "array", "items": record(**{key: {"type": "string"} | one for key, one in said.items()})}
    return Constraint(seq(" ", rows, "\n"), record(facts=facts))


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def _pieces(transcript: str) -> list[tuple[str, str]]:
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


def _rows(values: Iterable[Any]) -> Iterator[_Row]:
    """Yield the valid rows of the model's output."""
    for value in values:
        if isinstance(value, Mapping):
            inner = value.get("facts")
            if isinstance(inner, list):
                yield from _rows(inner)
            else:
                yield from _row([value.get(key) for key in _Row._fields])
        elif isinstance(value, list):
            yield from _rows(value) if value and not isinstance(value[0], str) else _row(value)


def _row(cells: list[Any]) -> Iterator[_Row]:
    if len(cells) == len(_Row._fields) and all(isinstance(cell, str) and cell.strip() for cell in cells):
        entity, kind, fact, about = (line(cell) for cell in cells)
        yield _Row(
            entity[:_NAME_CHARS],
            kind if kind in KINDS else "other",
            fact[:_FACT_CHARS],
            about if about in ABOUT else "other",
        )


def _is_said(row: _Row, said: str, before: str) -> bool:
    """Return whether the user said that: the entity was named, and the fact shares words with the user's text beyond
    the name. Relations of a person may come from the text before.
    """
    named = set(words(row.entity)) - {"s"}
    if not any(word[0].isalpha() for word in named) or not named <= set(words(f"{said} {before} {USER}")):
        return False
    source = f"{said} {before}" if row.about == "relation" and named <= set(words(said)) else said
    return bool((content(row.fact) - content(row.entity)) & content(source))
