"""The sentences of passages that may answer a question, and how near they are to it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_CHOICES = 8  # sentences that a model chooses from
_SENTENCE_CHARS = 400
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^a-z])")
_WHOLE = re.compile(r"[^a-z|`\s][^|]*[^?|]|`(?!``)[^|]*[^?|]", re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\](?:\(([^)\s]*)\))?\s*")
_HEADER = re.compile(r"\[\d+\] (.*?)\s*(https?://\S+)?")  # of a passage from the web, a line of its own
_WORD = re.compile(r"\w{4,}")
_GENERAL = frozenset(
    "about does every from have into make many much should that their them then there these they this what when where "
    "which while will with work working would your".split()
)
_ALIKE = 5  # letters that two forms of a word begin with


@dataclass(frozen=True)
class FoundSentence:
    """A sentence, and the source and the passage that it is from."""

    source: str
    sentence: str
    passage: str

    @property
    def answer(self) -> str:
        """The sentence, with where it is from."""
        title = _LINK.match(self.passage)
        where = title.group(2) or title.group(1) if title else ""
        return f"{self.sentence} ({self.source}{': ' if where else ''}{where})"


def passages_of(observation: str) -> list[str]:
    """Return the passages of an observation: its lines, those from the web with their titles and addresses."""
    rows: list[str] = []
    title = ""
    for row in filter(None, map(str.strip, observation.split("\n"))):
        if (header := _HEADER.fullmatch(row)) is not None:
            title = f"[{header.group(1)}]({header.group(2) or ''}) "
        else:
            rows.append(title + row)
    return rows


def nearest_sentences(source: str, passages: Sequence[str], question: str) -> list[FoundSentence]:
    """Return the sentences that share most words with the question, in their order."""
    wanted = stems_of(question)
    found = [one for passage in passages for one in _sentences(source, passage)]
    shared = [words_in_common(wanted, one) for one in found]
    best = sorted((at for at, number in enumerate(shared) if number), key=lambda at: -shared[at])[:_CHOICES]
    return [found[at] for at in sorted(best)]


def words_in_common(wanted: set[str], found: FoundSentence) -> int:
    """Return how many words of the question a sentence has, or the title of its passage, if it has one itself."""
    title = _LINK.match(found.passage)
    said = stems_of(found.sentence)
    return len(wanted & (said | stems_of(title.group(1)) if title else said)) if wanted & said else 0


def _sentences(source: str, passage: str) -> list[FoundSentence]:
    """Return the whole sentences of a passage, outside tables and code. A question in it answers nothing."""
    title = _LINK.match(passage)
    text = passage[title.end() :] if title else passage
    said = (one.strip() for one in _SENTENCE.split(text))
    return [FoundSentence(source, one[:_SENTENCE_CHARS], passage) for one in said if _WHOLE.fullmatch(one)]


def stems_of(text: str) -> set[str]:
    """Return the beginnings of the words that say something."""
    return {word[:_ALIKE] for word in map(str.lower, _WORD.findall(text)) if word not in _GENERAL}
