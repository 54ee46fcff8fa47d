"""`Retriever`: finds the documents of a store that match a question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

from .._internal.message_text import suggestion
from ..core.component import Component, ComponentReference
from ..core.values import Document
from ..documents.document_store import Store, checked_store
from ..documents.embedding import Embedder
from ..documents.retrieval import MODES, Mode, results_text, retrieve
from ..errors import UsageError
from .embedding_models import embedder as named


class Retrieved(TypedDict):
    """`documents`, best first, and `results`: the text for a model."""

    documents: list[Document]
    results: str


class Retriever(Component):
    """Finds the `top_k` documents of `store` that match a query best. Raises `UsageError` for invalid settings.

    Args:
        mode: `keyword` (BM25), `vector` (cosine) or `hybrid`, which fuses both by rank.
        embedder: Required for `vector` and `hybrid`, and the same that made the documents' vectors: an `Embedder`,
            `minilm`, `openai:MODEL`, or the folder of a model as ONNX.
        where: Conditions that every document must meet, in addition to any others (see `DocumentStore`).
        sources: The model is also shown where each document is from, as a link: its `url`, or its `path` after this
            text (an address, or a folder with a slash; may be empty).
    """

    effects = "read"

    def __init__(  # noqa: PLR0913 -- the parts of Haystack's retrievers, and how results are shown
        self,
        store: Annotated[Store, ComponentReference("DocumentStore")],
        mode: Mode = "keyword",
        top_k: int = 10,
        embedder: Embedder | str | None = None,
        where: Mapping[str, Any] | None = None,
        *,
        sources: str | None = None,
        name: str = "Retriever",
    ) -> None:
        if mode not in MODES:
            raise UsageError(f"{name}: no mode {mode!r}; {suggestion(mode, MODES)}")
        if mode != "keyword" and embedder is None:
            raise UsageError(f"{name}: the mode {mode!r} needs an embedder")
        if top_k < 1:
            raise UsageError(f"{name}: top_k must be at least 1, not {top_k}")
        self.name = name
        self.sources = sources
        self.store, self.mode, self.top_k, self.where = checked_store(store, name), mode, top_k, where
        self.embedder = None if embedder is None else named(embedder, name)

    def run(self, query: str, top_k: int | None = None, where: Mapping[str, Any] | None = None) -> Retrieved:
        """Search the documents. Use a few telling words.

        `top_k` instead of its own; `where` beside its own, which always holds. Raises `UsageError`.
        """
        found = retrieve(
            self.store,
            query,
            mode=self.mode,
            top_k=self.top_k if top_k is None else top_k,
            embedder=self.embedder,
            where={**(where or {}), **(self.where or {})},
        )
        return {"documents": found, "results": results_text(found, query, self.sources)}
