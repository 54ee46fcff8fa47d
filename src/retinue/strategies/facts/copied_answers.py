"""Answers copied from a passage: the pattern of what occurs in it and may answer a question."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ...core.grammar import Constraint, Pattern, choice, seq
from ...core.grammar.patterns import Repeat, Text
from .descriptions import names_in
from .quantities import DATE, MONTHS, YEAR, quantities

NOT_STATED = "not stated"
LONGEST = 9  # words of a copied answer
LONGEST_LIST = 30
_SENTENCE = re.compile(r"(?<=[.!?;])\s+")
_WORD = re.compile(r"\S+")
_ASKS_NAME = re.compile(r"^(?:who|whom|whose)\b|\b(?:by|of|to) whom\b", re.IGNORECASE)
_KIND = re.compile(r"\b(?:which|what) (\w{3,})", re.IGNORECASE)
_ASKS_DATE = re.compile(r"\b(?:what|which) (?:date|day)\b|\bdate\b|^when\b", re.IGNORECASE)
_ASKS_YEAR = re.compile(r"\byear\b", re.IGNORECASE)
_ASKS_NUMBER = re.compile(
    r"\bhow (?:many|much|long|high|tall|wide|deep|large|big|old|far|heavy|fast)\b|^(?:by )?what\b.*\b(?:number"
    r"|population|area|length|height|width|depth|elevation|price|cost|weight|size|speed|percentage|percent)\b",
    re.IGNORECASE | re.MULTILINE,
)


def asks_for(question: str) -> str:
    """Return what a question asks for: a "date", a "year", a "number", a "name", or "words"."""
    question = _SENTENCE.sub("\n", question)
    if _ASKS_YEAR.search(question):
        return "year"
    if _ASKS_DATE.search(question):
        return "date"
    if _ASKS_NUMBER.search(question):
        return "number"
    return "name" if _ASKS_NAME.search(question) else "words"


def is_of_kind(value: str, passage: str, question: str) -> bool:
    """Return whether the sentence that states a value has the word that says what is asked for: `which river`."""
    kind = _KIND.search(question)
    if kind is None or asks_for(question) not in ("words", "name"):
        return True
    said = next((one for one in _SENTENCE.split(passage) if value in one), "")
    return kind.group(1).lower() in said.lower()


def copied_shape(passage: str, question: str, kind: str, longest: int = LONGEST) -> Constraint | None:
    """Return the constraint of an answer of that kind that is copied from `passage`, or says that it is not there;
    `None` if nothing of the kind is that `question` does not name itself."""
    options: list[Pattern]
    match kind:
        case "year":
            options = _texts(YEAR.findall(passage))
        case "date":
            dates = [found.group() for found in DATE.finditer(passage)]
            options = _texts(dates or YEAR.findall(passage))
        case "number":
            options = _texts(quantities(passage))
        case "name":
            options = _texts(one for one in _names(passage) if one not in question and one.lower() not in MONTHS)
            options = options or _runs(passage, longest)
        case _:
            options = _runs(passage, longest)
    if not options:
        return None
    pattern = seq(" ", choice(NOT_STATED, *options), "\n")
    return Constraint(pattern, {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]})


def _names(passage: str) -> Iterator[str]:
    """Yield the names, and also the parts of those such as `Pell Works of Upper Orr`."""
    for name in names_in(passage):
        yield name
        if len(parts := name.split(" of ")) > 1:
            yield from parts


def _texts(options: Iterable[str]) -> list[Pattern]:
    return [Text(one) for one in dict.fromkeys(options)]


def _runs(text: str, longest: int) -> list[Pattern]:
    """Return the runs of words, without the punctuation around them."""
    runs: dict[str, Pattern] = {}
    for sentence in _SENTENCE.split(text):
        words = [found.group() for found in _WORD.finditer(sentence)]
        for at in range(len(words)):
            run = words[at : at + longest]
            if run[0].strip("\"'().,"):
                runs.setdefault(" ".join(run), _run(run))
    return list(runs.values())


def _run(words: list[str]) -> Pattern:
    """Match a word, or more that follow it; the last one ends without a comma or full stop."""
    pattern: Pattern = Text(_bare(words[-1]))
    for word in reversed(words[:-1]):
        bare = _bare(word)
        rest = word[len(bare) :] if word.startswith(bare) else ""
        pattern = seq(bare, Repeat(seq(f"{rest} ", pattern), 0, 1))
    return pattern


def _bare(word: str) -> str:
    return word.rstrip('.,;:!?)"').lstrip('("') or word
