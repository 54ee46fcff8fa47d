"""Numbers, dates and units as texts state them, and the units and rounding that a question lays down."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from types import MappingProxyType

MONTHS = tuple("january february march april may june july august september october november december".split())
_MONTH = "|".join(MONTHS)
DATE = re.compile(
    rf"\b(?:(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? ({_MONTH}),? (\d{{3,4}})"
    rf"|({_MONTH}) (\d{{1,2}})(?:st|nd|rd|th)?,? (\d{{3,4}})|(\d{{4}})-(\d\d)-(\d\d))\b",
    re.IGNORECASE,
)
YEAR = re.compile(r"(?<![\d,.])[12]\d{3}(?!\d|[.,]\d)")
NUMBER = re.compile(r"(?<![\w.,])-?\d+(?:,\d{3})*(?:\.\d+)?(?!\d|(?:st|nd|rd|th)\b)")
_SCALES: Mapping[str, float] = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
# Each unit's size in the first one of its row.
_MEASURES: tuple[Mapping[str, float], ...] = (
    {
        "metre": 1.0, "meter": 1.0, "m": 1.0, "centimetre": 0.01, "centimeter": 0.01, "cm": 0.01, "millimetre": 0.001,
        "millimeter": 0.001, "mm": 0.001, "kilometre": 1e3, "kilometer": 1e3, "km": 1e3, "mile": 1609.344,
        "yard": 0.9144, "foot": 0.3048, "feet": 0.3048, "ft": 0.3048, "inch": 0.0254, "inche": 0.0254,
    },
    {
        "square metre": 1.0, "square meter": 1.0, "square kilometre": 1e6, "square kilometer": 1e6, "hectare": 1e4,
        "square mile": 2589988.110336, "acre": 4046.8564224, "square foot": 0.09290304, "square feet": 0.09290304,
    },
    {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0, "week": 604800.0},
    {"gram": 1.0, "kilogram": 1e3, "kg": 1e3, "tonne": 1e6, "pound": 453.59237},
    {"litre": 1.0, "liter": 1.0, "millilitre": 1e-3, "milliliter": 1e-3},
)  # fmt: skip
_ALL = tuple(unit for row in _MEASURES for unit in row)
_UNIT = re.compile(rf"[ -]?({'|'.join(sorted(_ALL, key=len, reverse=True))})s?\b", re.IGNORECASE)
_ASKED_UNIT = re.compile(r"\bhow many (?:more |fewer |full |whole )?((?:square |cubic )?\w+)", re.IGNORECASE)
_SCALE = re.compile(rf" ({'|'.join(_SCALES)})\b", re.IGNORECASE)


class Unreadable(Exception):
    """A text has no such number or date, or is no plan, or a step cannot be done; the message says why."""


def find_quantities(text: str) -> list[str]:
    """Return the numbers of a text, each with the scale and unit that follow it: `1.2 million`, `315 centimetres`. Days
    and years of dates are none."""
    found = []
    dates = [one.span() for one in DATE.finditer(text)]
    for number in NUMBER.finditer(text):
        if not any(start <= number.start() < end for start, end in dates):
            end = number.end()
            for follows in (_SCALE, _UNIT):
                match = follows.match(text, end)
                end = match.end() if match else end
            found.append(text[number.start() : end])
    return list(dict.fromkeys(found))


def is_measure_asked(quantity: str, question: str) -> bool:
    """Return whether a quantity may be what is asked for: it has no unit, or one of the kind that is asked for. `How
    many towns` has none."""
    number = NUMBER.match(quantity)
    stated, asked = number and _UNIT.search(quantity, number.end()), _ASKED_UNIT.search(question)
    if not stated or asked is None:
        return True
    wanted = {asked.group(1).lower(), asked.group(1).lower().removesuffix("s")}
    return any(stated.group(1).lower() in row for row in _MEASURES if not wanted.isdisjoint(row))


def number_in(text: str) -> float:
    """Return the first number in a text; of a date, its year. Raises `Unreadable`."""
    if DATE.match(text.strip()):
        return float(parse_date(text).year)
    found = NUMBER.search(text)
    if found is None:
        raise Unreadable(f"there is no number in {text!r}")
    scale = _SCALE.match(text, found.end())
    number = float(found.group().replace(",", "")) * (_SCALES[scale.group(1).lower()] if scale else 1)
    if not math.isfinite(number):
        raise Unreadable(f"{text[:40]!r} is too large a number")
    return number


def parse_date(text: str) -> date:
    """Return the first date in a text. Raises `Unreadable`."""
    found = DATE.search(text)
    if found is None:
        raise Unreadable(f"there is no date in {text!r}")
    parts = found.groups()  # of one of three notations
    day, month, year = (parts[at] for at in ((0, 1, 2) if parts[0] else (4, 3, 5) if parts[3] else (8, 7, 6)))
    try:
        return date(int(year), int(month) if month.isdecimal() else MONTHS.index(month.lower()) + 1, int(day))
    except ValueError as error:
        raise Unreadable(str(error)) from error


def parse_size(text: str) -> float:
    """Return what a text is compared by: its date's day number, or its first number. Raises `Unreadable`."""
    return float(parse_date(text).toordinal()) if DATE.search(text) else number_in(text)


def format_date(when: date) -> str:
    """Return a date as `3 May 1751`."""
    return f"{when.day} {MONTHS[when.month - 1].capitalize()} {when.year}"


def format_number(value: float) -> str:
    """Return a number without a needless fraction."""
    return str(int(value)) if value == int(value) else f"{value:.10g}"


def convert_question(question: str, given: Mapping[str, float]) -> str:
    """Return the question with the other one of two units that it lays down, in which texts will state it."""
    for unit, size in given.items():
        pattern = rf"\b(in|how many) {unit}s?\b"
        other = next((one for one in given if given[one] != size), unit)
        if re.search(pattern, question, re.IGNORECASE):
            return re.sub(pattern, rf"\1 {other}", question, flags=re.IGNORECASE)
    return question


def convert_quantity(value: str, question: str, given: Mapping[str, float] = MappingProxyType({})) -> str:
    """Return a quantity in the unit that the question asks for, if both are known and of one kind; else as it is.

    `given`: the sizes of units in one of them, which the question lays down. A number without a unit is taken to be in
    the other one.
    """
    units = "|".join(sorted((*given, *_ALL), key=len, reverse=True))
    asked, number = re.search(rf"\b(?:in|how many) (({units})s?)\b", question, re.IGNORECASE), NUMBER.match(value)
    if asked is None or number is None:
        return value
    scale = _SCALE.match(value, number.end())
    stated = re.compile(rf"[ -]?({units})s?\b", re.IGNORECASE).match(value, scale.end() if scale else number.end())
    want = asked.group(2).lower()
    if stated is None and given.get(want) is None:
        return value
    have = stated.group(1).lower() if stated else next((unit for unit in given if given[unit] != given[want]), want)
    row = next((one for one in (given, *_MEASURES) if have in one and want in one), None)
    if row is None or row[have] == row[want]:
        return value
    return f"{format_number(number_in(value) * row[have] / row[want])} {asked.group(1)}"


# ── what a question lays down ─────────────────────────────────────────────────────────────────────

_UNIT_NAME = r"((?:square |cubic )?[a-z]+)"
_DEFINITION = re.compile(
    rf"(?:,\s*)?(?:\bif )?\b(?:an?|one) {_UNIT_NAME} (?:is|has|equals) (\d[\d,]*(?:\.\d+)?) {_UNIT_NAME}\b[,.]?\s*",
    re.IGNORECASE,
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

    def round_value(self, value: str) -> str:
        """Return a value whose number has so many decimal places."""
        number = NUMBER.match(value)
        if self.digits is None or number is None:
            return value
        size = round(float(number.group().replace(",", "")), self.digits or None)
        return format_number(size) + value[number.end() :]


def separate_terms(question: str) -> QuestionTerms:
    """Separate a question from its terms."""

    def cut_out(term: re.Match[str]) -> str:  # a question mark before a term that comes last is kept
        before, after = question[: term.start()], question[term.end() :]
        return f"{before}{'' if after.strip() or '?' in before + term.group() else '?'}{after}"

    units: dict[str, float] = {}
    found = _DEFINITION.search(question)
    if found and (size := float(found.group(2).replace(",", ""))):
        for name, value in ((found.group(1).lower(), size), (found.group(3).lower(), 1.0)):
            single = name.removesuffix("s")
            units |= dict.fromkeys((name, single, _PLURALS.get(single, single)), value)
        question = cut_out(found)
        question = question[:1].upper() + question[1:]
    digits = None
    if found := _ROUND.search(question):
        places = found.group(1) or "0"
        digits = int(places) if places.isdecimal() and len(places) == 1 else _DIGITS.get(places.lower(), 1)
        question = cut_out(found).strip()
    return QuestionTerms(question, units, digits)
