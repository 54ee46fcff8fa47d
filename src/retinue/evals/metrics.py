"""HotpotQA's answer metrics (Yang et al. 2018; normalization as in its official evaluation script)."""

from __future__ import annotations

import re
import string
from collections import Counter

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CLOSED = ("yes", "no", "noanswer")


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
