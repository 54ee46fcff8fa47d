"""Retrieval of documents for a question: by keyword, by vector, or by both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args
from urllib.parse import quote

from ..core.values import Document
from ..errors import UsageError
from ..tools.passages import shorten_to_excerpt
from .document_store import Store
from .embedding import Embedder, add_title

if TYPE_CHECKING:
    from .embedding import Floats

Mode = Literal["keyword", "vector", "hybrid"]
MODES: tuple[str, ...] = get_args(Mode)
SHOWN_CHARS = 500  # of a document that a model is shown
_K = 60  # of the fusion; the value of Cormack et al., who found little sensitivity to it
_DEPTH = 50  # minimum number of documents fused from each ranking


def read_vectors(documents: Sequence[Document], embedder: Embedder) -> Floats | None:
    """Return a vector of title and content for each document; `None` if there are no documents."""
    texts = [add_title(document) for document in documents]
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
    """Return the `top_k` best documents of `store` for `query`, best first.

    `vector` and `hybrid` need the `embedder` that made the documents' vectors; `hybrid` fuses the other two modes.
    Raises `UsageError`.
    """
    if mode == "keyword":
        return store.keyword(query, top_k, where)
    if embedder is None:
        raise UsageError(f"retrieval in the mode {mode!r} needs the embedder that made the documents' vectors")
    if not query.strip():
        return []
    vector = embedder.embed([query])[0].tolist()
    if mode == "vector":
        return store.nearest(vector, top_k, where)
    depth = max(top_k, _DEPTH)
    return fuse_rankings([store.keyword(query, depth, where), store.nearest(vector, depth, where)])[:top_k]


def fuse_rankings(rankings: Iterable[Sequence[Document]]) -> list[Document]:
    """Merge rankings by reciprocal rank fusion: a document's `score` is the sum of 1 / (60 + its rank) over the
    rankings that contain it. Ties stay in the order of first appearance.

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


def format_results(documents: Sequence[Document], query: str, sources: str | None = None) -> str:
    """Format `documents` for a model: one line each, with the title and the parts that match `query`.

    With `sources`, a title is a link in Markdown to the document's `url`, or to its `path` below `sources`.
    """
    lines = []
    for document in documents:
        title, url, path = (document.meta.get(key) for key in ("title", "url", "path"))
        link = "" if sources is None else str(url) if url else f"{sources}{quote(str(path))}" if path else ""
        link = link.replace("(", "%28").replace(")", "%29").replace(" ", "%20")  # these would end a link in Markdown
        head = f"[{title or link}]({link}) " if link else f"[{title}] " if title else ""
        lines.append(head + shorten_to_excerpt(document.content, query, SHOWN_CHARS))
    return "\n".join(lines) or "Nothing was found. Try other words."
