"""A question split into steps: as text, and the steps that need neither model nor tool."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from .descriptions import names_asked
from .quantities import DATE, Unreadable, date_in, number_in, size_in, written_date, written_number
from .relations import is_of_another_event

KINDS = ("find", "each", "compute", "years", "days", "date", "most", "least", "latest", "earliest", "count", "judge")
MOST = 8  # steps of a plan
_REF = re.compile(r"#(\d)")
_BETWEEN = "; "  # between the results of a step for each of several


@dataclass(frozen=True, slots=True)
class QuestionStep:
    """A step: its kind, and what it says after the colon."""

    kind: str
    text: str

    @property
    def uses(self) -> tuple[int, ...]:
        """The steps that it uses, by number, from 1."""
        return tuple(int(found) for found in _REF.findall(self.text))


def read_steps(text: str) -> tuple[QuestionStep, ...]:
    """Parse the steps, the last of which is the answer. Raises `Unreadable`."""
    steps: list[QuestionStep] = []
    for row in text.splitlines():
        kind, colon, said = row.strip().partition(":")
        kind = kind.strip().lower()
        if not colon or kind not in KINDS or not said.strip():
            continue
        step = QuestionStep(kind, said.strip())
        if any(not 1 <= used <= len(steps) for used in step.uses):
            raise Unreadable(f"{row.strip()!r} uses a step that is not there yet")
        steps.append(step)
    if not steps:
        raise Unreadable("there are no steps")
    return tuple(steps)


def is_sound(steps: Sequence[QuestionStep], question: str) -> bool:
    """Return whether a plan has all names of its question, uses each step but the last, has none twice, and none on
    something else, such as a birth for a death."""
    text = "\n".join(step.text for step in steps)
    used = {number for step in steps for number in step.uses}
    return (
        all(name in text for name in names_asked(question))
        and used >= set(range(1, len(steps)))
        and len(set(steps)) == len(steps)
        and not is_of_another_event(text, question)
    )


def is_list(number: int, steps: Sequence[QuestionStep]) -> bool:
    """Return whether a step finds a list: what a later one does for each of several, or counts."""
    return any(
        step.kind == "each" or (step.kind == "count" and len(step.uses) == 1) for step in steps if number in step.uses
    )


def filled(text: str, values: Sequence[str]) -> str:
    """Put what steps found in the place of their numbers; `#1` is left where there is no such step."""

    def value(found: re.Match[str]) -> str:
        number = int(found.group(1))
        return values[number - 1] if 1 <= number <= len(values) else found.group()

    return _REF.sub(value, text)


def expression(text: str, values: Sequence[str]) -> str:
    """The same for arithmetic: of each value its number, of several their sum. Raises `Unreadable` if one has none."""
    return _REF.sub(lambda found: _summed(values[int(found.group(1)) - 1]), text)


def worked_out(step: QuestionStep, values: Sequence[str]) -> str:
    """Return the result of a step on dates, of a comparison or of a count. Raises `Unreadable`."""
    if not step.uses:
        raise Unreadable(f"{step.text!r} uses no step")
    first = values[step.uses[0] - 1]
    match step.kind:
        case "years":
            return str(_years(first, values[step.uses[-1] - 1]))
        case "days":
            return str(abs((date_in(values[step.uses[-1] - 1]) - date_in(first)).days))
        case "date":
            return _moved(step, first)
        case "most" | "least" | "latest" | "earliest":
            return _extreme(step, values)
        case "count":
            return str(_count(step, values))
    raise Unreadable(f"{step.kind} is not worked out")


def parts_of(text: str) -> list[str]:
    """Return the members of a list: `A, B and C`; only those with a capital letter, if any has one."""
    parts = [one.strip() for one in re.split(r",\s*(?:and\s+)?|\s+and\s+", text) if one.strip()]
    return [one for one in parts if not one.islower()] or parts


def joined(results: Sequence[str]) -> str:
    """Return the results of a step for each of several as one value."""
    return _BETWEEN.join(results)


def _summed(value: str) -> str:
    sizes = [written_number(number_in(part)) for part in value.split(_BETWEEN)]
    return sizes[0] if len(sizes) == 1 else f"({' + '.join(sizes)})"


def _years(start: str, end: str) -> int:
    if not (DATE.search(start) and DATE.search(end)):
        return int(abs(number_in(end) - number_in(start)))
    one, other = sorted((date_in(start), date_in(end)))
    return other.year - one.year - ((other.month, other.day) < (one.month, one.day))


def _moved(step: QuestionStep, start: str) -> str:
    found = re.search(r"([+-])\s*(\d+)\s*$", step.text)
    if found is None:
        raise Unreadable(f"{step.text!r} says no number of days")
    try:
        return written_date(date_in(start) + timedelta(days=int(found.group(1) + found.group(2))))
    except (OverflowError, ValueError) as error:
        raise Unreadable(str(error)) from error


def _extreme(step: QuestionStep, values: Sequence[str]) -> str:
    named = re.findall(r"#(\d)\s+([^,]+)", step.text)
    if not named:
        raise Unreadable(f"{step.text!r} names nothing")
    sized = [(size_in(values[int(ref) - 1]), filled(name, values).strip()) for ref, name in named]
    return (max if step.kind in ("most", "latest") else min)(sized, key=lambda one: one[0])[1]


def _count(step: QuestionStep, values: Sequence[str]) -> int:
    limit = re.search(r"([<>])\s*([\d,.]+)", step.text)
    held = [part for used in dict.fromkeys(step.uses) for part in _held(values[used - 1], sized=limit is not None)]
    if limit is None:
        return len(held)
    most = number_in(limit.group(2))
    sizes = [_compared(part, most) for part in held]
    return sum(size > most if limit.group(1) == ">" else size < most for size in sizes)


def _held(value: str, *, sized: bool) -> list[str]:
    return value.split(_BETWEEN) if sized or _BETWEEN in value else parts_of(value)


def _compared(text: str, limit: float) -> float:
    """Return the size of a value: of a date the year, if the limit seems to be one."""
    return number_in(text) if 1000 <= limit <= 2100 else size_in(text)
