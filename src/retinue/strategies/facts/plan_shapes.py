"""The patterns of plans: which steps a question may be split into, as far as its words tell."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...core.grammar import Chars, Constraint, Pattern, Repeat, choice, line, optional, seq
from .copied_answers import asks_for
from .descriptions import TOGETHER, in_words, names_asked
from .quantities import YEAR
from .question_steps import MOST, QuestionStep
from .sub_prompts import one_field

_PLAIN = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
_CONSTANTS = ("1", "2", "10", "60", "100", "1000")
_COMPARES = ("most", "least", "latest", "earliest")
_COMPARED = 2  # names at least in a question that compares
_CALCULATES = re.compile(
    r"\d|\b(?:percent|percentage|average|per|total|sum|together|combined|than|after|before|between|difference|times"
    r"|ratio|half|twice|double|each|divided|multiplied|raised|plus|minus)\b",
    re.IGNORECASE,
)
_SHARES = re.compile(r"\b(?:per|average)\b", re.IGNORECASE)
_OF_HUNDRED = re.compile(r"\bpercent(?:age)?\b", re.IGNORECASE)
_LIMITS = {
    "<": re.compile(r"\b(?:before|earlier|fewer|less|under|below|shorter|smaller|lower|younger)\b", re.IGNORECASE),
    ">": re.compile(r"\b(?:after|since|later|more|over|above|longer|larger|greater|higher|older)\b", re.IGNORECASE),
}
_PERCENT = re.compile(r"\bby how many percent\b", re.IGNORECASE)
_APART_FROM = re.compile(r"\b(?:than|difference)\b", re.IGNORECASE)
_CONTRASTS = re.compile(
    r"\b(?:same|different|both|either|neither|or|than|older|younger|earlier|later|more|less|fewer)\b",
    re.IGNORECASE,
)
_MOVED = re.compile(r"What date (?:is|was) (\d+) days (after|before) (?!the day\b)(.+)\?")
_THAN = re.compile(r" than.*", re.DOTALL)
_POSITIVE = {
    "older": "old", "younger": "old", "larger": "large", "bigger": "large", "smaller": "large", "greater": "great",
    "higher": "high", "lower": "high", "taller": "tall", "longer": "long", "shorter": "long", "deeper": "deep",
    "wider": "wide", "heavier": "heavy", "lighter": "heavy", "faster": "fast", "slower": "fast",
}  # fmt: skip
_COMPARATIVE = re.compile(rf"\b({'|'.join(_POSITIVE)})\b|(?:more|fewer|less) ")
_APART = r".*\b(?:after|before|older|younger|between|passed|later|earlier)\b"
_SPANS = (
    ("years", re.compile(rf"\bhow old\b|\bhow many years\b{_APART}", re.IGNORECASE)),
    ("days", re.compile(rf"\bhow many days\b{_APART}", re.IGNORECASE)),
)
# Of limited length, so that no question takes long to be read.
_AGED = r"How old(?:, [^,?]{1,40},)? (?:is|was|were) (.{1,160}?)"
_AGED_WHEN = re.compile(
    rf"{_AGED} (?:on the day |at the time |in the year )?when (.{{1,80}}?) (was|were) (.{{1,160}})\?"
)
_AGED_AT = re.compile(rf"{_AGED} (?:on the day|at the time|in the year) of (?:its|his|her|their|the) (.{{1,160}})\?")
_PRONOUNS = ("it", "he", "she", "they")
_BEGINS = ("born", "built", "founded", "opened", "made", "written")  # with which an age begins
_DATED = ("On what date", "In which year", "When")
_MEASURED = ("How", "What is the")
_ASKED_OF_ONE = (*_MEASURED, *_DATED, "Where", "Who", "Of which", "In which", "What", "Is", "Was", "Does", "Did")
_QUESTION = seq(line(160, but=":?"), optional(seq("?")))


def steps_shape(question: str) -> Constraint | None:
    """Return the constraint for a plan: one fact to find; or several, and an operation on them.

    The operation gives what the question asks for, and has no numbers but the question's. `None` if there is no such
    operation, so that the question is a fact to find.
    """
    operations = _operations(question, few=len(names_asked(question)) < _COMPARED)
    if not operations:
        return None
    said = seq(_QUESTION, "\n")
    last = seq(choice(*operations), "\n")
    if _span(question):
        dated = seq("find: ", choice(*_DATED), " ", said)
        return one_field("steps", _aged(question) or seq(dated, dated, last))
    if _SHARES.search(question) and not _numbers(question):
        return one_field("steps", seq("find: ", said, "find: ", said, "compute: ", choice("#1 / #2", "#2 / #1"), "\n"))
    if asks_for(question) not in ("date", "year"):  # those move one date or year
        more = seq("find: ", said)
        more = more if _OF_HUNDRED.search(question) else choice(more, seq("each: ", said))
        last = seq(Repeat(more, 0, MOST - 2), last)
    return one_field("steps", seq("find: ", said, optional(last), "\n"))


def _aged(question: str) -> Pattern | None:
    """Return the plan for `How old was the builder of A when it was opened?`, but for what the age begins with."""
    name = next(iter(names_asked(question)), "")
    if found := _AGED_WHEN.fullmatch(question):
        aged, what, verb, happened = found.groups()
        then = f"{verb} {name if what in _PRONOUNS else what} {happened}"
    elif found := _AGED_AT.fullmatch(question):
        aged, event = found.groups()
        then = f"was the {event}" if " of " in event else f"was the {event} of {name}"
    else:
        return None
    born = seq("find: On what date was ", aged, " ", choice(*_BEGINS), "?\n")
    return seq(born, f"find: On what date {then}?\nyears: #1 to #2\n")


def moved_date(question: str) -> tuple[QuestionStep, ...]:
    """Return the plan for `What date was 9 days after the launch of A?`, which needs no model; no steps for others."""
    found = _MOVED.fullmatch(question)
    if found is None:
        return ()
    days, joint, event = found.groups()
    sign = "-" if joint == "before" else "+"
    return QuestionStep("find", f"On what date was {event}?"), QuestionStep("date", f"#1 {sign} {days}")


def first_shape(question: str, names: Sequence[str]) -> Constraint:
    """Return the constraint for a fact to find of the first of the names; a number or date if a number is asked for."""
    words = Repeat(Chars("^\\r\\n:#?,A-Z"), 0, 80)
    begun = choice(*_beginnings(question))
    return one_field("steps", seq("find: ", begun, words, " ", in_words(question, names)[0], words, "?\n"))


def of_each(first: str, question: str, names: Sequence[str]) -> list[str]:
    """Return the step that finds a fact of the first of the names, without a comparison with another one: `How much
    larger is A than B?`, and the same step for the others."""
    asked = in_words(question, names)
    found = _THAN.sub("?", first)
    if found != first:
        found = _COMPARATIVE.sub(lambda word: _POSITIVE.get(word[1], ""), found)
    return [found.replace(asked[0], one) for one in asked]


def _beginnings(question: str) -> tuple[str, ...]:
    if _span(question):
        return _DATED
    if asks_for(question) != "number":
        return _ASKED_OF_ONE
    return (*_MEASURED, *_DATED) if YEAR.search(question) else _MEASURED


def last_shape(question: str, names: Sequence[str]) -> Constraint:
    """Return the constraint for the operation on a fact of each of the names, which steps before it have found."""
    refs = [f"#{number}" for number in range(1, len(names) + 1)]
    said = ", ".join(f"{ref} {name}" for ref, name in zip(refs, in_words(question, names), strict=True))
    options: Sequence[str | Pattern]
    asked = asks_for(question)
    if asked == "truth":
        options = [f"judge: {question}"]
    elif asked != "number":
        options = [f"judge: {question}", *(f"{kind}: {said}" for kind in _COMPARES)]
    elif len(names) == _COMPARED:
        options = _of_two(question) or _operations(question, few=False)
    else:
        signs = _signs(question)
        counted = [f"count: {', '.join(refs)} {sign} {limit}" for limit in _numbers(question) for sign in signs]
        options = counted or [f"compute: {' + '.join(refs)}", f"judge: {question}"]
    return one_field("steps", seq(choice(*options), "\n"))


def _of_two(question: str) -> list[str | Pattern]:
    """Return the arithmetic on two facts that a question asks for in plain words."""
    if _span(question):
        return []
    if _PERCENT.search(question):
        return ["compute: (#1 - #2) / #2 * 100"]
    if _APART_FROM.search(question):
        return ["compute: abs(#1 - #2)"]
    return ["compute: #1 + #2"] if TOGETHER.search(question) else []


def counted_shape() -> Constraint:
    """Return the constraint for a plan that finds a list and counts it."""
    return one_field("steps", seq("find: ", _QUESTION, "\ncount: #1\n"))


def _span(question: str) -> str:
    return next((kind for kind, asks in _SPANS if asks.search(question)), "")


def _numbers(question: str) -> list[str]:
    return list(dict.fromkeys(_PLAIN.findall(question)))


def _operations(question: str, *, few: bool) -> list[Pattern]:
    """Return the operations that give what a question asks for; none if it seems to be a fact to find."""
    asked, numbers = asks_for(question), _numbers(question)
    ref = seq("#", Chars("1-9"))
    if asked == "truth":
        return [seq("judge: ", line(160, but=":"))] if not few and _CONTRASTS.search(question) else []
    if asked in ("words", "name"):
        named = seq(ref, " ", choice(ref, line(60, but="#,:")))
        compare = seq(choice(*(f"{kind}: " for kind in _COMPARES)), named, Repeat(seq(", ", named), 1, 5))
        return [compare, seq("judge: ", line(160, but=":"))] if not few and _CONTRASTS.search(question) else []
    if asked != "number":
        moved = [seq("date: ", ref, choice(" + ", " - "), choice(*numbers))] if numbers else []
        return moved if asked == "date" else [_computed(ref, numbers)] if numbers else []
    if span := _span(question):
        return [seq(f"{span}: ", ref, " to ", ref)]
    if not _CALCULATES.search(question):
        return []
    counted = seq("count: ", ref, Repeat(seq(", ", ref), 0, 5))
    if _OF_HUNDRED.search(question):
        return [_computed(ref, numbers)]
    limited = [seq(counted, " ", choice(*_signs(question)), " ", choice(*numbers))] if numbers else []
    return [_computed(ref, numbers), *limited, counted, seq("judge: ", line(160, but=":"))]


def _signs(question: str) -> str:
    """Return the sign of the limit that a question sets, or both if its words do not tell."""
    found = "".join(sign for sign, words in _LIMITS.items() if words.search(question))
    return found or "<>"


def _computed(ref: Pattern, numbers: Sequence[str]) -> Pattern:
    atom = choice(ref, *dict.fromkeys((*numbers, *_CONSTANTS)))
    parts = choice(atom, *"()", " + ", " - ", " * ", " / ", " ^ ", ", ")
    return seq("compute: ", optional(seq("round")), Repeat(parts, 1, 20))
