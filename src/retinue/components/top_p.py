"""`TopPSampler`: keeps documents by cumulative relevance instead of a fixed number (Haystack's tools proposal, PR
4084).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from math import exp, fsum, isfinite

from .._internal.sync_bridge import run_blocking
from ..core.component import Component
from ..core.values import Document
from ..errors import UsageError
from .ranker import Ranked
from .relevance_models import Scorer, best_first, cross_encoder as named, with_scores

_ROUNDING = 1e-9


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
        self._scorer = None if cross_encoder is None else named(cross_encoder, name)

    async def run_async(self, query: str, documents: Sequence[Document]) -> Ranked:
        """Keep only the documents that are likely to answer the query.

        Raises `UsageError` if documents without a score come in and there is no model to give one.
        """
        if self._scorer is not None:
            documents = await with_scores(self._scorer, query, documents)
        ranked = best_first(documents)
        shares = _softmax([self._score(document) for document in ranked])
        before = [0.0, *accumulate(shares)]
        kept = [
            replace(document, meta={**document.meta, "probability": share})
            for document, share, sum_before in zip(ranked, shares, before, strict=False)
            if sum_before <= self.top_p + _ROUNDING
        ]
        return {"documents": kept}

    def run(self, query: str, documents: Sequence[Document]) -> Ranked:
        """Run `run_async` and block."""
        return run_blocking(self.run_async(query, documents))

    async def tool_function(self, query: str, texts: list[str]) -> Ranked:
        """Keep only the texts that are likely to answer the query."""
        return await self.run_async(query, [Document(text) for text in texts])

    def _score(self, document: Document) -> float:
        if document.score is None or not isfinite(document.score):
            raise UsageError(
                f"{self.name}: a document has no score ({document.content[:40]!r}); "
                "put a Ranker before it or give it a cross_encoder"
            )
        return document.score


def _softmax(scores: Sequence[float]) -> list[float]:
    highest = max(scores, default=0.0)
    shares = [exp(score - highest) for score in scores]
    whole = fsum(shares)
    return [share / whole for share in shares]
