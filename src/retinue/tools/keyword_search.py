"""Queries and weights for keyword search with SQLite's FTS5."""

from __future__ import annotations

import re

TOKENIZE = "porter unicode61"
TITLE_WEIGHT = 2.0  # weight of a word in the title; one in the text has 1
MAX_WORDS = 200  # words of a query that are searched; more would cost time without improving the result
_WORD = re.compile(r"\w+")
_STOP_WORDS = frozenset(
    "a an the of in on at to for and or is are was were be been by with from as that this which who whom whose what "
    "when where how did do does has have had it its his her their he she they i you we not also than then s".split()
)


def match_expression(query: str) -> str:
    """Return the FTS5 expression that matches any significant word of `query`; empty if there is none.

    Each word is quoted and consists of letters and digits, so nothing in `query` is interpreted as FTS5 syntax.
    """
    words = list(dict.fromkeys(word.lower() for word in _WORD.findall(query)))
    words = [word for word in words if word not in _STOP_WORDS] or words
    if len(words) > MAX_WORDS:  # in a long text, the question is at the beginning or at the end
        words = words[: MAX_WORDS // 2] + words[-MAX_WORDS // 2 :]
    return " OR ".join(f'"{word}"' for word in words)


def stem_words(text: str) -> set[str]:
    """Return the first six letters of each significant word."""
    return {word[:6] for word in _WORD.findall(text.lower()) if word not in _STOP_WORDS}


def make_storable(text: str) -> str:
    """Make `text` valid for SQLite: JSON may contain lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8")
