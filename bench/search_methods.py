"""The search methods under comparison: plain BM25, and the best available."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from retinue.components.documents import Ranker, TopPSampler
from retinue.core.tools.tool import Tool
from retinue.core.values import Document
from retinue.documents.document_store import DocumentStore
from retinue.documents.embedding import Embedder, MiniLM
from retinue.documents.retrieval import Mode, format_results, read_vectors, retrieve
from retinue.tools import passages

RANKED = 20  # documents that are reranked
TOP_P = 0.97

Search: TypeAlias = Callable[[str], list[Document]]


def ways(path: Path, top_k: int) -> Iterator[tuple[str, Search]]:
    """Yield the methods of finding the `top_k` best of the passages in `path`; each extends the previous one."""
    embedder = MiniLM()
    store = index_passages(path, embedder)
    ranker, top_p = Ranker("minilm", top_k), TopPSampler(TOP_P)

    def retrieved(mode: Mode) -> Search:
        return lambda query: retrieve(store, query, mode=mode, top_k=top_k, embedder=embedder)

    def ranked(query: str) -> list[Document]:
        found = retrieve(store, query, mode="hybrid", top_k=RANKED, embedder=embedder)
        return ranker.run(query, found)["documents"]

    yield "BM25", retrieved("keyword")
    yield "vectors", retrieved("vector")
    yield "hybrid", retrieved("hybrid")
    yield "hybrid, ranker", ranked
    yield "hybrid, ranker, top-p", lambda query: top_p.run(query, ranked(query))["documents"]


def index_passages(path: Path, embedder: Embedder) -> DocumentStore:
    """Index the passages in `path` in memory, with vectors of titles and texts."""
    with path.open(encoding="utf-8") as lines:
        read = [json.loads(line) for line in lines]
    found = [Document(line["text"], str(number), {"title": line["title"]}) for number, line in enumerate(read)]
    store = DocumentStore()
    store.write(found, read_vectors(found, embedder))
    return store


def best(path: Path, top_k: int) -> Tool:
    """Return a search tool like `passages`, but with the best method.

    Raises `UsageError` without the extras `documents` and `rank`, or MiniLM's weights.
    """
    *_, (_, search) = ways(path, top_k)

    def found(query: str) -> str:
        return format_results(search(query), query)

    # Both tools have the same description, so that only their results differ.
    return replace(bm25(path, top_k), something=found)


def bm25(path: Path, top_k: int) -> Tool:
    """Return the search tool with plain BM25."""
    return passages(path, top_k=top_k)


SEARCHES: Mapping[str, Callable[[Path, int], Tool]] = {"bm25": bm25, "best": best}
