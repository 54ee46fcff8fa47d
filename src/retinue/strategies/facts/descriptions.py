"""Descriptions of persons and things that a question does not name: `the author of The Marble Chapel`."""

from __future__ import annotations

import re
from itertools import pairwise

from ...core.grammar import Constraint, choice, seq

NONE = "none"
_CAPITALISED = re.compile(r"[A-Z][\w'’-]*")
_WITHIN = (" ", " of ", " of the ", " de ", ". ")  # between the words of a name; `. ` after an initial
_SENTENCE = re.compile(r"[.!?;:]\s+")
_WORD = re.compile(r"\S+")
_DETERMINERS = {"the", "a", "an", "his", "her", "its", "their"}
_ASKS = re.compile(r"(?:who|what|which)(?: \w+){0,2} (?:is|was|are|were)", re.IGNORECASE)
Span = tuple[int, int]


def names_in(text: str) -> list[str]:
    """Return the names in a text: runs of words with capital letters, but no single word that only begins sentences."""
    begins = {0, *(found.end() for found in _SENTENCE.finditer(text))}
    found: dict[str, bool] = {}
    for start, end in _name_spans(text):
        name = text[start:end]
        found[name] = found.get(name, False) or start not in begins or " " in name
    return [name for name, sure in found.items() if sure]


def names_asked(question: str) -> list[str]:
    """Return the names in a question. The first word of a sentence, such as `Were`, belongs to none."""
    return names_in(_without_capitals(question))


def _without_capitals(question: str) -> str:
    begins = {0, *(found.end() for found in _SENTENCE.finditer(question))}
    return "".join(letter.lower() if at in begins else letter for at, letter in enumerate(question))


def _name_spans(text: str) -> list[Span]:
    spans: list[Span] = []
    for word in _CAPITALISED.finditer(text):
        between = text[spans[-1][1] : word.start()] if spans else ""
        initial = between == ". " and text[spans[-1][1] - 1].isupper()
        if between in _WITHIN and (between != ". " or initial):
            spans[-1] = (spans[-1][0], word.end())
        else:
            spans.append(word.span())
    return spans


def descriptions(question: str) -> list[str]:
    """Return what may be the innermost description in a question: the ends differ.

    It begins with the last `the` or its like before the first name, if a word in small letters follows, and holds that
    name. What the question asks for as a whole is none. (In languages other than English there are none: such questions
    are read whole.)
    """
    body = question.rstrip("?.! ")
    names = _name_spans(_without_capitals(body))
    words = [found.span() for found in _WORD.finditer(body)]
    starts = [
        start
        for (start, end), (after, _) in pairwise(words)
        if names and after < names[0][0] and body[start:end] in _DETERMINERS
    ]
    if not starts or _ASKS.fullmatch(body[: starts[-1]].strip(" ,")):
        return []
    ends = [end for _, end in words if end >= names[0][1] and not any(first < end < last for first, last in names)]
    return list(dict.fromkeys(body[starts[-1] : end].rstrip(",:;") for end in ends))


def described_shape(options: list[str]) -> Constraint:
    """Return the constraint of a reply that is one of the descriptions, or `none`."""
    pattern = seq(" ", choice(NONE, *options), "\n")
    return Constraint(pattern, {"type": "object", "properties": {"described": {"enum": [NONE, *options]}}})


def named(question: str, described: str, name: str) -> str:
    """Put the name in the place of what is described. Words after the last name in the description stay, since they may
    be the question's own: `In which town did [the author of The Marble Chapel] die?`"""
    last = _name_spans(described)[-1][1]
    return question.replace(described[:last], name)
