"""What a question lays down beside what it asks: `if a perch is 5.03 metres`, `Round to two decimals.`"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from .quantities import NUMBER, written_number

_UNIT = r"((?:square |cubic )?[a-z]+)"
_DEFINITION = re.compile(
    rf"(?:,\s*)?(?:\bif )?\b(?:an?|one) {_UNIT} (?:is|has|equals) (\d[\d,]*(?:\.\d+)?) {_UNIT}\b[,.]?\s*", re.IGNORECASE
)
_ROUND = re.compile(
    r"[\s,(]*\b(?:and )?round(?:ed)?(?: it| the answer)? to"
    r" (?:the nearest (?:whole number|integer)|(\w+) decimals?(?: places?)?)[.)]*",
    re.IGNORECASE,
)
_DIGITS = {"one": 1, "two": 2, "three": 3, "four": 4}
_PLURALS = {"foot": "feet", "inch": "inche"}  # without the s


@dataclass(frozen=True)
class QuestionTerms:
    """The question without its terms; the sizes of units that it lays down, in one of them; decimal places."""

    question: str
    units: Mapping[str, float] = field(default_factory=dict)
    digits: int | None = None

    def rounded(self, value: str) -> str:
        """Return a value whose number has so many decimal places."""
        number = NUMBER.match(value)
        if self.digits is None or number is None:
            return value
        size = round(float(number.group().replace(",", "")), self.digits or None)
        return written_number(size) + value[number.end() :]


def terms_of(question: str) -> QuestionTerms:
    """Separate a question from its terms."""
    units: dict[str, float] = {}
    found = _DEFINITION.search(question)
    if found and (size := float(found.group(2).replace(",", ""))):
        units = _units(found.group(1).lower(), size) | _units(found.group(3).lower(), 1.0)
        question = _capital(f"{question[: found.start()]}{_end(question, found.end())}{question[found.end() :]}")
    digits = None
    if found := _ROUND.search(question):
        digits = _places(found.group(1))
        question = (question[: found.start()] + _end(question, found.end()) + question[found.end() :]).strip()
    return QuestionTerms(question, units, digits)


def _units(name: str, size: float) -> dict[str, float]:
    single = name.removesuffix("s")
    return dict.fromkeys((name, single, _PLURALS.get(single, single)), size)


def _end(question: str, at: int) -> str:
    """Return the question mark that was between the question and its terms, if they came last."""
    return "" if question[at:].strip() else "?" * ("?" not in question[:at])


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _places(word: str | None) -> int:
    if word is None:
        return 0
    return int(word) if word.isdecimal() and len(word) == 1 else _DIGITS.get(word.lower(), 1)
