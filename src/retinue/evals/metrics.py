"""Metrics of answers: HotpotQA's (Yang et al. 2018; normalization as in its official evaluation script), and whether an
answer is right."""

from __future__ import annotations

import re
import string
from collections import Counter

from .questions import Number, Question

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CLOSED = ("yes", "no", "noanswer")
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?")
_NOT_STATED = re.compile(
    r"\b(?:not|never|nowhere|isnt|is nt) (?:be )?(?:\w+ )?"
    r"(?:stated?|mention(?:ed)?|given?|said|say|specif(?:y|ied)|known|recorded|provided?|available|found|answered|"
    r"determined|listed|contain(?:ed)?|included?|documented|disclosed|find)\b"
    r"|\bcan(?:not|t| not) (?:be )?(?:answer|answered|determine|determined|find|found|say|tell)\b"
    r"|\b(?:no|not enough|insufficient) (?:\w+ )?(?:info|information|mention|answer|record|data|details?)\b"
    r"|\bnothing (?:states|says|mentions|was found|is said|is known|is stated)\b"
    r"|\b(?:do not|dont|does not|doesnt) (?:know|state|say|mention|specify|give|provide|contain|include)\b"
    r"|\bcould(?: not|nt) (?:be )?(?:find|found|determine|determined|answer)\b"
    r"|^(?:unknown|unanswerable|none|na|not here)$|\b(?:is|remains) unknown\b"
)


def normalise(answer: str) -> str:
    """Normalize to lower case, without punctuation, articles and superfluous whitespace."""
    text = answer.lower().translate(_PUNCTUATION)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def exact_match(answer: str, gold: str) -> bool:
    """Return whether the normalized answers are equal."""
    return normalise(answer) == normalise(gold)


def f1(answer: str, gold: str) -> float:
    """Return the harmonic mean of word precision and recall, 0 to 1; yes and no match entirely or not at all."""
    left, right = normalise(answer), normalise(gold)
    if left != right and (left in _CLOSED or right in _CLOSED):
        return 0.0
    shared = sum((Counter(left.split()) & Counter(right.split())).values())
    return 2 * shared / (len(left.split()) + len(right.split())) if shared else 0.0


def contains(answer: str, gold: str) -> bool:
    """Return whether the normalized `gold` occurs in the answer as whole words."""
    wanted = normalise(gold)
    if not wanted:  # nothing but signs and articles
        return answer.strip().casefold() == gold.strip().casefold()
    return f" {wanted} " in f" {normalise(answer)} "


def states(answer: str, wanted: Number) -> bool:
    """Return whether a number in the answer is within the tolerance of the wanted one; commas group its digits."""
    found = (float(one.replace(",", "")) for one in _NUMBER.findall(answer.replace("−", "-")))
    return any(abs(number - wanted.number) <= wanted.within + 1e-9 for number in found)


def says_not_stated(answer: str) -> bool:
    """Return whether the answer says that the sources do not state what was asked.

    It does so in one of the usual phrases: *not stated*, *not mentioned*, *cannot be determined*, *no information*, *do
    not know*, *could not find*, or *unknown* alone. An empty answer says nothing.
    """
    return bool(_NOT_STATED.search(" ".join(answer.lower().replace("’", "'").translate(_PUNCTUATION).split())))


def is_right(answer: str, question: Question) -> bool:
    """Return whether an answer is right: it contains an accepted text or number and none of the rivals; for an
    unanswerable question, it says that this is not stated."""
    if question.unanswerable:
        return says_not_stated(answer)
    if any(contains(answer, rival) for rival in question.rivals):
        return False
    return any(
        contains(answer, wanted) if isinstance(wanted, str) else states(answer, wanted) for wanted in question.answers
    )
