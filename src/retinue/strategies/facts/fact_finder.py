"""A fact is looked up: what its question describes is named, passages are read one by one, and answers are copied from
them. It is checked whether what was copied is what the question asks for."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from ...core.protocols import act
from ...core.schema.patterns import Constraint, Pattern, Repeat, Text, choice, line, seq
from ...core.values import AgentAction
from ..prompting.injection_guard import neutralize
from ..wrappers.wrapper import Part
from .descriptions import (
    DETERMINERS,
    build_description_constraint,
    find_asked_names,
    find_descriptions,
    find_names,
    is_intricate,
)
from .quantities import (
    DATE,
    MONTHS,
    NUMBER,
    YEAR,
    convert_quantity,
    convert_question,
    find_quantities,
    is_measure_asked,
)
from .sub_prompts import NarrowRun, build_choice_constraint, build_field_constraint, fill_sub_prompt

FOUND = ("result", "repeated")  # outcomes of a tool call that are read
NOT_STATED = "not stated"
YES_OR_NO = build_choice_constraint("answer", ("yes", "no"))
_PASSAGES, _PASSAGE_CHARS = 3, 1_000
_DESCRIBED = 4  # descriptions in a question that are looked up
_WORDS = 4  # of a sentence at least
_VALUES = 2  # of a passage that are tried
_NONE = "none"
_RELATION = build_field_constraint("relation", seq(" ", line(80), "\n"))


class FactFinder:
    """Finds facts with the tool called `search`. `known` has what it found, by question, `names` the names of things
    by their descriptions, `units` the sizes of units that the question lays down. Names in the user's `question` are no
    answer."""

    def __init__(self, run: NarrowRun, search: str, question: str) -> None:
        self._run, self._tool = run, search
        self._given = find_asked_names(question)
        self.known: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.units: Mapping[str, float] = {}

    def find(self, question: str, kind: str = "", *, listed: bool = False) -> Part[str]:
        """Return the fact that a question asks for, or that it is not stated. `listed`: it may be a list."""
        if question not in self.known:
            value = NOT_STATED
            plain = yield from self._name_descriptions(convert_question(question, self.units))
            if plain is not None:
                value = yield from self._search(plain, kind or find_asked_kind(plain), listed=listed)
            self.known[question] = convert_quantity(value, question, self.units)
        return self.known[question]

    def choose(self, question: str, options: Sequence[str]) -> Part[str]:
        """Return which of the options the question asks for, from what is found on each of them, or that it is not
        stated."""
        found: list[str] = []
        for option in options:
            passages = yield from self._look_up(option, f"What is {option}?")
            found += [one for one in passages[:1] if one not in found]
        shape = build_choice_constraint("answer", (NOT_STATED, *options))
        said = yield from self._ask("choose", question, shape, passages="\n".join(found), question=question)
        return said if said in options else NOT_STATED

    def _ask(self, part: str, news: str, shape: Constraint, *, aside: bool = True, **values: str) -> Part[str]:
        return self._run.say(fill_sub_prompt(part, **values), news, shape, aside=aside)

    def _look_up(self, query: str, question: str) -> Part[list[str]]:
        """Return the passages that the search finds and that are read for a question: those whose title it names first,
        and none that has no name or number of it."""
        (seen,) = yield from act(AgentAction(self._tool, query))
        if seen.outcome not in FOUND:
            return []
        rows = neutralize(seen.text).split("\n")
        passages = [row.strip()[:_PASSAGE_CHARS] for row in rows if row.strip()][:_PASSAGES]
        names = find_asked_names(question)
        if wanted := [*names, *NUMBER.findall(question)]:
            passages = [one for one in passages if any(part in one for part in wanted)]
        return sorted(passages, key=lambda one: _split_title(one)[0] not in names)

    def _name_descriptions(self, question: str) -> Part[str | None]:
        """Return the question with names for what it describes; nothing if one of them cannot be found."""
        for _ in range(_DESCRIBED):
            options = find_descriptions(question)
            if not options:
                break
            shape = build_description_constraint(question, options)
            described = yield from self._ask("describe", question, shape, question=question)
            if described not in options:
                break
            name = yield from self.find(f"What is {described}?", "name")
            if name == NOT_STATED:
                return None
            self.names[described] = name
            question = question.replace(described, name)
        return question

    def _search(self, question: str, kind: str, *, listed: bool) -> Part[str]:
        """Search by the question, and if that finds nothing by its names with the kind of thing that it asks for, and
        by its names alone."""
        names = " ".join(find_asked_names(question))
        asked = _KIND_ASKED.search(question)
        read: list[str] = []
        for query in filter(None, (question, f"{asked.group(1)} {names}" if asked and names else "", names)):
            found = yield from self._look_up(query, question)
            unread = [one for one in found if one not in read]
            value = yield from self._read_passages(question, unread, kind, listed=listed)
            if value != NOT_STATED:
                return value
            read += found
        if listed:
            return NOT_STATED
        value = NOT_STATED
        if kind in ("words", "name"):
            value = yield from self._look_again(question, read, kind)
        return value if value != NOT_STATED else (yield from self._follow_name(question, read, kind))

    def _look_again(self, question: str, passages: Sequence[str], kind: str) -> Part[str]:
        """Take an answer from the passage that has most words of the question, and see whether it says so: the model
        too often says that something is not stated."""
        best = _find_nearest_passage([one for one in passages if has_numbers(one, question)], question)
        shape = build_copied_constraint(_split_title(best)[1], question, kind, but=self._given, must=True)
        value = (yield from self._copy_value(question, best, kind, shape, aside=True)) if shape else ""
        if not value:
            return NOT_STATED
        given = yield from self._ask("says", best, YES_OR_NO, passage=best, question=question, value=value)
        return value if given == "yes" else NOT_STATED

    def _follow_name(self, question: str, passages: Sequence[str], kind: str) -> Part[str]:
        """Look up a name in the passage that has most words of the question, if the model says that this is needed."""
        best = _find_nearest_passage(passages, question)
        title, text = _split_title(best)
        names = [one for one in find_names(text) if one not in question and one not in title]
        if not names:
            return NOT_STATED
        shape = build_choice_constraint("name", (_NONE, *names))
        name = yield from self._ask("follow", best, shape, passage=best, question=question)
        found = (yield from self._look_up(name, f"What is {name}?")) if name in names else []
        if not found:
            return NOT_STATED
        value, _ = yield from self._read_passage(question, found[0], kind, aside=True, listed=False, about=(name,))
        return value

    def _read_passages(self, question: str, passages: Sequence[str], kind: str, *, listed: bool) -> Part[str]:
        """Read on until a passage has what is surely the answer, or one with the word that says what is asked for."""
        best = NOT_STATED
        for number, passage in enumerate(passages):
            if not has_numbers(passage, question):
                continue
            value, sure = yield from self._read_passage(question, passage, kind, aside=number > 0, listed=listed)
            if value != NOT_STATED and (sure or is_of_kind(value, passage, question)):
                return value
            best = value if best == NOT_STATED else best
        return best

    def _read_passage(
        self, question: str, passage: str, kind: str, *, aside: bool, listed: bool, about: Sequence[str] = ()
    ) -> Part[tuple[str, bool]]:
        """Read a passage; return what it says and whether that is surely asked for, or that it is not stated. `about`:
        names that the question does not have."""
        text, longest = _split_title(passage)[1], LONGEST_LIST if listed else LONGEST
        tried: list[str] = []
        while len(tried) < _VALUES:
            shape = build_copied_constraint(text, question, kind, longest, but=(*self._given, *tried))
            if shape is None:
                break
            value = yield from self._copy_value(question, passage, kind, shape, aside=aside or bool(tried))
            if value in ("", NOT_STATED):
                break
            asked: bool | None = None
            if not listed and kind != "truth":
                asked = yield from self._is_asked_for(value, passage, question, kind, about)
            if asked is not False:
                return value, bool(asked)
            if kind == "words":
                break  # any run of words may be copied, so that it would be copied again
            tried.append(value)
        return NOT_STATED, False

    def _copy_value(self, question: str, passage: str, kind: str, shape: Constraint, *, aside: bool) -> Part[str]:
        """Return what the model copies from a passage; nothing for a name that the question has."""
        part = "truth" if kind == "truth" else "read"
        said = yield from self._ask(part, passage, shape, aside=aside, passage=passage, question=question)
        value = said.partition("\n")[0].strip()
        return "" if value in self._given or any(name in value for name in find_asked_names(question)) else value

    def _is_asked_for(
        self, value: str, passage: str, question: str, kind: str, about: Sequence[str]
    ) -> Part[bool | None]:
        """Let the model say what the value is before it sees the question: it takes anything for what is asked for.

        `None` for words that were copied, of which nothing tells.
        """
        copied = kind in ("words", "name")
        title, text = _split_title(passage)
        sentences = [
            one if len(one.split()) >= _WORDS else passage  # `[Tom Rudd's age] 47 years`
            for one in find_sentences_with(value, text, kind)
        ]
        names = [*find_asked_names(question), *about]
        if title and names and not (copied and (value in title or is_intricate(question))):
            # else it is of what the passage is about
            sentences = [one for one in sentences if any(name in f"{title} {one}" for name in names)]
        if not sentences:
            return False
        if copied and not _find_relations(_find_content_words(question)):
            return None
        alone = [one.replace(value, "") for one in sentences if len(find_values(one, kind)) == 1]
        known = [is_relation_asked(one, question) for one in alone]
        if True in known or known == [False] * len(sentences):
            return True in known
        sentence = sentences[0]
        prompt = fill_sub_prompt("relation", sentence=sentence, value=value)
        relation = yield from self._run.say(prompt, sentence, _RELATION, aside=True)
        told = is_relation_asked(relation, question)
        if told is not None or copied:
            return told
        asked = f"{prompt} {relation}\n{fill_sub_prompt('asked', question=question)}"
        return (yield from self._run.say(asked, question, YES_OR_NO, aside=True)) == "yes"


def _find_nearest_passage(passages: Sequence[str], question: str) -> str:
    return max(passages, key=lambda one: count_shared_words(one, question), default="")


def _split_title(passage: str) -> tuple[str, str]:
    """Return a passage's title, if it has one in brackets, and its text."""
    if passage.startswith("[") and "] " in passage:
        title, _, text = passage[1:].partition("] ")
        return title, text
    return "", passage


# ── what is asked for ─────────────────────────────────────────────────────────────────────────────

_SENTENCE = re.compile(r"(?<=[.!?;])\s+")
_ASKS_TRUTH = re.compile(r"(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would)\b", re.IGNORECASE)
_CHOICE = re.compile(r"(?!.*\bboth\b).*\bor\b", re.IGNORECASE)
_KINDS = (
    ("number", re.compile(r"\bhow (?:many|much|old)\b", re.IGNORECASE)),
    ("year", re.compile(r"\b(?:which|what) year\b|\bthe year of\b", re.IGNORECASE)),
    ("date", re.compile(r"\b(?:what|which) (?:date|day)\b|\bdate\b|^when\b", re.IGNORECASE)),
    (
        "number",
        re.compile(
            r"\bhow (?:long|high|tall|wide|deep|large|big|far|heavy|fast)\b|(?:^|, )(?:by )?what\b.*\b(?:number"
            r"|population|area|length|height|width|depth|elevation|price|cost|weight|size|speed|percentage|percent|age"
            r"|power|sum)\b",
            re.IGNORECASE | re.MULTILINE,
        ),
    ),
    ("name", re.compile(r"^(?:who|whom|whose)\b|\b(?:by|of|to) whom\b", re.IGNORECASE)),
)
_KIND_ASKED = re.compile(r"\b(?:which|what) (\w{3,})", re.IGNORECASE)


def find_asked_kind(question: str) -> str:
    """Return what a question, the last one of several, asks for: a "date", "year", "number", "name" or "truth" (yes or
    no), or "words"."""
    asked = [one for one in _SENTENCE.split(question) if one.endswith("?")]
    question = asked[-1] if asked else question
    if _ASKS_TRUTH.match(question) and not _CHOICE.match(question):
        return "truth"
    return next((kind for kind, asks in _KINDS if asks.search(question)), "words")


def has_numbers(passage: str, question: str) -> bool:
    """Return whether a passage has the numbers and years of a question: what has not cannot answer it."""
    return all(number in passage for number in NUMBER.findall(question))


def is_of_kind(value: str, passage: str, question: str) -> bool:
    """Return whether the sentence that states a value has the word that says what is asked for: `which river`."""
    kind = _KIND_ASKED.search(question)
    if kind is None or find_asked_kind(question) not in ("words", "name"):
        return True
    return kind.group(1).lower() in find_sentences_with(value, passage)[0].lower()


def find_sentences_with(value: str, passage: str, kind: str = "words") -> list[str]:
    """Return the sentences of the passage that have the value of that kind; all of it if none has."""
    sentences = [one for one in _SENTENCE.split(passage) if value in one]
    return [one for one in sentences if value in find_values(one, kind)] or sentences or [passage]


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
_ALIKE, _SHORTEST = 4, 3  # letters that two words of one relation begin with; those of the shortest word


def is_relation_asked(relation: str, question: str) -> bool | None:
    """Return whether a question asks for a relation, as far as their words tell; `None` if they do not."""
    asked, said = set(_find_content_words(question)), set(_find_content_words(relation))
    known, found = _find_relations(asked), _find_relations(said)
    if known & found:
        return True
    if known and found and max(known | found) < len(_RIVALS):
        return False
    asked -= {kind.lower() for kind in _KIND_ASKED.findall(question)}
    return True if any(_begin_alike(one, other) for one in asked for other in said) else None


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


def find_plain_words(text: str) -> list[str]:
    """Return the words of letters in lower case, without names and others with a capital letter, but with the first."""
    return [word.lower() for at, word in enumerate(_LETTERS.findall(text)) if at == 0 or word.islower()]


def _find_content_words(text: str) -> list[str]:
    return [word for word in find_plain_words(text) if word not in _GENERAL]


def _begin_alike(one: str, other: str) -> bool:
    least = min(len(one), len(other), _ALIKE)
    return least >= _SHORTEST and one[:least] == other[:least]


# ── what is copied ────────────────────────────────────────────────────────────────────────────────

LONGEST, LONGEST_LIST = 9, 30  # words of a copied answer
# Small words before which, after which, and with which a name or another short answer does not go on, end or begin.
_CLAUSES = frozenset(
    "which who whose whom where when while but that as since because although is was were are be been has had have "
    "does did can will would may".split()
)
_PREPOSITIONS = frozenset("by for from to with at in on into".split())
_JOINTS = _PREPOSITIONS | DETERMINERS | {"of", "and", "or"}
_ARTICLES = {"the", "a", "an"}
_PARTICIPLE = re.compile(r"[a-z]{3,}ed")


def build_copied_constraint(
    passage: str, question: str, kind: str, longest: int = LONGEST, but: Collection[str] = (), *, must: bool = False
) -> Constraint | None:
    """Return the constraint of an answer of that kind that is copied from `passage`, or unless it `must` be there says
    that it is not.

    It is none of the values `but`, unless it is words. `None` if the passage has none that may answer the question.
    """
    values = [one for one in find_values(passage, kind) if one not in but]
    if kind == "number":
        values = [one for one in values if is_measure_asked(one, question)]
    elif kind == "name":
        values = [one for one in values if one not in question]
    options: list[Pattern] = [Text(one) for one in values]
    if kind == "truth":
        options = [Text("yes"), Text("no")]
    elif kind == "words" or (kind == "name" and not options):
        options = _find_runs(passage, longest)
    if not options:
        return None
    return build_field_constraint("answer", seq(" ", choice(*([] if must else [NOT_STATED]), *options), "\n"))


def find_values(text: str, kind: str) -> list[str]:
    """Return what in a text is of that kind, in its order; of "words" nothing. Names are there also in parts, such as
    `Pell Works of Upper Orr`."""
    found: list[str] = []
    match kind:
        case "year":
            found = YEAR.findall(text)
        case "date":
            found = [one.group() for one in DATE.finditer(text)] or YEAR.findall(text)
        case "number":
            found = find_quantities(text)
        case "name":
            for name in find_names(text):
                found += [name, *(name.split(" of ") if " of " in name else ())]
            found = [one for one in found if one.lower() not in MONTHS]
    return list(dict.fromkeys(found))


def _find_runs(text: str, longest: int) -> list[Pattern]:
    """Return the runs of words, without the punctuation around them, that may be an answer: up to a verb or clause, and
    if they are no list up to what only adds to it (`Marl, a village`)."""
    runs: dict[str, Pattern] = {}
    for sentence in _SENTENCE.split(text):
        words = sentence.split()
        for at, word in enumerate(words):
            run = words[at : at + longest]
            run = run[: next((end for end in range(1, len(run)) if _ends_run(run, end, longest)), len(run))]
            while len(run) > 1 and run[-1] in _JOINTS:
                run.pop()
            if word.strip("\"'().,") and word not in _CLAUSES | _JOINTS - _ARTICLES and run[-1] not in _JOINTS:
                runs.setdefault(" ".join(run), _build_run_pattern(run))
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


def _build_run_pattern(words: list[str]) -> Pattern:
    """Match a word, or more that follow it; the last one ends without a comma or full stop, and is no small word."""
    bare = [word.rstrip('.,;:!?)"').lstrip('("') or word for word in words]
    pattern: Pattern = Text(bare[-1])
    for word, plain in zip(words[-2::-1], bare[-2::-1], strict=True):
        rest = word[len(plain) :] if word.startswith(plain) else ""
        more = seq(f"{rest} ", pattern)
        pattern = seq(plain, more if word in _JOINTS else Repeat(more, 0, 1))
    return pattern
