"""Scorers, which say how well a text answers a query: cross-encoders read both together, `EmbeddingScorer` does not."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..errors import DataError
from ..tools.passages import stem_words
from .embedding import MAX_TOKENS, Embedder, MiniLM, load_model

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    from .embedding import Floats, Mask

    Matrix = NDArray[numpy.float64]

_LOOKED_AT = 3  # top texts used for the feedback
_LINKED = 0.5  # its weight, relative to 1 each for words and meaning


class CrossEncoder(Protocol):
    """Scores texts for a query. `score` may be slow, and may be called from any thread."""

    def score(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return a number for each text, higher is better, on any scale; softmax turns them into probabilities.

        A text's title, if any, is its first line.
        """


class OnnxCrossEncoder:
    """A Hugging Face cross-encoder in a folder: `model.onnx` or `onnx/model*.onnx`, and `tokenizer.json`.

    A text's score is the model's logit, or with two logits, the second (relevant) minus the first. Query and text
    together are truncated to `max_tokens` tokens. Raises `DataError` if the folder contains no such model, and
    `UsageError` without the extra `rank`.
    """

    def __init__(self, folder: str | Path, *, max_tokens: int = MAX_TOKENS) -> None:
        self._model = load_model(Path(folder).expanduser().resolve(), max_tokens)
        self.score("a", ["a"])  # fails early if it is not a cross-encoder

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the logit of each text, higher is better."""
        return list(map(float, self._model.run([(query, text) for text in texts], self._select_logits)))

    def _select_logits(self, output: Floats, _: Mask) -> Floats:
        if output.ndim == 1:
            return output
        if output.ndim != 2 or output.shape[1] not in (1, 2):
            shape = output.shape[1:]
            raise DataError(f"{self._model.folder} is not a cross-encoder: want 1 or 2 logits a pair, not {shape}")
        logits: Floats = output[:, 0] if output.shape[1] == 1 else output[:, 1] - output[:, 0]
        return logits


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
        asked, told = _read_word_weights(stem_words(query), [stem_words(text) for text in texts])
        first = _standardize(_standardize(vectors[1:] @ vectors[0]) + _standardize(told @ asked))
        untold = told * (asked == 0)
        links = untold @ untold.T * (1 - numpy.eye(len(texts)))
        least = numpy.sort(first)[-_LOOKED_AT:][0]
        best = numpy.flatnonzero(first > least - 1e-9)  # including ties with the last of them
        trust = numpy.exp(first[best] - first.max())
        scores = first + _LINKED * _standardize(trust / trust.sum() @ links[best])
        return [float(score) for score in scores]


def _read_word_weights(query: set[str], texts: Sequence[set[str]]) -> tuple[Matrix, Matrix]:
    """Return the word weights of the query, of shape (words,), and of the texts, of shape (texts, words) and length 1
    each."""
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


def _standardize(values: Matrix) -> Matrix:
    """Scale `values` to mean 0 and standard deviation 1; all 0 if they are all equal."""
    deviation = values.std()
    scaled: Matrix = (values - values.mean()) / deviation if deviation > 1e-9 else values * 0
    return scaled
