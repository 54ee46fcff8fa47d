"""Answers copied from a passage: the pattern of what occurs in it and may answer a question, and whether that is what
the question asks for."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from ...core.schema.patterns import Constraint, Pattern, Repeat, Text, choice, seq
from .descriptions import find_names
from .quantities import DATE, MONTHS, NUMBER, YEAR, find_quantities, is_measure_asked
from .sub_prompts import build_field_constraint

# ── what a value is of its subject ────────────────────────────────────────────────────────────────

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
_LETTERS = re.compile(r"[^\W\d_]+")
KIND_ASKED = re.compile(r"\b(?:which|what) (\w{3,})", re.IGNORECASE)
_ALIKE = 4  # letters that two words of one relation begin with, unless one of them is shorter
_SHORTEST = 3


def is_relation_asked(relation: str, question: str) -> bool | None:
    """Return whether a question asks for a relation, as far as their words tell; `None` if they do not."""
    asked, said = set(_find_content_words(question)), set(_find_content_words(relation))
    known, found = _find_relations(asked), _find_relations(said)
    if known & found:
        return True
    if known and found and max(known | found) < len(_RIVALS):
        return False
    asked -= {kind.lower() for kind in KIND_ASKED.findall(question)}
    return True if any(_begin_alike(one, other) for one in asked for other in said) else None


def has_known_relation(question: str) -> bool:
    """Return whether a word of the question tells relations apart."""
    return bool(_find_relations(_find_content_words(question)))


def is_of_another_event(text: str, question: str) -> bool:
    """Return whether a text is on a birth where the question asks of a death, or on a death where it asks of a birth or
    an age."""
    said, asked = set(_find_content_words(text)), set(_find_content_words(question))
    if asked & _DEATH:
        return bool(said & _BIRTH) and not said & _DEATH
    return bool(asked & (_BIRTH | {"old"}) and said & _DEATH)


def count_shared_words(text: str, question: str) -> int:
    """Return how many words of the question are in a text, those of no meaning of their own apart."""
    said = set(_find_content_words(text))
    return sum(any(_begin_alike(one, other) for other in said) for one in set(_find_content_words(question)))


def _find_relations(words: Iterable[str]) -> set[int]:
    return {number for number, family in enumerate(_FAMILIES) if not family.isdisjoint(words)}


def _find_content_words(text: str) -> list[str]:
    """Return the words in small letters that say something, and the first one."""
    words = (word for at, word in enumerate(_LETTERS.findall(text)) if at == 0 or word.islower())
    return [word.lower() for word in words if word.lower() not in _GENERAL]


def _begin_alike(one: str, other: str) -> bool:
    least = min(len(one), len(other), _ALIKE)
    return least >= _SHORTEST and one[:least] == other[:least]


# ── what is copied ────────────────────────────────────────────────────────────────────────────────

NOT_STATED = "not stated"
LONGEST = 9  # words of a copied answer
LONGEST_LIST = 30
_SENTENCE = re.compile(r"(?<=[.!?;])\s+")
_WORD = re.compile(r"\S+")
_ASKS_NAME = re.compile(r"^(?:who|whom|whose)\b|\b(?:by|of|to) whom\b", re.IGNORECASE)
# Small words before which, after which, and with which a name or another short answer does not go on, end or begin.
_CLAUSES = frozenset(
    "which who whose whom where when while but that as since because although is was were are be been has had have "
    "does did can will would may".split()
)
_JOINTS = frozenset("of and or by for from to with at in on into the a an his her its their".split())
_PREPOSITIONS = {"by", "for", "from", "to", "with", "at", "in", "on", "into"}
_ARTICLES = {"the", "a", "an"}
_PARTICIPLE = re.compile(r"[a-z]{3,}ed")
_ASKS_TRUTH = re.compile(r"(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would)\b", re.IGNORECASE)
_CHOICE = re.compile(r"(?!.*\bboth\b).*\bor\b", re.IGNORECASE)
_ASKS_DATE = re.compile(r"\b(?:what|which) (?:date|day)\b|\bdate\b|^when\b", re.IGNORECASE)
_ASKS_YEAR = re.compile(r"\b(?:which|what) year\b|\bthe year of\b", re.IGNORECASE)
_ASKS_HOW = re.compile(r"\bhow (?:many|much|old)\b", re.IGNORECASE)
_ASKS_NUMBER = re.compile(
    r"\bhow (?:many|much|long|high|tall|wide|deep|large|big|old|far|heavy|fast)\b|(?:^|, )(?:by )?what\b.*\b(?:number"
    r"|population|area|length|height|width|depth|elevation|price|cost|weight|size|speed|percentage|percent|age|power"
    r"|sum)\b",
    re.IGNORECASE | re.MULTILINE,
)


def find_asked_kind(question: str) -> str:
    """Return what a question, the last one of several, asks for: a "date", "year", "number", "name" or "truth" (yes or
    no), or "words"."""
    asked = [one for one in _SENTENCE.split(question) if one.endswith("?")]
    question = asked[-1] if asked else question
    if _ASKS_TRUTH.match(question) and not _CHOICE.match(question):
        return "truth"
    if _ASKS_HOW.search(question):
        return "number"
    if _ASKS_YEAR.search(question):
        return "year"
    if _ASKS_DATE.search(question):
        return "date"
    if _ASKS_NUMBER.search(question):
        return "number"
    return "name" if _ASKS_NAME.search(question) else "words"


def has_numbers(passage: str, question: str) -> bool:
    """Return whether a passage has the numbers and years of a question: what has not cannot answer it."""
    return all(number in passage for number in NUMBER.findall(question))


def is_of_kind(value: str, passage: str, question: str) -> bool:
    """Return whether the sentence that states a value has the word that says what is asked for: `which river`."""
    kind = KIND_ASKED.search(question)
    if kind is None or find_asked_kind(question) not in ("words", "name"):
        return True
    return kind.group(1).lower() in find_sentences_with(value, passage)[0].lower()


def find_sentences_with(value: str, passage: str, kind: str = "words") -> list[str]:
    """Return the sentences of the passage that have the value of that kind; all of it if none has."""
    sentences = [one for one in _SENTENCE.split(passage) if value in one]
    return [one for one in sentences if value in find_values(one, kind)] or sentences or [passage]


def build_copied_constraint(
    passage: str, question: str, kind: str, longest: int = LONGEST, but: Collection[str] = (), *, must: bool = False
) -> Constraint | None:
    """Return the constraint of an answer of that kind that is copied from `passage`, or unless it `must` be there says
    that it is not.

    It is none of the values `but`, unless it is words. `None` if the passage has none that may answer the question.
    """
    values = (one for one in find_values(passage, kind) if one not in but and _may_answer(one, question, kind))
    options: list[Pattern] = [Text(one) for one in values]
    if kind == "truth":
        options = [Text("yes"), Text("no")]
    elif kind == "words" or (kind == "name" and not options):
        options = _find_runs(passage, longest)
    if not options:
        return None
    return build_field_constraint("answer", seq(" ", choice(*([] if must else [NOT_STATED]), *options), "\n"))


def _may_answer(value: str, question: str, kind: str) -> bool:
    return is_measure_asked(value, question) if kind == "number" else kind != "name" or value not in question


def find_values(text: str, kind: str) -> list[str]:
    """Return what in a text is of that kind, in its order; of "words" nothing."""
    match kind:
        case "year":
            found: Iterable[str] = YEAR.findall(text)
        case "date":
            found = [one.group() for one in DATE.finditer(text)] or YEAR.findall(text)
        case "number":
            found = find_quantities(text)
        case "name":
            found = (one for one in _find_names(text) if one.lower() not in MONTHS)
        case _:
            found = ()
    return list(dict.fromkeys(found))


def _find_names(passage: str) -> Iterator[str]:
    """Yield the names, and also the parts of those such as `Pell Works of Upper Orr`."""
    for name in find_names(passage):
        yield name
        if len(parts := name.split(" of ")) > 1:
            yield from parts


def _find_runs(text: str, longest: int) -> list[Pattern]:
    """Return the runs of words, without the punctuation around them, that may be an answer: up to a verb or clause, and
    if they are no list up to what only adds to it (`Marl, a village`)."""
    runs: dict[str, Pattern] = {}
    for sentence in _SENTENCE.split(text):
        words = [found.group() for found in _WORD.finditer(sentence)]
        for at, word in enumerate(words):
            run = words[at : at + longest]
            run = run[: next((end for end in range(1, len(run)) if _ends_run(run, end, longest)), len(run))]
            while len(run) > 1 and run[-1] in _JOINTS:
                run.pop()
            if word.strip("\"'().,") and word not in _CLAUSES | _JOINTS - _ARTICLES and run[-1] not in _JOINTS:
                runs.setdefault(" ".join(run), _run_pattern(run))
    return list(runs.values())


def _ends_run(words: list[str], at: int, longest: int) -> bool:
    """Return whether an answer goes no further than to the word before `at`."""
    word, before = words[at], words[at - 1]
    if word in _CLAUSES:
        return True
    adds = before.endswith((",", ";", ":")) and not _is_name(word)
    adds = adds or (word in _PREPOSITIONS and not any(map(_is_name, words[at + 1 : at + 3])))
    return longest <= LONGEST and (adds or (at > 1 and _PARTICIPLE.fullmatch(word) is not None))


def _is_name(word: str) -> bool:
    return word[0].isupper() or word[0].isdigit()


def _run_pattern(words: list[str]) -> Pattern:
    """Match a word, or more that follow it; the last one ends without a comma or full stop, and is no small word."""
    pattern: Pattern = Text(_strip_punctuation(words[-1]))
    for word in reversed(words[:-1]):
        bare = _strip_punctuation(word)
        rest = word[len(bare) :] if word.startswith(bare) else ""
        more = seq(f"{rest} ", pattern)
        pattern = seq(bare, more if word in _JOINTS else Repeat(more, 0, 1))
    return pattern


def _strip_punctuation(word: str) -> str:
    return word.rstrip('.,;:!?)"').lstrip('("') or word
