"""The worked examples that are most like a question: by the words that both have, names and numbers apart.

(Nearest examples in the prompt, Liu et al. 2022.)
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

_WORD = re.compile(r"[^\W\d_]+")


def most_like(question: str, examples: Sequence[str], most: int) -> list[str]:
    """Return the `most` examples whose first lines are most like `question`, the most like it last. Rarer words count
    more."""
    described = [_words(example.partition("\n")[0]) for example in examples]
    known = Counter(word for words in described for word in words)
    wanted = _words(question)

    def likeness(words: frozenset[str]) -> float:
        shared = sum(_weight(known[word], len(examples)) for word in words & wanted)
        return shared / math.sqrt(len(words) or 1)

    order = sorted(range(len(examples)), key=lambda at: (-likeness(described[at]), at))
    return [examples[at] for at in reversed(order[:most])]


def _weight(count: int, of: int) -> float:
    return math.log(1 + of / count)


def _words(text: str) -> frozenset[str]:
    """Return the words in lower case, without those that begin with a capital letter, but with the first."""
    found = _WORD.findall(text.removeprefix("Question:"))
    return frozenset(word.lower() for at, word in enumerate(found) if at == 0 or word.islower())
