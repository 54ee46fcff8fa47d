"""What a value is of its subject, in words such as `the date of her birth`, beside what a question asks for."""

from __future__ import annotations

import re
from collections.abc import Iterable

_BIRTH, _DEATH = {"born", "birth", "birthplace"}, {"die", "died", "death", "dead"}
# Words of one relation that do not begin alike; no two of these relations are the same.
_RIVALS = (
    _BIRTH,
    _DEATH,
    {"high", "height", "tall"},
    {"long", "length", "duration"},
    {"wide", "width", "breadth"},
    {"deep", "depth"},
)
_FAMILIES = (
    *_RIVALS,
    {"elevation", "altitude", "above"},
    {"duration", "last", "lasts", "take", "takes"},
    {"area", "square", "surface"},
    {"population", "inhabitants", "residents", "people"},
)
_GENERAL = frozenset(
    "a an and are at by date day did do does first for from had has have he her his how in is it its many much name "
    "number of on she that the their to was were what when where which who whose with year".split()
)
_WORD = re.compile(r"[^\W\d_]+")
KIND_ASKED = re.compile(r"\b(?:which|what) (\w{3,})", re.IGNORECASE)
_ALIKE = 4  # letters that two words of one relation begin with, unless one of them is shorter
_SHORTEST = 3


def is_relation_asked(relation: str, question: str) -> bool | None:
    """Return whether a question asks for a relation, as far as their words tell; `None` if they do not."""
    asked, said = set(_words(question)), set(_words(relation))
    known, found = _families(asked), _families(said)
    if known & found:
        return True
    if known and found and max(known | found) < len(_RIVALS):
        return False
    asked -= {kind.lower() for kind in KIND_ASKED.findall(question)}
    return True if any(_alike(one, other) for one in asked for other in said) else None


def has_known_relation(question: str) -> bool:
    """Return whether a word of the question tells relations apart."""
    return bool(_families(_words(question)))


def is_of_another_event(text: str, question: str) -> bool:
    """Return whether a text is on a birth where the question asks of a death, or on a death where it asks of a birth or
    an age."""
    said, asked = set(_words(text)), set(_words(question))
    if asked & _DEATH:
        return bool(said & _BIRTH) and not said & _DEATH
    return bool(asked & (_BIRTH | {"old"}) and said & _DEATH)


def words_shared(text: str, question: str) -> int:
    """Return how many words of the question are in a text, those of no meaning of their own apart."""
    said = set(_words(text))
    return sum(any(_alike(one, other) for other in said) for one in set(_words(question)))


def _families(words: Iterable[str]) -> set[int]:
    return {number for number, family in enumerate(_FAMILIES) if not family.isdisjoint(words)}


def _words(text: str) -> list[str]:
    """Return the words in small letters that say something, and the first one."""
    words = (word for at, word in enumerate(_WORD.findall(text)) if at == 0 or word.islower())
    return [word.lower() for word in words if word.lower() not in _GENERAL]


def _alike(one: str, other: str) -> bool:
    least = min(len(one), len(other), _ALIKE)
    return least >= _SHORTEST and one[:least] == other[:least]
