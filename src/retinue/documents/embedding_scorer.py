"""`EmbeddingScorer`: relevance from an embedder and words, without a cross-encoder."""

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

_LOOKED_AT = 3  # top texts used for the feedback
_LINKED = 0.5  # its weight, relative to 1 each for words and meaning


class EmbeddingScorer:
    """A `CrossEncoder` based on an embedder (by default `MiniLM()`). It scores the texts of a query together.

    The first part is the similarity of query and text, in meaning (cosine of their vectors) and in words (cosine of the
    words' weights, inverse document frequencies among these texts). The second is pseudo-relevance feedback (after
    Rocchio 1971): what the three best texts say beyond the query, such as a name, also counts for other texts that say
    it. This finds the second of two texts that answer a question together. Each part is scaled to mean 0 and deviation
    1 over the texts, so a text's score depends on the others.
    """

    def __init__(self, embedder: Embedder | None = None) -> None:
        self._embedder = embedder or MiniLM()

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return a number for each text, higher is better; their mean is 0."""
        import numpy

        if not texts:
            return []
        vectors = self._embedder.embed([query, *texts]).astype(numpy.float64)
        asked, told = _weights(stems(query), [stems(text) for text in texts])
        first = _scaled(_scaled(vectors[1:] @ vectors[0]) + _scaled(told @ asked))
        untold = told * (asked == 0)
        links = untold @ untold.T * (1 - numpy.eye(len(texts)))
        least = numpy.sort(first)[-_LOOKED_AT:][0]
        best = numpy.flatnonzero(first > least - 1e-9)  # including ties with the last of them
        trust = numpy.exp(first[best] - first.max())
        scores = first + _LINKED * _scaled(trust / trust.sum() @ links[best])
        return [float(score) for score in scores]


def _weights(query: set[str], texts: Sequence[set[str]]) -> tuple[Matrix, Matrix]:
    """Return the word weights of the query, of shape (words,), and of the texts, of shape (texts, words) and length 1
    each.
    """
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
    """Scale `values` to mean 0 and standard deviation 1; all 0 if they are all equal."""
    deviation = values.std()
    scaled: Matrix = (values - values.mean()) / deviation if deviation > 1e-9 else values * 0
    return scaled
