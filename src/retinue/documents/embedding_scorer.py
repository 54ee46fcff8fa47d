"""`EmbeddingScorer`: the relevance of texts from an embedder and their words, where no cross-encoder is at hand."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..tools.keyword_search import stems
from .embedding import Embedder, MiniLM

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Matrix = NDArray[numpy.float64]

_LOOKED_AT = 3  # texts that the second look is at
_LINKED = 0.5  # what it counts, where query and text count 1 by words and 1 by meaning


class EmbeddingScorer:
    """A `CrossEncoder` made of an embedder (`MiniLM()`, if none is given). It scores texts beside each other.

    First, how much query and text have in common: in meaning (cosine of their vectors) and in words (cosine
    of the words' weights, inverse document frequencies among these texts). Then a second look: what the three
    best say and the query does not, such as a name, counts for the others that say it, too; the second of two
    texts that answer a question together is found so (pseudo-relevance feedback, after Rocchio 1971). Each
    part is scaled to mean 0 and deviation 1 over the texts, so a text's score depends on what it stands beside.
    """

    def __init__(self, embedder: Embedder | None = None) -> None:
        self._embedder = embedder or MiniLM()

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """A number for each text, the higher the better; their mean is 0."""
        import numpy

        if not texts:
            return []
        vectors = self._embedder.embed([query, *texts]).astype(numpy.float64)
        asked, told = _weights(stems(query), [stems(text) for text in texts])
        first = _scaled(_scaled(vectors[1:] @ vectors[0]) + _scaled(told @ asked))
        untold = told * (asked == 0)
        links = untold @ untold.T * (1 - numpy.eye(len(texts)))
        least = numpy.sort(first)[-_LOOKED_AT:][0]
        best = numpy.flatnonzero(first > least - 1e-9)  # with what equals the last of them, wherever it stands
        trust = numpy.exp(first[best] - first.max())
        scores = first + _LINKED * _scaled(trust / trust.sum() @ links[best])
        return [float(score) for score in scores]


def _weights(query: set[str], texts: Sequence[set[str]]) -> tuple[Matrix, Matrix]:
    """The weights of all words in the query, of shape (words,), and in the texts, (texts, words); each text's
    of length 1."""
    import numpy

    counts = Counter(word for words in texts for word in words)
    places = {word: place for place, word in enumerate(sorted(counts))}
    weight = numpy.array([math.log(1 + len(texts) / counts[word]) for word in places])
    held = numpy.zeros((len(texts), len(places)))
    for row, words in enumerate(texts):
        held[row, [places[word] for word in words]] = 1
    told = held * weight
    lengths = numpy.linalg.norm(told, axis=1, keepdims=True)
    asked = numpy.zeros(len(places))
    asked[[places[word] for word in query if word in places]] = 1
    return asked * weight, told / numpy.where(lengths > 0, lengths, 1)


def _scaled(values: Matrix) -> Matrix:
    """`values` with mean 0 and standard deviation 1; all 0 if they are all the same."""
    deviation = values.std()
    scaled: Matrix = (values - values.mean()) / deviation if deviation > 1e-9 else values * 0
    return scaled
