"""`Ranker` and `TopPSampler`: order documents by relevance, and keep the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from math import exp, fsum, inf, isfinite

from .._internal.concurrency import run_in_thread
from ..core.component import Component
from ..core.values import Document
from ..documents.cross_encoders import CrossEncoder
from ..documents.embedding import add_title
from ..errors import DataError, UsageError
from .retrieval_models import resolve_cross_encoder
from .services import FoundDocuments, check_positive

Scorer = CrossEncoder | str
_ROUNDING = 1e-9


async def _with_scores(scorer: CrossEncoder, query: str, documents: Sequence[Document]) -> list[Document]:
    """Return `documents` with the scores of `scorer` for `query`, in unchanged order.

    Raises `DataError` unless there is a finite number for each.
    """
    if not documents:
        return []
    texts = [add_title(document) for document in documents]
    scores = [float(score) for score in await run_in_thread(scorer.score, query, texts)]
    if len(scores) != len(texts) or not all(map(isfinite, scores)):
        raise DataError(f"a cross-encoder must give a finite number for each of {len(texts)} texts, not {scores!r:.80}")
    return [replace(document, score=score) for document, score in zip(documents, scores, strict=True)]


def _sort_best_first(documents: Sequence[Document]) -> list[Document]:
    return sorted(documents, key=lambda document: inf if document.score is None else -document.score)


class Ranker(Component):
    """Orders documents by relevance and keeps the best `top_k`.

    `cross_encoder`: a `CrossEncoder`, or `minilm` (`EmbeddingScorer` with the embedded MiniLM), `cohere:MODEL`,
    `jina:MODEL`, `tei:ADDRESS`, or the folder of a cross-encoder as ONNX. Its scores are in the output `documents`.

    Raises `UsageError` if the model is not installed.
    """

    effects = "read"

    def __init__(self, cross_encoder: Scorer = "minilm", top_k: int = 10, *, name: str = "Ranker") -> None:
        check_positive(name, top_k=top_k)
        self.name = name
        self.top_k = top_k
        self._scorer = resolve_cross_encoder(cross_encoder, name)

    async def run_async(self, query: str, documents: Sequence[Document]) -> FoundDocuments:
        """Put documents in the order in which they answer the query."""
        return {"documents": _sort_best_first(await _with_scores(self._scorer, query, documents))[: self.top_k]}

    async def tool_function(self, query: str, texts: list[str]) -> FoundDocuments:
        """Put texts in the order in which they answer the query."""
        return await self.run_async(query, [Document(text) for text in texts])


class TopPSampler(Component):
    """Keeps the smallest set of documents whose cumulative relevance exceeds `top_p`.

    A document's relevance is its share in the softmax of all scores: those of `cross_encoder` (see `Ranker`), or
    without one the documents' own. The output `documents` are best first, with that share as `probability` in `meta`.
    At least one document is kept, and all are with a `top_p` of 1.

    Raises `UsageError` unless `top_p` is above 0 and at most 1, and if the model is not installed.
    """

    effects = "read"

    def __init__(self, top_p: float = 0.95, cross_encoder: Scorer | None = None, *, name: str = "TopPSampler") -> None:
        if not 0 < top_p <= 1:
            raise UsageError(f"{name}: top_p must be above 0 and at most 1, not {top_p}")
        self.name = name
        self.top_p = top_p
        self._scorer = None if cross_encoder is None else resolve_cross_encoder(cross_encoder, name)

    async def run_async(self, query: str, documents: Sequence[Document]) -> FoundDocuments:
        """Keep only the documents that are likely to answer the query.

        Raises `UsageError` if documents without a score come in and there is no model to give one.
        """
        if self._scorer is not None:
            documents = await _with_scores(self._scorer, query, documents)
        ranked = _sort_best_first(documents)
        scores = [self._read_score(document) for document in ranked]
        powers = [exp(score - scores[0]) for score in scores]
        whole = fsum(powers)
        shares = [power / whole for power in powers]
        kept = [
            replace(document, meta={**document.meta, "probability": share})
            for document, share, sum_before in zip(ranked, shares, accumulate(shares, initial=0.0), strict=False)
            if sum_before <= self.top_p + _ROUNDING
        ]
        return {"documents": kept}

    async def tool_function(self, query: str, texts: list[str]) -> FoundDocuments:
        """Keep only the texts that are likely to answer the query."""
        return await self.run_async(query, [Document(text) for text in texts])

    def _read_score(self, document: Document) -> float:
        if document.score is None or not isfinite(document.score):
            raise UsageError(
                f"{self.name}: a document has no score ({document.content[:40]!r}); "
                "put a Ranker before it or give it a cross_encoder"
            )
        return document.score
