"""`Ranker`: orders documents by relevance and keeps the best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from .._internal.sync_bridge import run_blocking
from ..core.component import Component
from ..core.values import Document
from ..errors import UsageError
from .relevance_models import Scorer, best_first, cross_encoder as named, with_scores


class Ranked(TypedDict):
    """`documents`: those kept, best first."""

    documents: list[Document]


class Ranker(Component):
    """Orders documents by relevance and keeps the best `top_k`.

    `cross_encoder`: a `CrossEncoder`, or `minilm` (`EmbeddingScorer` with the embedded MiniLM), `cohere:MODEL`,
    `jina:MODEL`, `tei:ADDRESS`, or the folder of a cross-encoder as ONNX. Its scores are in the output `documents`.

    Raises `UsageError` if the model is not installed.
    """

    effects = "read"

    def __init__(self, cross_encoder: Scorer = "minilm", top_k: int = 10, *, name: str = "Ranker") -> None:
        if top_k < 1:
            raise UsageError(f"{name}: top_k must be at least 1, not {top_k}")
        self.name = name
        self.top_k = top_k
        self._scorer = named(cross_encoder, name)

    async def run_async(self, query: str, documents: Sequence[Document]) -> Ranked:
        """Put documents in the order in which they answer the query."""
        return {"documents": best_first(await with_scores(self._scorer, query, documents))[: self.top_k]}

    def run(self, query: str, documents: Sequence[Document]) -> Ranked:
        """Run `run_async` and block."""
        return run_blocking(self.run_async(query, documents))

    async def tool_function(self, query: str, texts: list[str]) -> Ranked:
        """Put texts in the order in which they answer the query."""
        return await self.run_async(query, [Document(text) for text in texts])
