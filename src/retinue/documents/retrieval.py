"""Finding documents for a question: by words, by meaning, or by both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from .._internal.suggestions import suggestion
from ..core.values import Document
from ..errors import UsageError
from ..tools.passages import excerpt
from .embedding import Embedder, titled
from .store_protocol import Store

if TYPE_CHECKING:
    from .onnx import Floats

Mode = Literal["keyword", "vector", "hybrid"]
MODES: tuple[str, ...] = get_args(Mode)
SHOWN_CHARS = 500  # of a document that a model is shown
_K = 60  # of the fusion; the value of Cormack et al., who found little that depends on it
_DEPTH = 50  # documents of each ranking that are fused, at least


def vectors_of(documents: Sequence[Document], embedder: Embedder) -> Floats | None:
    """A vector for each document, of its title and its content; `None` where there are no documents."""
    texts = [titled(document) for document in documents]
    return embedder.embed(texts) if texts else None


def retrieve(
    store: Store,
    query: str,
    *,
    mode: Mode = "keyword",
    top_k: int = 10,
    embedder: Embedder | None = None,
    where: Mapping[str, Any] | None = None,
) -> list[Document]:
    """The `top_k` documents of `store` that fit `query` best, best first. `vector` and `hybrid` need the
    `embedder` that the documents' vectors are of; `hybrid` fuses the other two. Raises `UsageError`."""
    if mode not in MODES:
        raise UsageError(f"no mode {mode!r} of retrieval; {suggestion(mode, MODES)}")
    if mode == "keyword":
        return store.keyword(query, top_k, where)
    if embedder is None:
        raise UsageError(f"retrieval in the mode {mode!r} needs the embedder that the documents' vectors are of")
    if not query.strip():
        return []
    vector = embedder.embed([query])[0].tolist()
    if mode == "vector":
        return store.nearest(vector, top_k, where)
    depth = max(top_k, _DEPTH)
    return reciprocal_rank_fusion([store.keyword(query, depth, where), store.nearest(vector, depth, where)])[:top_k]


def reciprocal_rank_fusion(rankings: Iterable[Sequence[Document]]) -> list[Document]:
    """One ranking of several, by reciprocal rank fusion: a document's `score` is the sum of 1 / (60 + its rank)
    over those it is in. Equals stay in the order in which they were met.

    Cormack, Clarke and Büttcher, *Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning
    Methods*, SIGIR 2009.
    """
    scores: dict[str, float] = {}
    documents: dict[str, Document] = {}
    for ranking in rankings:
        for rank, document in enumerate(ranking, 1):
            documents.setdefault(document.id, document)
            scores[document.id] = scores.get(document.id, 0.0) + 1 / (_K + rank)
    best = sorted(documents, key=lambda name: -scores[name])
    return [replace(documents[name], score=scores[name]) for name in best]


def results_text(documents: Sequence[Document], query: str) -> str:
    """`documents` as a model is shown them: a line each, its title and what of it fits `query`."""
    lines = [_line(document, query) for document in documents]
    return "\n".join(lines) or "Nothing was found. Try other words."


def _line(document: Document, query: str) -> str:
    title = document.meta.get("title")
    return (f"[{title}] " if title else "") + excerpt(document.content, query, SHOWN_CHARS)
