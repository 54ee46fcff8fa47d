"""Descriptions of persons and things that a question does not name: `the composer of The Long Night`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from ...core.schema.patterns import Constraint
from .sub_prompts import build_choice_constraint

NONE = "none"
_CAPITALISED = re.compile(r"[A-Z][\w'’-]*")
_WITHIN = (" ", " of ", " of the ", " de ", ". ")  # between the words of a name; `. ` after an initial
_SENTENCE = re.compile(r"[.!?;:]\s+")
_BEGINNING = re.compile(r"(?:(?<=^)|(?<=[.!?]\s))[A-Z]\w*")
_BEGIN = frozenset(
    "a after also an and are as at before between both but by can did do does during for from had has have he her "
    "his how if in into is it its many name near no of on one or out over she since so some than that the their "
    "them then there these they this those to two under was were what when where which while who whom whose why "
    "will with would".split()
)
_WORD = re.compile(r"\S+")
DETERMINERS = frozenset("the a an his her its their".split())
_ASKS = re.compile(r"(?:who|what|which)(?: \w+){0,2} (?:is|was|are|were)", re.IGNORECASE)
_ASKS_WHEN = re.compile(r"(?:when|(?:on|in) (?:what|which) (?:date|day|month|year)) (?:is|was|were)", re.IGNORECASE)
_LISTED = re.compile(r",?(?: and| or)?(?: the)? |, ?", re.IGNORECASE)
_JOINT = re.compile(r" (?:or|and|than) ")
_PAIR = 2  # names
_OF_BOTH = re.compile(r"(?:which|who) of", re.IGNORECASE)
_OF_ALL = re.compile(r"of|how (?:many|much)|what is the (?:total|sum|average)")
_PLACE = re.compile(r"\b(?:in|at|on|from) (?:the )?$", re.IGNORECASE)
_OF_PERSONS = re.compile(r"\b(?:born|die|died|lives?|lived|study|studied)\b")
TOGETHER = re.compile(r"\b(?:together|total|combined|sum|difference)\b", re.IGNORECASE)
_VERBS = {"", "is", "are", "was", "were", "do", "does", "did", "has", "have", "had"}
_CLAUSE = re.compile(r" (?:that|which|who|whom|whose) ")
_BEGUN = re.compile(r"\b(?:the|a|an) (?:[a-z]+ ){1,3}?(?:(with)|(?:that|which|who) [a-z]+) $")
_JOINTS = re.compile(r" (of|by|on|in|at|to|from|near|across|with) ")
_NOT_A_THING = re.compile(
    r"(?:\w{3,}(?:tion|ance|ment|ing)|ascent|beginning|birth|death|end|premiere|start|wedding|launch|discovery|fire|flood"
    r"|battle|day|date|year|number|age|height|length|width|depth|area|size|weight|population|elevation|price|cost|speed"
    r"|journey|name|whole|total|average|sum|half|rest|way|inhabitant|student|page|seat|employee|people)s?"
)
Span = tuple[int, int]


def find_names(text: str) -> list[str]:
    """Return the names in a text: runs of words with capital letters, but no single word that only begins sentences."""
    begins = {0, *(found.end() for found in _SENTENCE.finditer(text))}
    found: dict[str, bool] = {}
    for start, end in _find_name_spans(text):
        name = re.sub(r"['’]s$", "", text[start:end])
        found[name] = found.get(name, False) or start not in begins or " " in name
    return [name for name, sure in found.items() if sure]


def find_asked_names(question: str) -> list[str]:
    """Return the names in a question. A word such as `Were`, with which it begins, belongs to none."""
    return find_names(_lower_beginnings(question))


def find_listed_names(question: str) -> list[str]:
    """Return the names of which a question asks the same: `A or B`, `of A, B and C`, `larger is A than B`."""
    plain = _lower_beginnings(question)
    spans = _find_name_spans(plain)
    if len(spans) == _PAIR and _is_asked_alike(plain, *spans):
        return [question[start:end] for start, end in spans]
    lists: list[list[Span]] = [[]]
    for span in spans:
        if lists[-1] and not _LISTED.fullmatch(plain[lists[-1][-1][1] : span[0]]):
            lists.append([])
        lists[-1].append(span)
    longest = max(lists, key=len)
    if longest and _PLACE.search(plain[: longest[0][0]]):  # `in Marl, the Hob Cave or the Crow Cave`
        del longest[0]
    joint = "".join(plain[one[1] : other[0]] for one, other in pairwise(longest))
    several = " or " in joint or _OF_BOTH.match(plain) or (len(longest) > _PAIR and _OF_ALL.match(plain))
    return [question[start:end] for start, end in longest] if several else []


def describe_request(question: str, names: Sequence[str]) -> list[str]:
    """Return what is asked of the names: for `the mill of A or the mill of B`, these words."""
    if len(names) == _PAIR:
        words = _JOINT.split(question.rpartition(names[1])[0])[-1]
        if words.strip() not in ("", "the") and f"{words}{names[0]}" in question:
            return [words + name for name in names]
    return list(names)


def _is_asked_alike(text: str, one: Span, other: Span) -> bool:
    """Return whether the same is asked of two names, and not of a thing of one and the other: `the son of A than B`."""
    words = text[one[1] : other[0]]
    if _find_last_word(text[: one[0]]) in ("after", "before") and words.removesuffix("the ").strip() in ("did", "was"):
        return True  # `how many years after A was B built`
    joints = (" than ", " or ", " and ") if TOGETHER.search(text) else (" than ", " or ")
    joint = next((joint for joint in joints if joint in words), "")
    before, between = _find_last_word(text[: one[0]]), _find_last_word(words)
    alone = before in _VERBS or joint != " than "
    return bool(joint) and (before == between or (alone and between == joint.strip()))


def _find_last_word(text: str) -> str:
    return text.removesuffix("the ").strip().rpartition(" ")[2]


def _lower_beginnings(question: str) -> str:
    """Return the question with a small letter at the beginning of each sentence, unless that is a name."""
    return _BEGINNING.sub(
        lambda found: found.group().lower() if found.group().lower() in _BEGIN else found.group(), question
    )


def _find_name_spans(text: str) -> list[Span]:
    spans: list[Span] = []
    for word in _CAPITALISED.finditer(text):
        between = text[spans[-1][1] : word.start()] if spans else ""
        initial = between == ". " and text[spans[-1][1] - 1].isupper()
        if between in _WITHIN and (between != ". " or initial):
            spans[-1] = (spans[-1][0], word.end())
        else:
            spans.append(word.span())
    return spans


def find_descriptions(question: str) -> list[str]:
    """Return what may be the innermost description in a question: the ends differ.

    It begins with the last `the` or its like before the first name, if a word in small letters follows. It ends with
    that name, or later if it has a relative clause. What the question asks for as a whole is none. (In languages other
    than English there are none: such questions are read whole.)
    """
    body = question.rstrip("?.! ")
    names = _find_name_spans(_lower_beginnings(body))
    words = [found.span() for found in _WORD.finditer(body)]
    starts = [start for start, end in words if names and end < names[0][0] and body[start:end] in DETERMINERS]
    first = names[0][0] if names else 0
    starts = [start for start in starts if _CLAUSE.search(body, start, first) or _find_head_noun(body[start:first])]
    if not starts:
        return []
    start = starts[-1]  # or earlier, in `the hall that saw the opening of`, `the hill with the spring of`
    if (begun := _BEGUN.search(body, 0, start)) and (begun.group(1) or not _is_thing(body[start:])):
        start = begun.start()
    before = body[:start].strip(" ,")
    if _ASKS.fullmatch(before) or (_ASKS_WHEN.fullmatch(before) and not _is_thing(body[start:])):
        return []
    clause = _CLAUSE.search(body, start, names[0][0])
    ends = [end for _, end in words if end >= names[0][1] and not any(first < end < last for first, last in names)]
    return list(dict.fromkeys(body[start:end].rstrip(",:;") for end in (ends if clause else ends[:1])))


def build_description_constraint(question: str, options: list[str]) -> Constraint:
    """Return the constraint of a reply that is one of the descriptions; or `none`, where it may be that the question
    asks for what they say."""
    return build_choice_constraint(
        "described", options if all(_is_description(one, question) for one in options) else [NONE, *options]
    )


def _is_description(option: str, question: str) -> bool:
    """Return whether the words are surely a description: not an event or measure of what they name (`the opening of`),
    and not what the question asks for (`On which hill is the spring of the Orr?`)."""
    before, _, after = question.partition(option)
    if _CLAUSE.search(option) or _OF_PERSONS.search(after):
        return True
    whole = not after.strip(" ?.!") and _find_last_word(before) in _VERBS and not before.startswith("How")
    return _is_thing(option) and not whole


def _is_thing(words: str) -> bool:
    """Return whether words such as `the mayor of Marl` are of a person or thing, not of an event or measure."""
    head = _find_head_noun(words)
    return head is not None and _NOT_A_THING.fullmatch(head) is None


def _find_head_noun(words: str) -> str | None:
    """Return the noun of words such as `the first mayor of Marl` or `the bell given by Ada Rell`."""
    joint = _JOINTS.search(words)
    nouns = words[: joint.start()].split()[1:] if joint else []
    if joint and joint.group(1) == "by" and len(nouns) > 1:
        nouns.pop()
    return nouns[-1] if nouns else None


def is_intricate(question: str) -> bool:
    """Return whether a question has a clause or several names, so that its answer may be of something that it does not
    name."""
    return _CLAUSE.search(question) is not None or len(find_asked_names(question)) > 1
