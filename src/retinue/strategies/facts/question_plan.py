"""A question split into steps: the plan as text, the steps that need neither model nor tool, the patterns of plans that
the question's words allow, and the plan that a model writes."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

from ...core.schema.patterns import Chars, Constraint, Pattern, Repeat, choice, line, optional, seq
from ..wrappers.wrapper import Part
from .descriptions import TOGETHER, describe_request, find_asked_names, find_listed_names
from .fact_finder import find_asked_kind, find_plain_words, is_of_another_event
from .quantities import DATE, YEAR, Unreadable, format_date, format_number, number_in, parse_date, parse_size
from .sub_prompts import NarrowRun, build_field_constraint, fill_sub_prompt

KINDS = ("find", "each", "compute", "years", "days", "date", "most", "least", "latest", "earliest", "count", "judge")
MOST = 8  # steps of a plan
_REF = re.compile(r"#(\d)")
BETWEEN = "; "  # between the results of a step for each of several


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
        all(name in text for name in find_asked_names(question))
        and used >= set(range(1, len(steps)))
        and len(set(steps)) == len(steps)
        and not is_of_another_event(text, question)
    )


def is_list(number: int, steps: Sequence[QuestionStep]) -> bool:
    """Return whether a step finds a list: what a later one does for each of several, or counts."""
    return any(
        step.kind == "each" or (step.kind == "count" and len(step.uses) == 1) for step in steps if number in step.uses
    )


def fill_references(text: str, values: Sequence[str]) -> str:
    """Put what steps found in the place of their numbers; `#1` is left where there is no such step."""
    known = {str(number): value for number, value in enumerate(values, 1)}
    return _REF.sub(lambda found: known.get(found.group(1), found.group()), text)


def fill_expression(text: str, values: Sequence[str]) -> str:
    """The same for arithmetic: of each value its number, of several their sum. Raises `Unreadable` if one has none."""

    def sum_value(found: re.Match[str]) -> str:
        sizes = [format_number(number_in(part)) for part in values[int(found.group(1)) - 1].split(BETWEEN)]
        return sizes[0] if len(sizes) == 1 else f"({' + '.join(sizes)})"

    return _REF.sub(sum_value, text)


def calculate_step(step: QuestionStep, values: Sequence[str]) -> str:
    """Return the result of a step on dates, of a comparison or of a count. Raises `Unreadable`."""
    if not step.uses:
        raise Unreadable(f"{step.text!r} uses no step")
    first, last = values[step.uses[0] - 1], values[step.uses[-1] - 1]
    match step.kind:
        case "years":
            if not (DATE.search(first) and DATE.search(last)):
                return str(int(abs(number_in(last) - number_in(first))))
            one, other = sorted((parse_date(first), parse_date(last)))
            return str(other.year - one.year - ((other.month, other.day) < (one.month, one.day)))
        case "days":
            return str(abs((parse_date(last) - parse_date(first)).days))
        case "date":
            return _move_date(step, first)
        case "most" | "least" | "latest" | "earliest":
            named = re.findall(r"#(\d)\s+([^,]+)", step.text)
            if not named:
                raise Unreadable(f"{step.text!r} names nothing")
            sized = [(parse_size(values[int(ref) - 1]), fill_references(name, values).strip()) for ref, name in named]
            return (max if step.kind in ("most", "latest") else min)(sized, key=lambda pair: pair[0])[1]
        case "count":
            return str(_count_items(step, values))
    raise Unreadable(f"{step.kind} is not worked out")


def _move_date(step: QuestionStep, start: str) -> str:
    found = re.search(r"([+-])\s*(\d+)\s*$", step.text)
    if found is None:
        raise Unreadable(f"{step.text!r} says no number of days")
    try:
        return format_date(parse_date(start) + timedelta(days=int(found.group(1) + found.group(2))))
    except (OverflowError, ValueError) as error:
        raise Unreadable(str(error)) from error


def _count_items(step: QuestionStep, values: Sequence[str]) -> int:
    limit = re.search(r"([<>])\s*([\d,.]+)", step.text)
    used = [values[number - 1] for number in dict.fromkeys(step.uses)]
    held = [part for one in used for part in (one.split(BETWEEN) if limit or BETWEEN in one else split_list(one))]
    if limit is None:
        return len(held)
    most = number_in(limit.group(2))
    sizes = [number_in(part) if 1000 <= most <= 2100 else parse_size(part) for part in held]  # a limit such as a year
    return sum(size > most if limit.group(1) == ">" else size < most for size in sizes)


def split_list(text: str) -> list[str]:
    """Return the members of a list: `A, B and C`; only those with a capital letter, if any has one."""
    parts = [one.strip() for one in re.split(r",\s*(?:and\s+)?|\s+and\s+", text) if one.strip()]
    return [one for one in parts if not one.islower()] or parts


# ── the patterns of plans ─────────────────────────────────────────────────────────────────────────

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
_TWO_TERMS = (
    (re.compile(r"\bby how many percent\b", re.IGNORECASE), "(#1 - #2) / #2 * 100"),
    (re.compile(r"\b(?:than|difference)\b", re.IGNORECASE), "abs(#1 - #2)"),
    (TOGETHER, "#1 + #2"),
)
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


def build_plan_constraint(question: str) -> Constraint | None:
    """Return the constraint for a plan: one fact to find; or several, and an operation on them.

    The operation gives what the question asks for, and has no numbers but the question's. `None` if there is no such
    operation, so that the question is a fact to find.
    """
    operations = _list_operations(question, few=len(find_asked_names(question)) < _COMPARED)
    if not operations:
        return None
    said = seq(_QUESTION, "\n")
    last = seq(choice(*operations), "\n")
    if _find_asked_span(question):
        dated = seq("find: ", choice(*_DATED), " ", said)
        return build_field_constraint("steps", _build_age_pattern(question) or seq(dated, dated, last))
    if _SHARES.search(question) and not _find_numbers(question):
        return build_field_constraint(
            "steps", seq("find: ", said, "find: ", said, "compute: ", choice("#1 / #2", "#2 / #1"), "\n")
        )
    if find_asked_kind(question) not in ("date", "year"):  # those move one date or year
        more = seq("find: ", said)
        more = more if _OF_HUNDRED.search(question) else choice(more, seq("each: ", said))
        last = seq(Repeat(more, 0, MOST - 2), last)
    return build_field_constraint("steps", seq("find: ", said, optional(last), "\n"))


def _build_age_pattern(question: str) -> Pattern | None:
    """Return the plan for `How old was the builder of A when it was opened?`, but for what the age begins with."""
    name = next(iter(find_asked_names(question)), "")
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


def build_first_step_constraint(question: str, names: Sequence[str]) -> Constraint:
    """Return the constraint for a fact to find of the first of the names; a number or date if a number is asked for."""
    begins: tuple[str, ...] = _ASKED_OF_ONE
    if _find_asked_span(question):
        begins = _DATED
    elif find_asked_kind(question) == "number":
        begins = (*_MEASURED, *_DATED) if YEAR.search(question) else _MEASURED
    words = Repeat(Chars("^\\r\\n:#?,A-Z"), 0, 80)
    name = describe_request(question, names)[0]
    return build_field_constraint("steps", seq("find: ", choice(*begins), words, " ", name, words, "?\n"))


def repeat_step(first: str, question: str, names: Sequence[str]) -> list[str]:
    """Return the step that finds a fact of the first of the names, without a comparison with another one: `How much
    larger is A than B?`, and the same step for the others."""
    asked = describe_request(question, names)
    found = _THAN.sub("?", first)
    if found != first:
        found = _COMPARATIVE.sub(lambda word: _POSITIVE.get(word[1], ""), found)
    return [found.replace(asked[0], one) for one in asked]


def build_last_step_constraint(question: str, names: Sequence[str]) -> Constraint:
    """Return the constraint for the operation on a fact of each of the names, which steps before it have found."""
    refs = [f"#{number}" for number in range(1, len(names) + 1)]
    options: Sequence[str | Pattern] = [f"judge: {question}"]
    asked = find_asked_kind(question)
    if asked not in ("truth", "number"):
        said = ", ".join(f"{ref} {name}" for ref, name in zip(refs, describe_request(question, names), strict=True))
        options = [*options, *(f"{kind}: {said}" for kind in _COMPARES)]
    elif asked == "number" and len(names) != _COMPARED:
        signs, counted = _find_limit_signs(question), f"count: {', '.join(refs)}"
        limited = [f"{counted} {sign} {limit}" for limit in _find_numbers(question) for sign in signs]
        options = limited or [f"compute: {' + '.join(refs)}", *options]
    elif asked == "number":
        # the arithmetic on two facts that a question asks for in plain words
        plain = () if _find_asked_span(question) else _TWO_TERMS
        known: Sequence[str | Pattern] = [f"compute: {text}" for words, text in plain if words.search(question)][:1]
        options = known or _list_operations(question, few=False)
    return build_field_constraint("steps", seq(choice(*options), "\n"))


def _find_asked_span(question: str) -> str:
    return next((kind for kind, asks in _SPANS if asks.search(question)), "")


def _find_numbers(question: str) -> list[str]:
    return list(dict.fromkeys(_PLAIN.findall(question)))


def _list_operations(question: str, *, few: bool) -> list[Pattern]:
    """Return the operations that give what a question asks for; none if it seems to be a fact to find."""
    asked, numbers = find_asked_kind(question), _find_numbers(question)
    ref, judge = seq("#", Chars("1-9")), seq("judge: ", line(160, but=":"))
    if asked in ("truth", "words", "name"):
        if few or not _CONTRASTS.search(question):
            return []
        named = seq(ref, " ", choice(ref, line(60, but="#,:")))
        compare = seq(choice(*(f"{kind}: " for kind in _COMPARES)), named, Repeat(seq(", ", named), 1, 5))
        return [judge] if asked == "truth" else [compare, judge]
    atom = choice(ref, *dict.fromkeys((*numbers, *_CONSTANTS)))
    parts = choice(atom, *"()", " + ", " - ", " * ", " / ", " ^ ", ", ")
    arithmetic = seq("compute: ", optional(seq("round")), Repeat(parts, 1, 20))
    if asked != "number":
        moved = seq("date: ", ref, choice(" + ", " - "), choice(*numbers))
        return [moved if asked == "date" else arithmetic] if numbers else []
    if span := _find_asked_span(question):
        return [seq(f"{span}: ", ref, " to ", ref)]
    if not _CALCULATES.search(question):
        return []
    if _OF_HUNDRED.search(question):
        return [arithmetic]
    counted = seq("count: ", ref, Repeat(seq(", ", ref), 0, 5))
    limited = [seq(counted, " ", choice(*_find_limit_signs(question)), " ", choice(*numbers))] if numbers else []
    return [arithmetic, *limited, counted, judge]


def _find_limit_signs(question: str) -> str:
    """Return the sign of the limit that a question sets, or both if its words do not tell."""
    found = "".join(sign for sign, words in _LIMITS.items() if words.search(question))
    return found or "<>"


# ── the plan that a model writes ──────────────────────────────────────────────────────────────────

_SIMILAR = 2  # examples that are shown once more, right before the question
_SAMPLINGS: tuple[Mapping[str, Any], ...] = ({}, *({"temperature": 0.7, "seed": seed} for seed in (1, 2)))  # of plans


def plan_question(run: NarrowRun, question: str) -> Part[tuple[QuestionStep, ...]]:
    """Return the steps of a sound plan; the question itself as the only one if there is none."""
    whole = (QuestionStep("find", question),)
    if listed := find_listed_names(question):
        return (yield from _plan_alike(run, question, listed)) or whole
    if moved := _MOVED.fullmatch(question):  # needs no model
        days, joint, event = moved.groups()
        sign = "-" if joint == "before" else "+"
        return QuestionStep("find", f"On what date was {event}?"), QuestionStep("date", f"#1 {sign} {days}")
    shape = build_plan_constraint(question)
    if shape is None:
        return whole
    text, asked = _plan_prompt(question)
    for options in _SAMPLINGS:
        steps = _read_reply((yield from run.say(text, asked, shape, options=options, aside=bool(options))))
        if steps and all(step.kind == "find" for step in steps):
            break
        if steps and is_sound(steps, question):
            return steps
    return whole


def plan_count(run: NarrowRun, question: str) -> Part[tuple[QuestionStep, ...]]:
    """Return a plan that counts what a question asks the number of; no steps if the reply is none."""
    shape = build_field_constraint("steps", seq("find: ", _QUESTION, "\ncount: #1\n"))
    return _read_reply((yield from run.say(*_plan_prompt(question), shape)))


def _plan_alike(run: NarrowRun, question: str, names: Sequence[str]) -> Part[tuple[QuestionStep, ...]]:
    """Let the model ask for a fact of the first of the names; ask the same of the others, and let it say what for.

    No steps are returned if its replies are none.
    """
    text, asked = _plan_prompt(question, listed=True)
    first = yield from run.say(text, asked, build_first_step_constraint(question, names))
    rows = repeat_step(first, question, names)
    so_far = text + "".join(f"{row}\n" for row in rows)
    last = yield from run.say(so_far, question, build_last_step_constraint(question, names), aside=True)
    return _read_reply("\n".join([*rows, last]))


def _read_reply(said: str) -> tuple[QuestionStep, ...]:
    """Return the steps of a reply: none if it has none, as it may where nothing holds it to its form."""
    try:
        return read_steps(said)
    except Unreadable:
        return ()


def _plan_prompt(question: str, *, listed: bool = False) -> tuple[str, str]:
    """Return the prompt for a plan, and the part of it that is not the same for all questions."""
    asked = "\n\n".join([*_find_similar_examples(question, _plan_examples(listed)), f"Question: {question}\n"])
    return f"{fill_sub_prompt('plan').strip()}\n\n{asked}", asked


@cache
def _plan_examples(listed: bool) -> Sequence[str]:
    """Return the examples of plans whose questions ask the same of several names, or the others."""
    examples = fill_sub_prompt("plan").strip().split("\n\n")[1:]
    return [one for one in examples if bool(find_listed_names(one.partition("\n")[0])) == listed]


def _find_similar_examples(question: str, examples: Sequence[str]) -> list[str]:
    """Return the examples whose first lines are most like `question` in words, the most like it last.

    Rarer words count more. (Nearest examples in the prompt, Liu et al. 2022.)
    """

    described = {one: set(find_plain_words(one.partition("\n")[0].removeprefix("Question:"))) for one in examples}
    known = Counter(word for words in described.values() for word in words)
    wanted = set(find_plain_words(question))

    def rate_likeness(example: str) -> float:
        shared = sum(math.log(1 + len(examples) / known[word]) for word in described[example] & wanted)
        return shared / math.sqrt(len(described[example]) or 1)

    return sorted(examples, key=rate_likeness, reverse=True)[:_SIMILAR][::-1]
