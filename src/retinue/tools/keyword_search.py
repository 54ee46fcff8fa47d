"""Keyword search with SQLite's FTS5: what a question asks for, and what counts how much."""

from __future__ import annotations

import re

TOKENIZE = "porter unicode61"
TITLE_WEIGHT = 2.0  # of a word in the title; one in the text counts 1
MAX_WORDS = 200  # of a query that are looked for: the others would take longer than they help
_WORD = re.compile(r"\w+")
_STOP_WORDS = frozenset(
    "a an the of in on at to for and or is are was were be been by with from as that this which who whom whose what "
    "when where how did do does has have had it its his her their he she they i you we not also than then s".split()
)


def match_expression(query: str) -> str:
    """The FTS5 expression that finds any word of `query` that tells something; empty if it has no word.

    Each word is quoted and consists of letters and digits, so nothing in `query` is read as FTS5's syntax.
    """
    words = list(dict.fromkeys(word.lower() for word in _WORD.findall(query)))
    words = [word for word in words if word not in _STOP_WORDS] or words
    if len(words) > MAX_WORDS:  # what is asked stands at the beginning of a long text, or at its end
        words = words[: MAX_WORDS // 2] + words[-MAX_WORDS // 2 :]
    return " OR ".join(f'"{word}"' for word in words)


def stems(text: str) -> set[str]:
    """The first six letters of each word that tells something."""
    return {word[:6] for word in _WORD.findall(text.lower()) if word not in _STOP_WORDS}


def storable(text: str) -> str:
    """`text` as SQLite takes it: JSON may hold halves of surrogate pairs."""
    return text.encode("utf-8", "replace").decode("utf-8")
